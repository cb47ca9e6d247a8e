"""Windows and plans as files, the windows that ship with the package, and windows made to measure."""

from typing import Any

_HOMES = {
    "generate": "routepack.instances.generators",
    "instance_from_dict": "routepack.instances.files",
    "instance_to_dict": "routepack.instances.files",
    "plan_from_dict": "routepack.instances.files",
    "preset": "routepack.instances.presets",
    "read_instance": "routepack.instances.files",
    "read_plan": "routepack.instances.files",
    "result_to_dict": "routepack.instances.files",
    "write_instance": "routepack.instances.files",
    "write_result": "routepack.instances.files",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'routepack.instances' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
