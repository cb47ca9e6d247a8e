"""Instances as plain dictionaries, and the public bin-packing text form."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from routepack.cost_model import CostModel, Stage
from routepack.errors import InvalidInstance
from routepack.instance import Instance, Options
from routepack.instances.documents import Fields, brief, whole_lists
from routepack.topology import Topology
from routepack.window import Window

FORMAT = "routepack-instance"
SCALAR_KEYS = (
    "format",
    "version",
    "name",
    "topology",
    "token_cap",
    "length_multiple",
    "row_multiple",
    "cost",
    "options",
    "top_k",
)
ARRAY_KEYS = ("lengths", "demand", "sample_ids", "prompt_ids", "moe_layers", "current_placement")
INSTANCE_KEYS = SCALAR_KEYS + ARRAY_KEYS
INSTANCE_NEEDS = ("format", "version", "topology", "token_cap", "lengths", "demand")
TOPOLOGY_KEYS = ("dp", "ep", "edp")
COST_KEYS = ("kind", "share", "expert_cost", "stages")
STAGE_KEYS = ("name", "linear", "quadratic")
OPTION_KEYS = ("oversize", "equal_samples", "keep_together", "sync")

MAX_SAMPLES, MAX_LAYERS, MAX_EXPERTS = 8 * 8192, 1024, 4096
MAX_DEMAND_BYTES = 16 << 30


def check_size(shape: tuple[int, ...], itemsize: int = 4) -> None:
    """
    Refuse demand beyond what this package handles, before anything is allocated for it.

    Parameters
    ----------
    shape
        (N, L, E).
    itemsize
        Bytes of an entry.

    Raises
    ------
    InvalidInstance
        A dimension or the whole is too large.
    """
    for what, size, limit in zip(
        ("samples", "layers", "experts", "bytes"),
        (*shape, shape[0] * shape[1] * shape[2] * itemsize),
        (MAX_SAMPLES, MAX_LAYERS, MAX_EXPERTS, MAX_DEMAND_BYTES),
        strict=True,
    ):
        if size > limit:
            raise InvalidInstance(f"demand has {size} {what}, more than {limit}; split the window.")


def instance_from_dict(document: Any) -> Instance:
    """
    Build an instance from its JSON form.

    Parameters
    ----------
    document
        The parsed JSON; the arrays of `ARRAY_KEYS` may also be NumPy arrays.

    Raises
    ------
    InvalidInstance
        An unknown or missing key, a value of the wrong type, shape or range; the place is named.
    """
    fields = Fields(document, "", INSTANCE_KEYS, INSTANCE_NEEDS, InvalidInstance)
    fields.check_format(FORMAT)
    given = fields.values
    window = Window(
        lengths=_array(fields, "lengths", 1),
        demand=_array(fields, "demand", 3),
        sample_ids=_ids(fields, "sample_ids"),
        prompt_ids=_ids(fields, "prompt_ids"),
        moe_layers=_array(fields, "moe_layers", 1) if "moe_layers" in given else None,
        top_k=fields.whole("top_k", 1) if "top_k" in given else None,
    )
    return Instance(
        window=window,
        topology=_topology(given["topology"]),
        token_cap=fields.whole("token_cap", 1),
        name=fields.text("name") if "name" in given else "",
        length_multiple=fields.whole("length_multiple", 1) if "length_multiple" in given else 1,
        row_multiple=fields.whole("row_multiple", 1) if "row_multiple" in given else 1,
        cost=cost_from_dict(given["cost"]) if "cost" in given else CostModel(),
        options=_options(given["options"]) if "options" in given else Options(),
        current_placement=_array(fields, "current_placement", 2) if "current_placement" in given else None,
    )


def _array(fields: Fields, key: str, depth: int) -> NDArray[Any]:
    values = fields.values[key]
    array: NDArray[Any] = values if isinstance(values, np.ndarray) else _rectangle(key, fields.list(key, depth), depth)
    if key == "demand" and array.ndim == 3:
        check_size(array.shape, array.itemsize)
    return array


def _rectangle(key: str, values: list[Any], depth: int) -> NDArray[np.int64]:
    shape: list[int] = []
    level: list[Any] = [values]
    for axis in range(depth):
        shape.append(len(level[0]) if level else 0)
        odd = next((part for part in level if len(part) != shape[axis]), None)
        if odd is not None:
            raise InvalidInstance(f"{key} is ragged: {brief(odd)} has {len(odd)} entries where {shape[axis]} are needed; fill it up.")
        if axis < depth - 1:
            level = [part for outer in level for part in outer]
    return np.array(values, dtype=np.int64).reshape(shape)


def _ids(fields: Fields, key: str) -> Any:
    values = fields.values.get(key)
    if key not in fields.values or (isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iuU"):
        return values
    if not isinstance(values, list):
        raise InvalidInstance(f"{key} = {brief(values)} is not a list of strings or integers; give one for each sample.")
    return values


def _topology(values: Any) -> Topology:
    fields = Fields(values, "topology", TOPOLOGY_KEYS, ("dp", "ep"), InvalidInstance)
    sizes = {key: fields.whole(key, 1) for key in fields.values}
    return Topology.of(**sizes)


def cost_from_dict(values: Any) -> CostModel:
    """
    Build a cost model from its JSON form.

    Raises
    ------
    InvalidInstance
        An unknown or missing key, or a value of the wrong type or range.
    """
    fields = Fields(values, "cost", COST_KEYS, ("kind",), InvalidInstance)
    fields.choice("kind", ("window", "absolute"))
    if "expert_cost" in fields.values and values["expert_cost"] is None:
        raise InvalidInstance("cost.expert_cost = None is not a number; leave it out.")
    stages = fields.values.get("stages", [])
    if not isinstance(stages, list):
        raise InvalidInstance(f"cost.stages = {brief(stages)} is not a list; give a list of stages.")
    return CostModel(**{**fields.values, "stages": tuple(_stage(k, stage) for k, stage in enumerate(stages))})


def _stage(k: int, values: Any) -> Stage:
    fields = Fields(values, f"cost.stages[{k}]", STAGE_KEYS, STAGE_KEYS, InvalidInstance)
    return Stage(**fields.values)


def _options(values: Any) -> Options:
    fields = Fields(values, "options", OPTION_KEYS, (), InvalidInstance)
    if "keep_together" in fields.values:
        whole_lists("options.keep_together", fields.values["keep_together"], 2, InvalidInstance)
    return Options(**fields.values)


def cost_to_dict(cost: CostModel) -> dict[str, Any]:
    """Return the JSON form of a cost model."""
    model: dict[str, Any] = {"kind": cost.kind}
    if cost.kind == "window" or cost.share != CostModel().share:
        model["share"] = cost.share
    if cost.expert_cost is not None:
        model["expert_cost"] = cost.expert_cost
    model["stages"] = [{"name": stage.name, "linear": stage.linear, "quadratic": stage.quadratic} for stage in cost.stages]
    return model


def scalars_of(instance: Instance) -> dict[str, Any]:
    """Everything of an instance but its arrays, as plain values."""
    topology, options = instance.topology, instance.options
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": 1,
        "name": instance.name,
        "topology": {"dp": topology.dp, "ep": topology.ep, "edp": topology.edp},
        "token_cap": instance.token_cap,
        "length_multiple": instance.length_multiple,
        "row_multiple": instance.row_multiple,
        "cost": cost_to_dict(instance.cost),
    }
    if options != Options():
        document["options"] = {
            "oversize": options.oversize,
            "equal_samples": options.equal_samples,
            "keep_together": [list(group) for group in options.keep_together],
            "sync": options.sync,
        }
    if instance.window.top_k is not None:
        document["top_k"] = instance.window.top_k
    return document


def arrays_of(instance: Instance) -> dict[str, NDArray[Any]]:
    """Arrays of an instance, by key; what was not given is left out."""
    window = instance.window
    arrays: dict[str, NDArray[Any] | None] = {
        "lengths": window.lengths,
        "demand": window.demand,
        "sample_ids": None if window.sample_ids is None else np.array(window.sample_ids),
        "prompt_ids": None if window.prompt_ids is None else np.array(window.prompt_ids),
        "moe_layers": window.moe_layers,
        "current_placement": instance.current_placement,
    }
    return {key: array for key, array in arrays.items() if array is not None}


def instance_to_dict(instance: Instance) -> dict[str, Any]:
    """
    Return the JSON form of an instance, plain Python values only.

    Building an instance from it gives an equal fingerprint.
    """
    return scalars_of(instance) | {key: array.tolist() for key, array in arrays_of(instance).items()}


def instance_from_text(text: bytes, name: str) -> Instance:
    """
    Build a lengths-only instance from the public bin-packing text form: n, the capacity, then n lengths.

    One slot, one rank, one layer with one expert, which takes every token.

    Parameters
    ----------
    text
        Integers parted by white space.
    name
        Name of the instance.

    Raises
    ------
    InvalidInstance
        A word is no integer, or their number is not n + 2.
    """
    words = text.split(maxsplit=MAX_SAMPLES + 2)
    wrong = next((word for word in words if not word.isdigit() or len(word) > 18), None)
    if wrong is not None:
        raise InvalidInstance(f"{brief(wrong)} is no token count of the bin-packing form; name other files .json or .npz.")
    if len(words) < 3 or len(words) != int(words[0]) + 2:
        raise InvalidInstance(
            f"{len(words)} numbers where the bin-packing form has n, C and n lengths (n <= {MAX_SAMPLES}); complete the file."
        )
    _, cap, *lengths = (int(word) for word in words)
    tokens: NDArray[Any] = np.array(lengths, dtype=np.int64)
    return Instance(Window(tokens, tokens[:, None, None]), Topology(1, 1, 1), cap, name=name)
