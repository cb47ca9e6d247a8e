"""Layouts of peers: samples to slots, then each slot's samples to microbatches under the token cap."""

from collections.abc import Callable

from definitions import functions, version

from routepack.instance import Instance

AREAL = ("ffd_allocate", "_ffd_allocate", "kk_allocate", "_kk_partition", "_KKSet", "_KKState", "balanced_greedy_partition")

Cells = list[list[list[int]]]
Packer = Callable[[list[int], int, int], list[list[int]] | None]  # lengths of a slot, cap, least number of microbatches


def equal_rows(lengths: list[int], slots: list[list[int]], cap: int, pack: Packer) -> Cells | None:
    """Pack every slot into the same number of microbatches: as many as the slot that needs most, as trainers ask for."""
    rows = max(-(-sum(lengths[i] for i in slot) // cap) for slot in slots)
    while rows <= min(map(len, slots)):
        packed = [pack([lengths[i] for i in slot], cap, rows) for slot in slots]
        counts = [len(groups) for groups in packed if groups is not None]
        if len(counts) == len(slots) and max(counts) == rows == min(counts):
            return [
                [[slot[k] for k in group] for group in groups] for slot, groups in zip(slots, packed, strict=True) if groups is not None
            ]
        rows = max([*counts, rows + 1])
    return None


def verl() -> tuple[str, Callable[[Instance], Cells | None]] | None:
    """Equal sample counts a slot by Karmarkar-Karp on the cost of length, then Karmarkar-Karp again until every microbatch fits."""
    found = functions("verl", "utils/seqlen_balancing.py", ("karmarkar_karp", "get_seqlen_balanced_partitions"))
    if found is None:
        return None
    partition = found["get_seqlen_balanced_partitions"]

    def cost(tokens: int) -> int:
        return 24576 * tokens + tokens * tokens  # the package's workload of a sample

    def pack(lengths: list[int], cap: int, rows: int) -> list[list[int]] | None:
        groups = partition([cost(t) for t in lengths], rows, equal_size=False)
        return groups if all(sum(lengths[k] for k in group) <= cap for group in groups) else None

    def lay_out(instance: Instance) -> Cells | None:
        lengths = instance.aligned_lengths.tolist()
        slots = partition([cost(t) for t in lengths], instance.topology.dp, equal_size=len(lengths) % instance.topology.dp == 0)
        return equal_rows(lengths, slots, instance.token_cap, pack)

    return f"verl {version('verl')}", lay_out


def areal(algorithm: str) -> tuple[str, Callable[[Instance], Cells | None]] | None:
    """Samples to slots by a balanced greedy partition, then the package's allocation into microbatches."""
    found = functions("areal", "utils/seqpack.py", AREAL)
    if found is None:
        return None
    allocate, spread = found[f"{algorithm}_allocate"], found["balanced_greedy_partition"]

    def pack(lengths: list[int], cap: int, rows: int) -> list[list[int]] | None:
        groups: list[list[int]] = allocate(lengths, cap, rows)
        return groups

    def lay_out(instance: Instance) -> Cells | None:
        lengths = instance.aligned_lengths.tolist()
        return equal_rows(lengths, spread(lengths, instance.topology.dp), instance.token_cap, pack)

    return f"AReaL {version('areal')}, {algorithm}", lay_out
