"""A planner that lives in a training loop: samples come in as rollouts finish, the plan is made in the background."""

import threading
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routepack.budget import Budget
from routepack.cost_model import CostModel
from routepack.errors import InvalidInstance
from routepack.heuristics.migration import place_from, relabel
from routepack.heuristics.placement import lpt_swap
from routepack.instance import Instance, Options
from routepack.planner import solve
from routepack.result import Result
from routepack.topology import Topology, positive
from routepack.window import INT32_MAX, IntArray, Window, integer_array

FIRST_ROOM = 64  # samples; doubled whenever it is full
WARM_ATTEMPTS = 100_000  # enough for experts to be placed again on the way


class Planner:
    """
    Collect the samples of one window after the other and plan each in the background.

    Methods may be called from any thread. A planner shares nothing with another one.

    Parameters
    ----------
    topology
        ``Topology.of(dp, ep, edp)`` or ``Topology.from_trainer(world, tp=…, …)``.
    num_layers, num_experts
        MoE layers L, and experts E of each.
    token_cap, length_multiple, row_multiple, cost, options
        As for `Instance`, the same for every window.
    seconds, attempts
        Budget of one window, counted from when it is closed; one second if neither is given. Under an attempt cap alone a window gives the
        same plan in every run.
    place_first
        Fix the placement when the window is closed, from its counts alone, so that experts can move while samples are still laid out; else
        experts are placed again for the rows.
    search
        Other arguments of `solve`: ``method``, ``seed``, ``threads``, ``max_moves``, ``tolerance`` and so on.

    Raises
    ------
    InvalidInstance
        A size is below 1, or `place_first` is given together with what would move experts later.

    Examples
    --------
    >>> planner = Planner(Topology.of(2, 2, 1), 1, 2, token_cap=10, attempts=100)
    >>> for length, demand in ((4, [[2, 2]]), (4, [[4, 0]]), (3, [[0, 3]])):
    ...     _ = planner.add(length, demand)
    >>> planner.close().result().rows.count
    1
    """

    def __init__(
        self,
        topology: Topology,
        num_layers: int,
        num_experts: int,
        *,
        token_cap: int,
        length_multiple: int = 1,
        row_multiple: int = 1,
        cost: CostModel | None = None,
        options: Options | None = None,
        seconds: float | None = None,
        attempts: int | None = None,
        place_first: bool = False,
        **search: Any,
    ) -> None:
        if seconds is None and attempts is None:
            seconds = 1.0
        Budget(seconds, attempts)  # refuses negative limits now, not in the background
        if place_first and (search.get("replace") or search.get("move_cost") is not None):
            raise InvalidInstance("place_first fixes the placement; drop replace and move_cost.")
        if place_first:
            search["replace"] = False
        self._topology, self._token_cap = topology, positive("token_cap", token_cap)
        self._rest: dict[str, Any] = {
            "length_multiple": length_multiple,
            "row_multiple": row_multiple,
            "cost": cost or CostModel(),
            "options": options or Options(),
        }
        self._limits, self._place_first, self._search = (seconds, attempts), place_first, search
        self._shape = (positive("num_layers", num_layers), positive("num_experts", num_experts))
        self._lock = threading.Lock()
        self._open()

    def _open(self) -> None:
        self._lengths: list[int] = []
        self._ids: list[str | int | None] = []
        self._demand: NDArray[np.int32] = np.zeros((FIRST_ROOM, *self._shape), dtype=np.int32)
        self._loads: IntArray = np.zeros(self._shape, dtype=np.int64)

    def __len__(self) -> int:
        """Samples in the open window."""
        with self._lock:
            return len(self._lengths)

    @property
    def loads(self) -> IntArray:
        """Token-slots of each expert in the open window so far, shape (L, E)."""
        with self._lock:
            return self._loads.copy()

    def add(self, length: int, demand: ArrayLike, sample_id: str | int | None = None) -> int:
        """
        Hand over one finished sample.

        Parameters
        ----------
        length
            Tokens that the trainer computes.
        demand
            Token-slots of the sample for each expert, shape (L, E).
        sample_id
            Its name, for messages; all samples of a window have one, or none has.

        Returns
        -------
        int
            The number of the sample in its window, by which a layout names it.

        Raises
        ------
        InvalidInstance
            The length is no count, or demand has another shape or a negative entry.
        """
        tokens = positive("length", length)
        counts = integer_array("demand", demand, np.int32, 2, 0, INT32_MAX)
        if counts.shape != self._shape or tokens > INT32_MAX:
            raise InvalidInstance(f"demand has shape {counts.shape} and length = {tokens}; {self._shape} and at most {INT32_MAX} needed.")
        with self._lock:
            number = len(self._lengths)
            if number == len(self._demand):
                self._demand = np.concatenate((self._demand, np.zeros_like(self._demand)))
            self._demand[number] = counts
            self._loads += counts
            self._lengths.append(tokens)
            self._ids.append(sample_id)
            return number

    def close(self, current_placement: ArrayLike | None = None) -> "Planning":
        """
        Close the window, start to plan it in the background, and open the next.

        Parameters
        ----------
        current_placement
            EP rank of each expert now, shape (L, E), to move few of them; with ``max_moves=0`` in `search` none moves.

        Returns
        -------
        Planning
            What asks for the plan.

        Raises
        ------
        InvalidInstance
            The window is empty or its parts do not fit; it stays open.
        """
        with self._lock:
            count = len(self._lengths)
            named = [name for name in self._ids if name is not None]
            if named and len(named) != count:
                raise InvalidInstance(f"{count - len(named)} of {count} samples have no id; give one to all of them, or to none.")
            window = Window(np.array(self._lengths, dtype=np.int64), self._demand[:count], tuple(named) or None)  # type: ignore[arg-type]
            instance = Instance(
                window,
                self._topology,
                self._token_cap,
                current_placement=current_placement,  # type: ignore[arg-type]
                **self._rest,
            )
            loads = self._loads
            self._open()
        return Planning(instance, loads if self._place_first else None, self._limits, self._search)


