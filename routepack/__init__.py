"""Plan one optimizer-step window of Mixture-of-Experts reinforcement-learning training."""

from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "CostModel": "routepack.cost_model",
    "Infeasible": "routepack.errors",
    "Instance": "routepack.instance",
    "InvalidCertificate": "routepack.errors",
    "InvalidInstance": "routepack.errors",
    "InvalidPlan": "routepack.errors",
    "Options": "routepack.instance",
    "Result": "routepack.result",
    "Stage": "routepack.cost_model",
    "Topology": "routepack.topology",
    "Window": "routepack.window",
    "plan_window": "routepack.planner",
    "solve": "routepack.planner",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import routepack`` stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'routepack' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
