"""The shipped windows are what their README says."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from routepack import InvalidInstance
from routepack.instances import library

SIZES = {  # samples, layers, experts, top-k; slots, ranks, shards; cap
    "tinymoe-agent-dp4-ep4": (80, 6, 64, 8, 4, 4, 1, 16384),
    "tinymoe-math-dp8-ep8": (400, 6, 64, 8, 8, 8, 1, 4096),
    "tinymoe-mixed-dp16-ep8": (1056, 6, 64, 8, 16, 8, 2, 8192),
    "two-shards": (3, 1, 2, 1, 2, 2, 2, 10),
}


def test_the_names_are_those_of_the_readme():
    assert library.names() == sorted(SIZES)
    readme = (library.FOLDER / "README.md").read_text()
    assert all(f"`{name}`" in readme for name in library.names())
    assert "badly under-trained" in readme


@pytest.mark.parametrize("name", SIZES)
def test_a_window_has_the_sizes_of_the_readme_and_every_token_its_routes(name):
    instance = library.load(name)
    window, topology = instance.window, instance.topology
    top_k = SIZES[name][3]
    assert instance.name == name
    assert (*window.demand.shape, top_k, topology.dp, topology.ep, topology.edp, instance.token_cap) == SIZES[name]
    assert (window.demand.sum(axis=2) == top_k * window.lengths[:, None]).all()
    assert (window.demand <= window.lengths[:, None, None]).all()


def test_the_math_window_is_fifty_prompts_of_eight_rollouts():
    _, counts = np.unique(library.load("tinymoe-math-dp8-ep8").window.prompt_ids, return_counts=True)
    assert counts.tolist() == [8] * 50


def test_the_shipped_windows_are_the_shared_ones(shared):
    for name in library.names():
        origin = shared / "data" / "instances" / f"{name}.npz"
        if origin.exists():
            assert hashlib.sha256(library.path(name).read_bytes()).digest() == hashlib.sha256(origin.read_bytes()).digest()


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInstance, match="two-shards"):
        library.path("three-shards")
    with pytest.raises(InvalidInstance):
        library.load("../library/two-shards")


def test_the_names_are_listed_without_loading_numba():
    code = "import sys; from routepack.instances import library, read_instance; library.names(); assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
