"""Runs on the workers of a machine or a cluster, their records as they come."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from routepack.errors import InvalidInstance
from routepack.studies.records import Key, Record
from routepack.studies.runs import Run, execute

BACKENDS = ("loky", "ray", "dask")
AHEAD = "2*n_jobs"  # runs that are handed out before one of them ends

Workers = Callable[[Iterator[Run]], Iterator[Record]]


@contextmanager
def workers(backend: str, jobs: int) -> Iterator[Workers]:
    """
    Yield what does runs and yields their records in the order in which they end.

    Parameters
    ----------
    backend
        ``loky`` for processes of this machine; ``ray`` or ``dask`` for the cluster that their environment names, else a local one.
    jobs
        Runs at the same time; one with ``loky`` is done in this process.

    Raises
    ------
    InvalidInstance
        The backend is unknown or not installed.
    """
    if backend not in BACKENDS:
        raise InvalidInstance(f"backend = {backend!r} is unknown; choose {', '.join(BACKENDS)}.")
    if jobs < 1:
        raise InvalidInstance(f"jobs = {jobs} is below 1; give the number of runs at the same time.")
    if backend == "loky" and jobs == 1:
        yield lambda runs: map(execute, runs)
        return
    try:
        import joblib

        if backend == "ray":
            yield from _on_ray(joblib, jobs)
        elif backend == "dask":
            yield from _on_dask(joblib, jobs)
        else:
            yield lambda runs: _on_this_machine(joblib, runs, jobs)
    except ImportError as fault:
        extra = "studies" if backend == "loky" else backend
        raise InvalidInstance(f"backend = {backend!r} is not installed ({fault}); pip install 'routepack[{extra}]'.") from None


def _stream(joblib: Any, backend: str, tasks: Iterable[Any], jobs: int) -> Iterator[Record]:
    with joblib.parallel_config(backend=backend, n_jobs=jobs):
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1, pre_dispatch=AHEAD)
    records: Iterator[Record] = parallel(tasks)
    return records


def _on_this_machine(joblib: Any, runs: Iterator[Run], jobs: int) -> Iterator[Record]:
    """Do runs in processes; where a process dies, do what it may have been at one by one, to find the run that kills it."""

    def tasks(sent: list[Run]) -> Iterator[Any]:
        for run in runs:
            sent.append(run)
            yield joblib.delayed(execute)(run)

    broken = True
    while broken:
        sent: list[Run] = []
        ended: set[Key] = set()
        broken = False
        try:
            for record in _stream(joblib, "loky", tasks(sent), jobs):
                ended.add(record.key)
                yield record
        except BrokenProcessPool:
            broken = True
        if broken:
            yield from (_alone(joblib, run) for run in sent if run.key not in ended)


def _alone(joblib: Any, run: Run) -> Record:
    try:
        record: Record = next(_stream(joblib, "loky", [joblib.delayed(execute)(run)], 2))
    except BrokenProcessPool:
        return run.record("failed", error="the process of this run died")
    return record


def _on_dask(joblib: Any, jobs: int) -> Iterator[Workers]:
    import dask
    import distributed

    address = dask.config.get("scheduler-address", None)
    local: dict[str, Any] = {"n_workers": jobs, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.Client(address) if address else distributed.Client(**local):
        yield lambda runs: _stream(joblib, "dask", (joblib.delayed(execute)(run) for run in runs), jobs)


def _on_ray(joblib: Any, jobs: int) -> Iterator[Workers]:
    """Ray's backend gives a batch back whole, so a batch is as many runs as there are workers."""
    import ray
    import ray.util.joblib as ray_joblib

    started = not ray.is_initialized()
    if started:
        ray.init(log_to_driver=False, include_dashboard=False, configure_logging=False)
    ray_joblib.register_ray()

    def run_batches(runs: Iterator[Run]) -> Iterator[Record]:
        with joblib.parallel_config(backend="ray", n_jobs=jobs), joblib.Parallel(batch_size=1) as parallel:
            while batch := list(itertools.islice(runs, jobs)):
                yield from parallel(joblib.delayed(execute)(run) for run in batch)

    yield run_batches
    if started:
        ray.shutdown()
