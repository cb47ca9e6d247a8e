"""
Routed experts into counts against a loop of numpy.bincount over the layers of each sample, and the memory that both hold.

    python benchmarks/readers.py [tokens]

Tokens default to 1.2 million of 48 layers and top-8 in uint8; 12 million is the size of a large window. All sides read the same samples,
which are made once and used again, so that memory is that of the counts.
"""

import sys
import time
import tracemalloc
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from routepack.instances.presets import preset
from routepack.instances.readers import ModelShape, count

SAMPLE, POOL = 11_700, 4  # tokens of a sample, samples that differ
RUNS = 3
MODEL = ModelShape.of(preset("qwen3-30b-a3b"))


def pool() -> list[NDArray[np.uint8]]:
    shares = np.log(np.random.default_rng(0).dirichlet(np.full(MODEL.experts, 2.0), MODEL.num_layers))
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(POOL):
        scores = shares[None] + rng.gumbel(size=(1170, *shares.shape))
        rows = np.argpartition(-scores, MODEL.top_k, axis=2)[:, :, : MODEL.top_k].astype(np.uint8)
        drawn.append(np.concatenate([rng.permutation(rows) for _ in range(SAMPLE // 1170)]))
    return drawn


def by_bincount(samples: Iterator[NDArray[np.uint8]]) -> NDArray[np.int32]:
    counts = []
    for routes in samples:
        line = np.empty((MODEL.num_layers, MODEL.experts), dtype=np.int32)
        for layer in range(MODEL.num_layers):
            line[layer] = np.bincount(routes[:, layer].ravel(), minlength=MODEL.experts)
        counts.append(line)
    return np.stack(counts)


def by_one_bincount(samples: Iterator[NDArray[np.uint8]]) -> NDArray[np.int32]:
    base = np.arange(MODEL.num_layers)[:, None] * MODEL.experts
    size = MODEL.num_layers * MODEL.experts
    counts = [np.bincount((routes + base).ravel(), minlength=size).astype(np.int32) for routes in samples]
    return np.stack(counts).reshape(-1, MODEL.num_layers, MODEL.experts)


def by_reader(samples: Iterator[NDArray[np.uint8]]) -> NDArray[np.int32]:
    return count(({"routed_experts": routes} for routes in samples), "slime", MODEL).demand


def main() -> None:
    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 1_200_000
    samples, drawn = max(2, tokens // SAMPLE), pool()

    def stream() -> Iterator[NDArray[np.uint8]]:
        return (drawn[n % POOL] for n in range(samples))

    by_reader(iter(drawn[:2]))  # compiles
    tracemalloc.start()
    counts = by_reader(stream())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"{samples * SAMPLE:,} tokens x {MODEL.num_layers} layers x top-{MODEL.top_k}, uint8; the best of {RUNS} runs in turn")
    print(f"counts: {counts.nbytes / 1e6:.1f} MB; memory while reading: {peak / counts.nbytes:.2f} times that, without the samples")
    seconds = dict.fromkeys((by_reader, by_bincount, by_one_bincount), float("inf"))
    for function in [*seconds] * RUNS:
        start = time.perf_counter()
        assert (function(stream()) == counts).all()
        seconds[function] = min(seconds[function], time.perf_counter() - start)
    for function, taken in seconds.items():
        print(f"{function.__name__:>16}  {taken:7.2f} s  {taken / seconds[by_reader]:5.1f} times the reader")


main()
