"""Many runs in parallel, each written down when it ends; a study that was stopped goes on where it stopped."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from routepack.errors import InvalidInstance
from routepack.studies.records import Key, Record, load, open_store
from routepack.studies.runs import Run, check_method
from routepack.studies.suites import Case, default_methods, find_cases
from routepack.studies.workers import workers

Report = Callable[[int, int, Record | None], None]


@dataclass(frozen=True, slots=True)
class Design:
    """
    What a study does: every window x method x limit x seed.

    Parameters
    ----------
    sources
        Suites, files, folders or patterns.
    methods
        Names of methods; the suite's own where none are given.
    time_limits, attempts_limits
        Limits, in seconds and in proposals; each stands alone. One second if neither is given.
    seeds
        Seeds 0 to ``seeds - 1``.
    """

    sources: tuple[str, ...]
    methods: tuple[str, ...] = ()
    time_limits: tuple[float, ...] = ()
    attempts_limits: tuple[int, ...] = ()
    seeds: int = 1

    def limits(self) -> list[tuple[float | None, int | None]]:
        """Pairs of a time limit and an attempt cap."""
        pairs: list[tuple[float | None, int | None]] = [(seconds, None) for seconds in self.time_limits]
        pairs += [(None, attempts) for attempts in self.attempts_limits]
        return pairs or [(1.0, None)]

    def cases(self) -> list[Case]:
        """
        List the windows.

        Raises
        ------
        InvalidInstance
            A method or a source is unknown, or a number is out of range.
        """
        for method in self.methods:
            check_method(method)
        if self.seeds < 1 or any(not seconds >= 0 for seconds in self.time_limits) or any(n < 0 for n in self.attempts_limits):
            raise InvalidInstance("study: seeds must be at least 1, limits at least 0.")
        return list(dict.fromkeys(case for source in self.sources for case in find_cases(source)))

    def size(self, cases: list[Case]) -> int:
        """Count the runs on so many windows."""
        return sum(len(self.methods or default_methods(case)) for case in cases) * len(self.limits()) * self.seeds

    def runs(self, case: Case) -> Iterator[Run]:
        """Yield the runs on a window, which is read for its fingerprint."""
        name, sha256 = _identity(case)
        for method, (seconds, attempts), seed in itertools.product(self.methods or default_methods(case), self.limits(), range(self.seeds)):
            yield Run(case, name, sha256, method, seconds, attempts, seed)


def _identity(case: Case) -> tuple[str, str]:
    """Name and fingerprint of a window; the file's name alone where it cannot be read, which its runs will put down."""
    try:
        instance = case.load().instance
    except Exception:
        return Path(case.name).name, ""
    return instance.name or Path(case.name).stem, instance.sha256()


def run_study(
    design: Design, folder: Path, *, jobs: int = 1, backend: str = "loky", report: Report = lambda done, total, record: None
) -> list[Record]:
    """
    Do the runs of a design that the folder has no record of.

    Parameters
    ----------
    design
        What is done.
    folder
        Where the records are; created if need be.
    jobs
        Runs at the same time.
    backend
        ``loky`` for processes of this machine, ``ray`` or ``dask`` for the workers of a cluster.
    report
        Called with the runs that are done, their number in all, and the last record; first and last with ``None``.

    Returns
    -------
    list[Record]
        Of all runs of the design, those that were done before included.

    Raises
    ------
    InvalidInstance
        The design is wrong, or the backend is unknown or not installed.
    """
    cases = design.cases()
    total = design.size(cases)
    wanted: set[Key] = set()
    there: list[Key] = []
    with open_store(folder) as store, workers(backend, jobs) as work:
        known = store.done()

        def pending() -> Iterator[Run]:
            for run in itertools.chain.from_iterable(map(design.runs, cases)):
                if run.key in wanted:  # another file may hold the same window
                    continue
                wanted.add(run.key)
                if run.key in known:
                    there.append(run.key)
                else:
                    yield run

        report(0, total, None)
        for done, record in enumerate(work(pending()), start=1):
            store.append(record)
            report(done + len(there), total, record)
        report(len(wanted), len(wanted), None)
    return [record for record in load(folder) if record.key in wanted]
