"""A replay as a trace that Perfetto and Chrome open: a process per shard and stage, with tracks of its phases and ranks."""

from typing import Any

import numpy as np

from routepack.studies.simulator import Replay, Span

MOST_EVENTS = 1_000_000
NAMES = ("attention", "dispatch", "experts", "combine")
BUSY = {0: 0, 2: 1}  # phase -> whose work, of `Phases.busy`


def trace(replay: Replay, label: str = "") -> dict[str, Any]:
    """
    Write a replay in the Trace Event Format, one tick as one microsecond.

    Ranks have tracks of their own while the trace stays below a million events; ``otherData.tracks`` says so.

    Parameters
    ----------
    replay
        Of `routepack.studies.simulator.simulate`.
    label
        Name of the window, kept with the trace.

    References
    ----------
    .. [1] Duca, N., and D. Sinclair. Trace Event Format. Chromium project.
    """
    stages, shards, ranks = replay.busy.shape
    layers = replay.phases.expert.shape[2]
    with_ranks = len(replay.spans) * (1 + layers // stages * (len(NAMES) + len(BUSY) * ranks)) <= MOST_EVENTS
    events = [_name("process_name", k * shards + g, 0, _process(k, g, stages)) for k in range(stages) for g in range(shards)]
    for process in range(stages * shards):
        tracks = ["rows", "phases", *(f"rank {n}" for n in range(ranks if with_ranks else 0))]
        events += [_name("thread_name", process, n, track) for n, track in enumerate(tracks)]
    for span in replay.spans:
        process = span.stage * shards + span.shard
        events.append(_event(f"{span.kind} {span.row}", process, 0, span.start, span.end, {"row": span.row}))
        events += _phase_events(replay, span, process, with_ranks)
    other = {"window": label, "unit": "1 us stands for 1 tick", "tracks": "shards and ranks" if with_ranks else "shards"}
    return {"displayTimeUnit": "ms", "otherData": other, "traceEvents": events}


def _process(stage: int, shard: int, stages: int) -> str:
    return f"shard {shard}" if stages == 1 else f"stage {stage}, shard {shard}"


def _phase_events(replay: Replay, span: Span, process: int, with_ranks: bool) -> list[dict[str, Any]]:
    """Fit the phases of a span's layers into it; a backward pass runs them from the last to the first."""
    phases, (stages, _, ranks) = replay.phases, replay.busy.shape
    layers = phases.expert.shape[2]
    own = slice(span.stage * layers // stages, (span.stage + 1) * layers // stages)
    at = (span.row, span.shard, own)
    both_ways = phases.dispatch[at]
    lengths = np.stack([phases.attention[at].sum(axis=1), both_ways, phases.expert[at], both_ways], axis=1)  # (layer, phase)
    ends = lengths.cumsum().reshape(lengths.shape)
    whole, fitted = int(ends[-1, -1]), span.end - span.start

    def fit(tick: int) -> int:
        inside = tick * fitted // whole if whole else 0
        return span.end - inside if span.kind == "backward" else span.start + inside

    events = []
    for n, phase in np.argwhere(lengths).tolist():
        last = int(ends[n, phase])
        start, end = sorted((fit(last - int(lengths[n, phase])), fit(last)))
        detail = {"row": span.row, "layer": own.start + n}
        events.append(_event(NAMES[phase], process, 1, start, end, detail))
        if with_ranks and phase in BUSY:
            busy = phases.busy[BUSY[phase], span.row, span.shard, own.start + n]
            share = (end - start) / int(lengths[n, phase])
            events += [
                _event(NAMES[phase], process, 2 + k, start, start + round(int(busy[k]) * share), detail) for k in range(ranks) if busy[k]
            ]
    return events


def _name(what: str, process: int, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": track, "args": {"name": name}}


def _event(name: str, process: int, track: int, start: int, end: int, detail: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "name": name, "cat": "replay", "pid": process, "tid": track, "ts": start, "dur": end - start, "args": detail}
