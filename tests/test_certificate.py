"""Certificates as files and as trees: what proves is accepted, whatever is corrupted is refused, here and by the stand-alone checker."""

import copy
import gzip
import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import oracle
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from routepack.bounds.column_generation import ColumnGeneration
from routepack.bounds.proof_tree import exhaust
from routepack.budget import Budget
from routepack.certificate import WeightCertificate
from routepack.cli import main
from routepack.errors import InvalidCertificate
from routepack.instances.certificates import CellsProof, read_certificate, write_certificate
from routepack.rows import settle
from routepack.tree_certificate import Filter, TreeCertificate, check_tree, types_of

units = st.integers(2, 30).flatmap(lambda cap: st.tuples(st.lists(st.integers(1, cap), min_size=2, max_size=8), st.just(cap)))


def stand_alone():
    """Load the checker that imports numpy only."""
    path = Path(__file__).resolve().parents[1] / "docs" / "check_certificate.py"
    spec = importlib.util.spec_from_file_location("check_certificate", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def searched(lengths, capacity, cells):
    """Outcome of the exhaustive search for a packing into so many cells, thinned by the duals of column generation."""
    distinct, demand = types_of(lengths)
    relaxation = ColumnGeneration(distinct, demand, capacity)
    bounds = relaxation.solve(demand, Budget()).bound, relaxation.interior_bound(demand, Budget())
    return exhaust(distinct, demand, capacity, cells, tuple(Filter(b.weights, b.limit) for b in bounds), Budget(), 10_000)


@given(units)
def test_exhaustive_search_packs_or_proves_and_is_right(case):
    lengths, capacity = np.array(case[0]), case[1]
    optimum = oracle.fewest_cells(sorted(case[0], reverse=True), capacity)
    for cells in range(max(1, optimum - 1), optimum + 1):
        outcome = searched(lengths, capacity, cells)
        if cells < optimum:
            assert check_tree(outcome.certificate, lengths, capacity) == cells + 1
        else:
            distinct, demand = types_of(lengths)
            assert (outcome.packing.sum(axis=0) == demand).all()
            assert (outcome.packing @ distinct <= capacity).all()
            assert len(outcome.packing) <= cells


def hard(shared):
    """Waescher_TEST0022: its relaxation needs 14 cells, a packing 15."""
    with gzip.open(shared / "data" / "binpacking" / "Waescher.jsonl.gz", "rt") as file:
        case = next(case for case in map(json.loads, file) if case["name"] == "Waescher_TEST0022")
    return np.repeat(*np.array(case["items"]).T), case["C"]


def test_a_tree_proves_what_weights_cannot(shared):
    lengths, capacity = hard(shared)
    settled = settle(lengths, capacity)
    assert (settled.certificate.cells, settled.tree.cells, settled.cells) == (14, 15, 15)


def corrupted(claim):
    """Yield a tree certificate with one fault each: more cells, a filter's limit too low, no filter, a leaf missing, a branch dropped."""
    yield replace(claim, cells=claim.cells + 1)
    yield replace(claim, filters=(Filter(claim.filters[-1].weights, claim.filters[-1].limit - 1000),))
    yield replace(claim, filters=())
    yield replace(claim, leaves=claim.leaves[:-1], tree=len(claim.leaves) - 1)
    kind, children = claim.tree
    for dropped in range(len(children)):
        yield replace(claim, tree=[kind, children[:dropped] + children[dropped + 1 :]])
    yield replace(claim, tree=[kind, [*children, children[0]]])
    yield replace(claim, tree=[len(claim.leaves[0]), children])
    yield replace(claim, tree=0)


def test_corrupted_trees_are_refused(shared, tmp_path):
    lengths, capacity = hard(shared)
    claim, checker = settle(lengths, capacity).tree, stand_alone()
    assert isinstance(claim.tree, list)
    for n, bad in enumerate(corrupted(claim)):
        with pytest.raises(InvalidCertificate):
            check_tree(bad, lengths, capacity)
        write_certificate(tmp_path / f"{n}.json", CellsProof("bad", lengths, capacity, bad))
        with pytest.raises((checker.Refused, ValueError, TypeError, IndexError)):
            checker.check(tmp_path / f"{n}.json")
    with pytest.raises(InvalidCertificate):
        check_tree(claim, lengths + (np.arange(len(lengths)) == 0), capacity)  # another instance
    with pytest.raises(InvalidCertificate):
        check_tree(claim, lengths[1:], capacity)  # an item missing


@given(units)
def test_files_round_trip_and_both_checkers_agree(tmp_path_factory, case):
    lengths, capacity = np.array(case[0]), case[1]
    settled = settle(lengths, capacity)
    path = tmp_path_factory.mktemp("proof") / "proof.json"
    write_certificate(path, CellsProof("drawn", lengths, capacity, settled.tree or settled.certificate))
    assert read_certificate(path).check() == stand_alone().check(path) == settled.needed
    written = path.read_bytes()
    write_certificate(path, read_certificate(path))
    assert path.read_bytes() == written


def test_tree_files_round_trip(shared, tmp_path):
    lengths, capacity = hard(shared)
    write_certificate(tmp_path / "tree.json", CellsProof("tree", lengths, capacity, settle(lengths, capacity).tree))
    assert read_certificate(tmp_path / "tree.json").check() == stand_alone().check(tmp_path / "tree.json") == 15


def document():
    return {
        "format": "routepack-cells",
        "version": 1,
        "name": "fours",
        "capacity": 10,
        "lengths": [4] * 7,
        "cells": 4,
        "weights": [1] * 7,
        "limit": 2,
    }


FAULTS = {
    "weight up by one": {"weights": [2, 2, 1, 1, 1, 1, 1], "cells": 5},  # two fours weigh 4, over the limit of 2
    "limit down by one": {"limit": 1, "cells": 7},
    "item missing": {"lengths": [4] * 6},
    "more cells than proved": {"cells": 5},
    "negative weight": {"weights": [-1, 2, 1, 1, 1, 1, 1]},
    "length over the cap": {"lengths": [11, *[4] * 6]},
    "length of zero": {"lengths": [0, *[4] * 6]},
    "fraction": {"weights": [1.5, *[1] * 6]},
    "true for a number": {"limit": True},
    "another version": {"version": 2},
    "another format": {"format": "routepack-plan"},
    "unknown key": {"note": "trust me"},
    "no items": {"lengths": [], "weights": []},
    "huge limit": {"limit": 1 << 70},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_files_are_refused(fault, tmp_path):
    path = tmp_path / "proof.json"
    path.write_text(json.dumps(document() | FAULTS[fault]))
    with pytest.raises(InvalidCertificate):
        read_certificate(path).check()
    result = CliRunner().invoke(main, ["verify-certificate", str(path)])
    assert result.exit_code == 4
    if fault != "unknown key":  # the stand-alone checker looks at what it knows
        checker = stand_alone()
        with pytest.raises((checker.Refused, ValueError, TypeError)):
            checker.check(path)


@pytest.mark.parametrize(
    "tree", [None, "x", [], [0], [0, 1], [0, [1]], [0, [[1, 2, 3]]], [0, [[[[0, "a"]], 0]]], [0, [[[[9, 1]], 0]]], {"a": 1}, True]
)
def test_trees_of_the_wrong_form_are_refused(tree, tmp_path):
    bad = {key: value for key, value in document().items() if key not in ("weights", "limit")}
    bad |= {"lengths": [6, 6, 5], "cells": 3, "filters": [[6, 5, 11]], "leaves": [], "tree": tree}
    path = tmp_path / "proof.json"
    path.write_text(json.dumps(bad))
    with pytest.raises(InvalidCertificate):
        read_certificate(path).check()
    checker = stand_alone()
    with pytest.raises((checker.Refused, ValueError, TypeError, IndexError)):
        checker.check(path)


def test_missing_and_broken_files_are_refused_in_one_line(tmp_path):
    (tmp_path / "cut.json").write_text(json.dumps(document())[:-9])
    for name in ("cut.json", "missing.json"):
        result = CliRunner().invoke(main, ["verify-certificate", str(tmp_path / name)])
        assert result.exit_code == 4
        assert len(result.stderr.strip().splitlines()) == 1


def test_deeply_nested_trees_are_refused(tmp_path):
    path = tmp_path / "proof.json"
    bad = {key: value for key, value in document().items() if key not in ("weights", "limit")} | {"filters": [[4, 10]], "leaves": []}
    path.write_text(json.dumps(bad)[:-1] + ', "tree": ' + "[" * 100_000 + "]" * 100_000 + "}")
    with pytest.raises(InvalidCertificate, match="nested too deeply"):
        read_certificate(path)


def test_proofs_too_large_to_be_checked_say_so():
    lengths = np.arange(500_000, 500_000 + 300)
    weights = WeightCertificate(np.arange(1, 301), 900)
    with pytest.raises(InvalidCertificate, match=r"2\*\*36 steps"):
        CellsProof("huge", lengths, 2_000_000_011, weights).check()
    tree = TreeCertificate(2, (Filter(np.arange(1, 301), 900),), (), 0)
    with pytest.raises(InvalidCertificate, match=r"2\*\*25 entries"):
        check_tree(tree, lengths, 2_000_000)


def test_a_good_document_is_accepted_and_unchanged_by_checking(tmp_path):
    path = tmp_path / "proof.json"
    path.write_text(json.dumps(copy.deepcopy(document())))
    result = CliRunner().invoke(main, ["verify-certificate", str(path)])
    assert result.exit_code == 0
    assert "7 items under a cap of 10 need at least 4 cells" in result.output
