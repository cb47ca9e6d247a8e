"""The window that a command reads, with the options that belong to it."""

import dataclasses
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from routepack.errors import InvalidInstance
from routepack.instance import Instance, Oversize, Sync

OPTIONS = (
    click.argument("window"),
    click.option(
        "--oversize", type=click.Choice(["error", "own_row"]), help="A sample over the cap: refuse it, or give it a row of its own."
    ),
    click.option("--equal-samples/--no-equal-samples", default=None, help="Give every slot the same number of samples."),
    click.option("--keep-together", type=click.Choice(["prompts"]), help="Keep the samples of one prompt in one cell."),
    click.option("--sync", type=click.Choice(["shard", "row"]), help="Shards meet once per step, or in every row (ZeRO-3)."),
    click.option("--cost", type=click.Path(path_type=Path), help="Cost model that replaces the window's (JSON, of calibrate)."),
)


def takes_window(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add WINDOW and the options that change it; the command receives the ``instance`` that they describe."""

    @functools.wraps(function)
    def command(
        window: str,
        oversize: Oversize | None,
        equal_samples: bool | None,
        keep_together: str | None,
        sync: Sync | None,
        cost: Path | None,
        **rest: Any,
    ) -> Any:
        instance = with_options(read_window(window), oversize, equal_samples, keep_together, sync, cost)
        return function(instance=instance, **rest)

    for option in reversed(OPTIONS):
        command = option(command)
    return command


def with_options(
    instance: Instance,
    oversize: Oversize | None,
    equal_samples: bool | None,
    keep_together: str | None,
    sync: Sync | None,
    cost: Path | None,
) -> Instance:
    """Return a window under the options that were given; the others stay as the window has them."""
    if cost is not None:
        from routepack.instances.timings import read_cost

        instance = dataclasses.replace(instance, cost=read_cost(cost))
    changes: dict[str, Any] = {"oversize": oversize, "equal_samples": equal_samples, "sync": sync}
    changes["keep_together"] = prompt_groups(instance) if keep_together else None
    changes = {key: value for key, value in changes.items() if value is not None}
    return dataclasses.replace(instance, options=dataclasses.replace(instance.options, **changes)) if changes else instance


def read_window(window: str) -> Instance:
    """
    Read a window by its path, or by its name if it ships with the package; the beginning of a name does if it is the only one.

    Raises
    ------
    InvalidInstance
        It is neither, or the file is malformed.
    """
    from routepack.instances import files, library

    if Path(window).exists():
        return files.read_instance(Path(window))
    shipped = [name for name in library.names() if name == window] or [name for name in library.names() if name.startswith(window)]
    if window and len(shipped) == 1:
        return library.load(shipped[0])
    raise InvalidInstance(f"window = {window!r} is neither a file nor shipped; give a path or one of {', '.join(library.names())}.")


def prompt_groups(instance: Instance) -> tuple[tuple[int, ...], ...]:
    """
    Samples of each prompt.

    Raises
    ------
    InvalidInstance
        The window does not name its prompts.
    """
    if instance.window.prompt_ids is None:
        raise InvalidInstance("prompt_ids is missing from the window; --keep-together prompts needs it.")
    groups: dict[object, list[int]] = {prompt: [] for prompt in instance.window.prompt_ids}
    for i, prompt in enumerate(instance.window.prompt_ids):
        groups[prompt].append(i)
    return tuple(tuple(group) for group in groups.values())


def check_output(path: Path | None) -> None:
    """
    Say that a file cannot be written before any work is done for it.

    Raises
    ------
    InvalidInstance
        Its folder does not exist or is not writable, or it is a folder itself.
    """
    if path is None:
        return
    if path.is_dir():
        raise InvalidInstance(f"output = {path} is a folder; give a file name.")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InvalidInstance(f"output = {path} cannot be written; create the folder {path.parent} or make it writable.")
