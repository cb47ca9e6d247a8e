"""Small windows with proven optima, one JSON object a line: what exact methods, bounds and heuristics are checked against."""

import json
from dataclasses import dataclass
from importlib import resources

import numpy as np

from routepack.cost import Score
from routepack.instance import Instance
from routepack.instances.instance_form import instance_from_dict
from routepack.plan import Layout, Placement, Plan


@dataclass(frozen=True, slots=True, eq=False)
class SmallCase:
    """
    A window, its placement and number of rows, and the best score that a layout can have.

    Parameters
    ----------
    instance
        The window.
    plan
        A plan that attains the optimum.
    rows
        Rows R.
    optimum
        The score, optimal for the plan's placement and R rows.
    proved_by
        Which engines agreed, and whether all layouts were listed.
    """

    instance: Instance
    plan: Plan
    rows: int
    optimum: Score
    proved_by: str


def load_small() -> list[SmallCase]:
    """Read all cases."""
    cases = []
    text = resources.files(__name__).joinpath("suite.jsonl").read_text(encoding="utf-8")
    for line in text.splitlines():
        case = json.loads(line)
        plan = Plan(Placement(np.array(case["placement"])), Layout.from_lists(case["layout"]))
        cases.append(SmallCase(instance_from_dict(case["instance"]), plan, case["rows"], Score(*case["optimum"]), case["proved_by"]))
    return cases
