"""Which DP slots dispatch to which EP group."""

from dataclasses import dataclass
from typing import Self

from routepack.errors import InvalidInstance

MAX_RANKS = 1 << 20


def positive(name: str, value: object) -> int:
    """Return a size as a Python int, or say by name what is wrong with it."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidInstance(f"{name} = {value!r} is not an integer; give a whole number of at least 1.")
    number = int(value.__index__())
    if number < 1:
        raise InvalidInstance(f"{name} = {number} is below 1; give a whole number of at least 1.")
    return number


@dataclass(frozen=True, slots=True)
class Topology:
    """
    DP slots, EP ranks and EDP shards of one pipeline stage.

    A shard holds several slots (``dp > edp``), exactly one, or a fraction of one (``edp > dp``). In the last case the tokens of a slot are
    split over ``parts_per_slot`` shards; the parts are taken as equal and the slot is planned as one shard whose expert cost is divided.

    Parameters
    ----------
    dp
        DP slots S.
    ep
        EP ranks P of a shard; each holds E/P experts of every layer.
    edp
        Physical EDP shards G.

    Raises
    ------
    InvalidInstance
        A size is below 1, or shards straddle slots: neither of S and G divides the other.
    """

    dp: int
    ep: int
    edp: int

    def __post_init__(self) -> None:
        for name in ("dp", "ep", "edp"):
            size = positive(f"topology.{name}", getattr(self, name))
            if size > MAX_RANKS:
                raise InvalidInstance(f"topology.{name} = {size} exceeds {MAX_RANKS}; check the sizes.")
            object.__setattr__(self, name, size)
        if self.dp % self.edp and self.edp % self.dp:
            raise InvalidInstance(
                f"topology: dp = {self.dp} slots and edp = {self.edp} shards straddle, neither count divides the other; "
                "choose sizes whose slots hold whole shards or whose shards hold whole slots."
            )

    @classmethod
    def of(cls, dp: int, ep: int, edp: int | None = None) -> Self:
        """Build from plain sizes; ``edp`` defaults to ``dp / ep`` (tp = cp = etp = 1), and must be given where ep does not divide dp."""
        if edp is None:
            slots, ranks = positive("topology.dp", dp), positive("topology.ep", ep)
            if slots % ranks:
                raise InvalidInstance(f"topology.edp is missing and ep = {ranks} does not divide dp = {slots}; give edp.")
            edp = slots // ranks
        return cls(dp, ep, edp)

    @classmethod
    def from_trainer(cls, world: int, *, tp: int = 1, cp: int = 1, pp: int = 1, ep: int = 1, etp: int | None = None) -> Self:
        """
        Fold trainer sizes as Megatron's rank order tp-cp-ep-dp-pp does.

        Parameters
        ----------
        world
            Ranks of the whole job.
        tp, cp, pp
            Tensor, context and pipeline parallel sizes.
        ep, etp
            Expert and expert-tensor parallel sizes; ``etp`` defaults to ``tp``.

        Raises
        ------
        InvalidInstance
            The sizes do not divide the world, or shards straddle slots.

        References
        ----------
        .. [1] NVIDIA/Megatron-LM, ``core/parallel_state.py``, ``RankGenerator``.
        """
        etp = tp if etp is None else etp
        sizes = {"world": world, "tp": tp, "cp": cp, "pp": pp, "ep": ep, "etp": etp}
        sizes = {name: positive(name, size) for name, size in sizes.items()}
        slot = sizes["tp"] * sizes["cp"]
        shard = sizes["etp"] * sizes["ep"]
        for what, size in (("pp*tp*cp", sizes["pp"] * slot), ("pp*etp*ep", sizes["pp"] * shard)):
            if sizes["world"] % size:
                raise InvalidInstance(f"world = {sizes['world']} is not a multiple of {what} = {size}; change the world or these sizes.")
        stage = sizes["world"] // sizes["pp"]
        dp, edp = stage // slot, stage // shard
        if dp % edp and edp % dp:
            raise InvalidInstance(
                f"topology: slots of tp*cp = {slot} ranks and shards of etp*ep = {shard} ranks straddle "
                f"(dp = {dp}, edp = {edp} for world {sizes['world']}, pp {sizes['pp']}, tp {sizes['tp']}, cp {sizes['cp']}, "
                f"ep {sizes['ep']}, etp {sizes['etp']}); choose sizes where one is a multiple of the other."
            )
        return cls(dp, sizes["ep"], edp)

    @property
    def num_shards(self) -> int:
        """Shards that are planned: G, or S where a slot is split over several physical shards."""
        return min(self.dp, self.edp)

    @property
    def slots_per_shard(self) -> int:
        """DP slots D of a planned shard."""
        return self.dp // self.num_shards

    @property
    def parts_per_slot(self) -> int:
        """Physical shards that share the tokens of one slot."""
        return max(1, self.edp // self.dp)

    @property
    def slots_of_shard(self) -> list[list[int]]:
        """Slots that dispatch to each physical shard, in order; a split slot appears under each of its shards."""
        if self.edp > self.dp:
            return [[g // self.parts_per_slot] for g in range(self.edp)]
        return [list(range(g * self.slots_per_shard, (g + 1) * self.slots_per_shard)) for g in range(self.edp)]

    @property
    def edp_of_slot(self) -> list[list[int]]:
        """Physical shards to which each slot dispatches."""
        return [[g for g, slots in enumerate(self.slots_of_shard) if d in slots] for d in range(self.dp)]
