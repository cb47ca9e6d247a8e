"""The store of study records: nothing doubles, nothing is lost, a failed run may be done again."""

import sqlite3
from dataclasses import replace

import pytest

from routepack.cost import Score
from routepack.errors import InvalidInstance
from routepack.studies.records import FILE, Record, Step, limit_text, load, open_store

RECORD = Record(
    suite="small",
    instance="w",
    sha256="ab",
    method="anneal",
    time_limit=0.5,
    attempts_limit=None,
    seed=3,
    status="feasible",
    score=Score(9, 15, 9),
    bound=6,
    gap=0.5,
    optimum=8,
    rows=1,
    rows_status="proved",
    expert=3,
    largest_peak=2,
    attention=4,
    rank_variation=0.25,
    seconds=0.5,
    attempts=10,
    trajectory=(Step(0.1, 5, 10), Step(0.25, 8, 9)),
    versions={"routepack": "0"},
    machine="m",
)


def test_a_record_is_read_as_it_was_written(tmp_path):
    with open_store(tmp_path / "new" / "folder") as store:
        store.append(RECORD)
    assert load(tmp_path / "new" / "folder") == [RECORD]


def test_a_run_never_stands_there_twice(tmp_path):
    with open_store(tmp_path) as one, open_store(tmp_path) as other:
        one.append(RECORD)
        other.append(replace(RECORD, score=Score(1, 1, 1)))  # the same key: the first record stays
        assert one.done() == other.done() == {RECORD.key}
    assert load(tmp_path) == [RECORD]


def test_other_limits_seeds_and_fingerprints_are_other_runs(tmp_path):
    others = [RECORD, replace(RECORD, seed=4), replace(RECORD, time_limit=None, attempts_limit=7), replace(RECORD, sha256="cd")]
    with open_store(tmp_path) as store:
        for record in others:
            store.append(record)
    assert sorted(record.key for record in load(tmp_path)) == sorted(record.key for record in others)


def test_a_failed_run_is_done_again_and_replaced(tmp_path):
    with open_store(tmp_path) as store:
        store.append(replace(RECORD, status="failed", score=None, error="out of memory"))
        assert store.done() == set()
        store.append(RECORD)
        store.append(replace(RECORD, status="failed", score=None, error="later"))  # a result is not replaced by a failure
    assert load(tmp_path) == [RECORD]


def test_a_reader_sees_what_is_committed_while_a_writer_is_open(tmp_path):
    with open_store(tmp_path) as store:
        store.append(RECORD)
        assert load(tmp_path) == [RECORD]


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(InvalidInstance, match=r"has no records\.sqlite"):
        load(tmp_path)
    (tmp_path / FILE).write_text("not a database, but long enough to look like one" * 99)
    with pytest.raises(InvalidInstance, match="no store of records"):
        load(tmp_path)
    with pytest.raises(InvalidInstance, match="no store of records"), open_store(tmp_path):
        pass


def test_a_store_with_other_columns_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("CREATE TABLE records (instance)")
    with pytest.raises(InvalidInstance, match="no store of records"):
        load(tmp_path)


def test_equal_limits_have_equal_names():
    assert limit_text(1, None) == limit_text(1.0, None) == "1 s"
    assert limit_text(None, 20000) == "20000 attempts"
    assert limit_text(0.5, 10) == "0.5 s, 10 attempts"
    assert limit_text(None, None) == "none"
