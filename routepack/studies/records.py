"""
One record a run, in a file that survives a kill at any moment.

The file is SQLite in write-ahead mode, from the standard library: a commit is atomic and synced, the primary key keeps a run from standing
there twice even if two studies share a folder, a report may read while a study writes, and one query serves any analysis. Parquet cannot
be appended to, and a line of JSON cannot be refused because its run is there already.
"""

import dataclasses
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from routepack.cost import Score
from routepack.errors import InvalidInstance

FILE = "records.sqlite"
SECONDS_TO_WAIT = 60.0  # for another writer's commit
STATUSES = ("optimal", "feasible", "infeasible", "failed")

Key = tuple[str, str, str, str, int]


@dataclass(frozen=True, slots=True)
class Step:
    """An improvement on the way: after so many seconds and proposals the first score component was this many ticks."""

    seconds: float
    attempts: int
    score: int


@dataclass(frozen=True, slots=True)
class Record:
    """
    What one run gave: instance x method x limit x seed.

    Parameters
    ----------
    suite, instance, sha256
        What was planned; the fingerprint is empty where the instance could not be read.
    method, seed
        How.
    time_limit, attempts_limit
        Seconds and proposals that were allowed; ``None`` for no limit.
    status
        ``optimal`` or ``feasible`` for a verified plan, ``infeasible`` where none exists, ``failed`` where the run raised an error.
    score
        Recomputed score of the plan, in ticks.
    bound
        Best lower bound on the first component that holds for this plan's question, in ticks.
    gap
        Certified: (score - bound) / bound.
    optimum
        First component of the proven optimum, where the suite knows one.
    rows, rows_status
        Rows of the plan, and ``proved`` or ``best known, at least n``.
    expert, largest_peak, attention
        Expert peak sum, worst row-layer peak and attention of the plan, in ticks.
    rank_variation
        Coefficient of variation of the ranks' loads over the window, mean over layers.
    seconds, attempts
        Wall-clock time and proposals of the run.
    trajectory
        Improvements on the way, as far as the method reported them.
    versions, machine
        Of what ran, and where.
    error
        What went wrong, in one line.
    """

    suite: str
    instance: str
    sha256: str
    method: str
    time_limit: float | None
    attempts_limit: int | None
    seed: int
    status: str
    score: Score | None = None
    bound: int | None = None
    gap: float | None = None
    optimum: int | None = None
    rows: int | None = None
    rows_status: str | None = None
    expert: int | None = None
    largest_peak: int | None = None
    attention: int | None = None
    rank_variation: float | None = None
    seconds: float = 0.0
    attempts: int = 0
    trajectory: tuple[Step, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)
    machine: str = ""
    error: str | None = None

    @property
    def limit(self) -> str:
        """The limit in words: ``0.5 s``, ``20000 attempts``, both, or ``none``."""
        return limit_text(self.time_limit, self.attempts_limit)

    @property
    def key(self) -> Key:
        """What makes this run the same as another."""
        return (self.instance, self.sha256, self.method, self.limit, self.seed)


def limit_text(time_limit: float | None, attempts_limit: int | None) -> str:
    """Name a limit, the same for equal limits."""
    parts = [] if time_limit is None else [f"{float(time_limit):g} s"]
    parts += [] if attempts_limit is None else [f"{attempts_limit} attempts"]
    return ", ".join(parts) or "none"


COLUMNS = tuple(entry.name for entry in dataclasses.fields(Record))
_KEY = ("instance", "sha256", "method", '"limit"', "seed")
_TABLE = f"""
CREATE TABLE IF NOT EXISTS records (
    "limit" TEXT NOT NULL, {", ".join(COLUMNS)}, total INTEGER, peak INTEGER, PRIMARY KEY ({", ".join(_KEY)})
) WITHOUT ROWID
"""
_INSERT = f'INSERT INTO records ("limit", {", ".join(COLUMNS)}, total, peak) VALUES ({", ".join("?" * (len(COLUMNS) + 3))})'
_REPLACE_FAILED = (
    f"{_INSERT} ON CONFLICT DO UPDATE SET {', '.join(f'{c} = excluded.{c}' for c in (*COLUMNS, 'total', 'peak') if c not in _KEY)} "
    "WHERE records.status = 'failed'"
)


class Store:
    """
    The records of a folder, open for appending.

    Parameters
    ----------
    connection
        Of `open_store`.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def done(self) -> set[Key]:
        """Runs that need not be done again: all but the failed ones."""
        query = f"SELECT {', '.join(_KEY)} FROM records WHERE status != 'failed'"
        return {(str(i), str(s), str(m), str(limit), int(seed)) for i, s, m, limit, seed in self._connection.execute(query)}

    def append(self, record: Record) -> None:
        """Write one record and sync; one that stands there already stays, unless it failed."""
        with self._connection:
            self._connection.execute(_REPLACE_FAILED, _to_row(record))


@contextmanager
def open_store(folder: Path) -> Iterator[Store]:
    """
    Open the records of a folder, which is created if need be.

    Raises
    ------
    InvalidInstance
        The file in it is no store of records.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(folder / FILE, timeout=SECONDS_TO_WAIT)) as connection:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            with connection:
                connection.execute(_TABLE)
            connection.execute(f"SELECT {', '.join(COLUMNS)} FROM records LIMIT 0")
        except sqlite3.DatabaseError as error:
            raise _unreadable(folder, error) from None
        yield Store(connection)


def load(folder: Path | str) -> list[Record]:
    """
    Read all records of a folder, in the order of their keys.

    Raises
    ------
    InvalidInstance
        The folder has no records, or the file is no store of records.
    """
    file = Path(folder) / FILE
    if not file.is_file():
        raise InvalidInstance(f"results = {str(folder)!r} has no {FILE}; give the folder that routepack study wrote.")
    mode = "mode=ro" if os.access(file.parent, os.W_OK) else "mode=ro&immutable=1"
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?{mode}", uri=True, timeout=SECONDS_TO_WAIT)) as connection:
        try:
            query = f"SELECT {', '.join(COLUMNS)}, total, peak FROM records ORDER BY {', '.join(_KEY)}"
            return [_from_row(row) for row in connection.execute(query)]
        except sqlite3.DatabaseError as error:
            raise _unreadable(file.parent, error) from None


def _unreadable(folder: Path, error: sqlite3.DatabaseError) -> InvalidInstance:
    return InvalidInstance(f"results: {folder / FILE} is no store of records ({error}); give another folder.")


def _to_row(record: Record) -> list[Any]:
    values = {name: getattr(record, name) for name in COLUMNS}
    makespan, total, peak = record.score or (None, None, None)
    values["score"] = makespan
    values["trajectory"] = json.dumps([[round(step.seconds, 6), step.attempts, step.score] for step in record.trajectory])
    values["versions"] = json.dumps(record.versions, sort_keys=True)
    return [record.limit, *values.values(), total, peak]


def _from_row(row: tuple[Any, ...]) -> Record:
    values = dict(zip(COLUMNS, row[:-2], strict=True))
    values["score"] = None if values["score"] is None else Score(values["score"], *row[-2:])
    values["trajectory"] = tuple(Step(*step) for step in json.loads(values["trajectory"]))
    values["versions"] = json.loads(values["versions"])
    return Record(**values)
