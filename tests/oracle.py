"""
An independent reading of the problem in plain Python, without arrays: the oracle of the kernel's tests.

It shares no code with the package but the names of the fields it reads. Fractions keep kappa exact where the package computes in doubles.
"""

import itertools
import math
from fractions import Fraction


def half_even(x):
    """Round to the nearest integer, halves to the even one."""
    below = math.floor(x)
    if x - below == Fraction(1, 2):
        return below if below % 2 == 0 else below + 1
    return below if x - below < Fraction(1, 2) else below + 1


def ticks(instance):
    """b[i][s], rounded exactly; a product within a double's error of a half is left to the package."""
    model, lengths = instance.cost, instance.window.lengths.tolist()
    raw = [[Fraction(s.linear) * t + Fraction(s.quadratic) * t * t for s in model.stages] for t in lengths]
    if model.kind == "absolute":
        kappa = 1 / Fraction(model.expert_cost)
    else:
        demand = sum(x for sample in instance.window.demand.tolist() for layer in sample for x in layer)
        total = sum(map(sum, raw))
        width = shards(instance)[1]
        share = Fraction(model.share)
        kappa = share / (1 - share) * Fraction(demand, instance.topology.ep) / (total / width) if total else 0
    return [[half_even(kappa * x) for x in row] for row in raw]


def shards(instance):
    """Planned shards, slots of each, physical parts of a slot."""
    S, G = instance.topology.dp, instance.topology.edp
    return (G, S // G, 1) if G <= S else (S, 1, G // S)


def row_shard_costs(instance, placement, layout, b=None):
    """J[r][g] for ``placement[l][e]`` and ``layout[d][r]``."""
    b = ticks(instance) if b is None else b
    demand = instance.window.demand.tolist()
    count, width, parts = shards(instance)
    costs = []
    for r in range(len(layout[0])):
        costs.append([])
        for g in range(count):
            cells = [layout[d][r] for d in range(g * width, (g + 1) * width)]
            attention = sum(max(sum(b[i][s] for i in cell) for cell in cells) for s in range(len(b[0])))
            expert = 0
            for layer, ranks in enumerate(placement):
                load = [0] * instance.topology.ep
                for cell in cells:
                    for i in cell:
                        for e, p in enumerate(ranks):
                            load[p] += demand[i][layer][e]
                expert += max(load)
            costs[r].append(attention + math.ceil(Fraction(expert, parts)))
    return costs


def score(instance, placement, layout, b=None):
    """The three components of the objective."""
    costs = row_shard_costs(instance, placement, layout, b)
    flat = [x for row in costs for x in row]
    first = sum(max(row) for row in costs) if instance.options.sync == "row" else max(sum(column) for column in zip(*costs, strict=True))
    return first, sum(flat), max(flat)


def allowed(instance, placement, layout):
    """Whether a plan keeps every constraint."""
    count, ranks = instance.window.num_samples, instance.topology.ep
    cells = [cell for slot in layout for cell in slot]
    if len(layout) != instance.topology.dp or len({len(slot) for slot in layout}) != 1 or not layout[0]:
        return False
    if len(layout[0]) % instance.row_multiple:
        return False
    if sorted(i for cell in cells for i in cell) != list(range(count)) or not all(cells):
        return False
    groups = [set(g) for g in instance.options.keep_together]
    for cell in cells:
        tokens = sum(math.ceil(int(instance.window.lengths[i]) / instance.length_multiple) * instance.length_multiple for i in cell)
        if any(0 < len(g & set(cell)) < len(g) for g in groups):
            return False
        one_unit = len(cell) == 1 or any(set(cell) == g for g in groups)
        if tokens > instance.token_cap and not (one_unit and instance.options.oversize == "own_row"):
            return False
    if instance.options.equal_samples and len({sum(map(len, slot)) for slot in layout}) > 1:
        return False
    share = instance.window.num_experts // ranks
    return all(sorted(layer) == sorted(list(range(ranks)) * share) for layer in placement)


def placements_of_layer(experts, ranks):
    """Every way to put E/P experts of one layer on each rank; the first expert stays on rank 0, which the symmetry allows."""
    for rest in set(itertools.permutations(sorted(list(range(ranks)) * (experts // ranks))[1:])):
        yield (0, *rest)


def layouts(instance, rows):
    """Every layout of so many rows that keeps every constraint, cells as sorted lists."""
    slots = instance.topology.dp
    identity = [[e * instance.topology.ep // instance.window.num_experts for e in range(instance.window.num_experts)]]
    for cell_of in itertools.product(range(slots * rows), repeat=instance.window.num_samples):
        layout = [[[i for i, c in enumerate(cell_of) if c == d * rows + r] for r in range(rows)] for d in range(slots)]
        if allowed(instance, identity, layout):
            yield layout


def best(instance, rows, every_placement=True):
    """The lexicographically least score over all layouts, and over all placements too; ``None`` where no layout exists."""
    experts, ranks = instance.window.num_experts, instance.topology.ep
    one = list(placements_of_layer(experts, ranks)) if every_placement else [tuple(e * ranks // experts for e in range(experts))]
    placements = list(itertools.product(one, repeat=instance.window.num_layers))
    b = ticks(instance)
    return min((score(instance, p, x, b) for x in layouts(instance, rows) for p in placements), default=None)


def fewest_cells(lengths, cap):
    """Bin-packing optimum by trying every assignment in canonical order."""
    least = len(lengths)

    def place(k, loads):
        nonlocal least
        if len(loads) >= least:
            return
        if k == len(lengths):
            least = len(loads)
            return
        for c in range(len(loads)):
            if loads[c] + lengths[k] <= cap:
                place(k + 1, [*loads[:c], loads[c] + lengths[k], *loads[c + 1 :]])
        place(k + 1, [*loads, lengths[k]])

    place(0, [])
    return least