class Planning:
    """
    One window that is being planned in the background.

    Parameters
    ----------
    instance
        The window.
    loads
        Its token-slots of each expert, shape (L, E), if experts are placed before samples are laid out.
    limits, search
        Seconds and attempts, and the other arguments of `solve`.
    """

    def __init__(self, instance: Instance, loads: IntArray | None, limits: tuple[float | None, int | None], search: dict[str, Any]) -> None:
        self.instance = instance
        self._search = search
        self._stop, self._done = threading.Event(), threading.Event()
        self._result: Result | None = None
        self._fault: BaseException | None = None
        self._placement = None if loads is None else self._place(loads)
        budget = Budget(*limits, self._interrupted)
        self._thread = threading.Thread(target=self._run, args=(budget,), name="routepack-planning")
        self._thread.start()

    def _interrupted(self) -> bool:
        """Whether the best plan is asked for, or the program ends: it waits for this thread."""
        return self._stop.is_set() or not threading.main_thread().is_alive()

    def _place(self, loads: IntArray) -> list[list[int]]:
        """Place as `solve` does before it lays out."""
        ranks, search, current = self.instance.topology.ep, self._search, self.instance.current_placement
        if current is None:
            found = lpt_swap(loads, ranks)
        else:
            limits = {key: search.get(key) for key in ("max_moves", "tolerance")}
            found = place_from(current, loads, ranks, **limits)
            if limits["max_moves"] is None:
                found = relabel(found, current, ranks)
        return [[int(p) for p in row] for row in found]

    def _run(self, budget: Budget) -> None:
        try:
            self._result = solve(self.instance, budget=budget, **self._search)
        except BaseException as fault:  # handed to whoever asks for the plan
            self._fault = fault
        finally:
            self._done.set()

    @property
    def placement(self) -> list[list[int]]:
        """
        The placement that the plan will have, ``[layer][expert] -> EP rank``, before any sample is laid out.

        Raises
        ------
        InvalidInstance
            The planner was made without ``place_first``, so experts may still be placed again.
        """
        if self._placement is None:
            raise InvalidInstance("placement is not fixed before the plan; make the planner with place_first=True, or ask for the result.")
        return self._placement

    def done(self) -> bool:
        """Whether the search has ended."""
        return self._done.is_set()

    def best(self) -> Result:
        """
        Stop the search and return the best verified plan, at once: after the sweep that runs, or after the packing if none has begun.

        Raises
        ------
        Infeasible, InvalidInstance
            As `solve`.
        """
        self._stop.set()
        return self.result()

    def result(self, timeout: float | None = None) -> Result:
        """
        Wait until the budget of the window is spent, and return its plan.

        Parameters
        ----------
        timeout
            Seconds to wait before the search is stopped and its best plan returned.

        Raises
        ------
        Infeasible, InvalidInstance
            As `solve`.
        """
        if not self._done.wait(timeout):
            self._stop.set()
            self._done.wait()
        if self._fault is not None:
            raise self._fault
        assert self._result is not None
        return self._result


def warm_up() -> None:
    """Compile the kernels, or load them compiled, by planning a tiny window; call it while the trainer starts."""
    planner = Planner(Topology.of(2, 2, 1), 2, 4, token_cap=64, attempts=WARM_ATTEMPTS)
    for i in range(8):
        planner.add(16, np.full((2, 4), 8) + i % 3)
    planner.close().result()
