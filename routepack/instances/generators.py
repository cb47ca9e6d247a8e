"""Windows made to measure, with the statistics of real ones."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from routepack.cost_model import CostModel
from routepack.errors import InvalidInstance
from routepack.instance import Instance
from routepack.instances import presets, workloads
from routepack.instances.instance_form import check_size
from routepack.instances.presets import Preset
from routepack.instances.routing import ROUTERS, Router, draw_counts, draw_shares, stream
from routepack.instances.workloads import Workload, draw_lengths
from routepack.topology import Topology, positive
from routepack.window import INT32_MAX, IntArray, Window, integer_array

LENGTHS, PROMPT, SAMPLE = range(3)  # first key of a stream


def generate(
    *,
    samples: int,
    token_cap: int,
    seed: int,
    dp: int,
    ep: int,
    edp: int | None = None,
    prompts: int | None = None,
    preset: str | None = None,
    layers: int | None = None,
    experts: int | None = None,
    top_k: int | None = None,
    workload: str = "math",
    lengths: ArrayLike | None = None,
    router: str = "skewed",
    concentration: float = 69.0,
    domains: int | Sequence[int] = 1,
    model_seed: int | None = None,
    name: str | None = None,
) -> Instance:
    """
    Generate a window; equal arguments give equal windows.

    Per layer, expert shares are drawn in steps that each lie around the one before: popularity, domain, prompt, sample. Counts are
    multinomial, no expert taking a token twice. The tokens of a prompt route alike in all of its samples. Every sample draws from a stream
    of its own, straight into the window's array, so that nothing else of the window's size is held.

    Parameters
    ----------
    samples, prompts
        Samples N, and the prompts they answer in equal groups; by default one prompt for eight samples.
    token_cap
        Tokens C of a cell; longer samples are cut to it and kept.
    seed
        Of the window.
    dp, ep, edp
        Topology; ``edp`` defaults to ``dp / ep``.
    preset
        Model whose layers, experts, top-k and attention are taken; or give ``layers``, ``experts`` and ``top_k``.
    workload
        Task whose lengths are drawn.
    lengths
        Tokens of the samples, prompts included, instead of drawn ones; shape (N,). They are not cut.
    router
        Popularity of experts: ``skewed``, ``medium`` or ``balanced``.
    concentration
        How alike the samples of a domain are: 69 (far apart, hard) to 400 (alike, easy).
    domains
        Number of domains, or their numbers, dealt to the prompts in turn. Sequences of windows whose domain changes come from one
        ``model_seed`` and a different domain in each.
    model_seed
        Of the popularity and the domains; by default ``seed``.
    name
        Name of the instance.

    Raises
    ------
    InvalidInstance
        A size, a name or a combination is not possible.
    """
    from_preset, sizes = _model(preset, layers, experts, top_k)
    topology = Topology.of(dp, ep, edp)
    samples = positive("samples", samples)
    prompts = positive("prompts", prompts if prompts is not None else -(-samples // 8))
    if prompts > samples:
        raise InvalidInstance(f"prompts = {prompts} exceeds samples = {samples}; every prompt has a sample.")
    if sizes["experts"] % topology.ep:
        raise InvalidInstance(f"experts = {sizes['experts']} are not divided by ep = {topology.ep}; every rank holds E/P experts.")
    check_size((samples, sizes["layers"], sizes["experts"]))
    kind = workloads.workload(workload)
    seed = _seed("seed", seed)
    prompt_of_sample: IntArray = np.arange(samples) * prompts // samples
    prompt_tokens, drawn = draw_lengths(kind, prompt_of_sample, positive("token_cap", token_cap), stream(seed, LENGTHS))
    tokens = drawn if lengths is None else _given(lengths, samples)
    model = _router(kind, seed if model_seed is None else _seed("model_seed", model_seed), sizes, router, concentration)
    return Instance(
        window=Window(
            lengths=tokens,
            demand=_demand(model, _domains(domains), prompt_of_sample, prompt_tokens, tokens, seed),
            prompt_ids=tuple(prompt_of_sample.tolist()),
            moe_layers=None if from_preset is None else np.array(from_preset.moe_layers),
            top_k=sizes["top_k"],
        ),
        topology=topology,
        token_cap=token_cap,
        name=name if name is not None else f"generated-{preset or 'model'}-{workload}-{samples}-seed{seed}",
        cost=CostModel() if from_preset is None else from_preset.cost,
    )


def _demand(
    model: Router, domains: tuple[int, ...], prompt_of_sample: IntArray, prompt_tokens: IntArray, tokens: IntArray, seed: int
) -> np.ndarray:
    demand = np.empty((len(tokens), model.layers, model.experts), dtype=np.int32)
    popular = model.popular_shares()
    first = np.searchsorted(prompt_of_sample, np.arange(len(prompt_tokens) + 1))
    for prompt, (start, stop) in enumerate(zip(first[:-1].tolist(), first[1:].tolist(), strict=True)):
        domain = model.domain_shares(popular, domains[prompt % len(domains)])
        asked = min(int(prompt_tokens[prompt]), int(tokens[start:stop].min()) - 1)
        of_group, of_prompt, of_response = model.concentrations(domain, asked, float(tokens[start:stop].mean()))
        rng = stream(seed, PROMPT, prompt)
        group = draw_shares(rng, domain, of_group)
        prompt_counts = draw_counts(rng, draw_shares(rng, group, of_prompt), asked, model.top_k)
        for i in range(start, stop):
            rng = stream(seed, SAMPLE, i)
            answered = draw_counts(rng, draw_shares(rng, group, of_response), int(tokens[i]) - asked, model.top_k)
            np.add(prompt_counts, answered, out=demand[i], casting="same_kind")
    return demand


def _model(name: str | None, layers: int | None, experts: int | None, top_k: int | None) -> tuple[Preset | None, dict[str, int]]:
    given = {"layers": layers, "experts": experts, "top_k": top_k}
    found = None
    if name is not None:
        both = [key for key, size in given.items() if size is not None]
        if both:
            raise InvalidInstance(f"{both[0]} = {given[both[0]]} stands beside preset = {name!r}; give one of them.")
        found = presets.preset(name)
        given = {"layers": len(found.moe_layers), "experts": found.experts, "top_k": found.top_k}
    missing = [key for key, size in given.items() if size is None]
    if missing:
        raise InvalidInstance(f"{missing[0]} is missing; give preset, or layers, experts and top_k.")
    sizes = {key: positive(key, size) for key, size in given.items()}
    if sizes["top_k"] > sizes["experts"]:
        raise InvalidInstance(f"top_k = {sizes['top_k']} exceeds experts = {sizes['experts']}; a token chooses an expert once.")
    return found, sizes


def _router(kind: Workload, seed: int, sizes: dict[str, int], router: str, concentration: float) -> Router:
    if router not in ROUTERS:
        raise InvalidInstance(f"router = {router!r} is unknown; choose {', '.join(ROUTERS)}.")
    if isinstance(concentration, bool) or not isinstance(concentration, int | float) or not 1 <= concentration <= 1e6:
        raise InvalidInstance(f"concentration = {concentration!r} is no number from 1 to 1000000; give 69 (hard) to 400 (easy).")
    prompt = (concentration + 1) / kind.prompt_part - 1
    sample = (concentration + 1) / (1 - kind.prompt_part) - 1
    return Router(seed, **sizes, popularity=ROUTERS[router], prompt_concentration=prompt, sample_concentration=sample)


def _domains(domains: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(domains, str | bytes) or not isinstance(domains, Sequence):
        return tuple(range(positive("domains", domains)))
    if not domains:
        raise InvalidInstance("domains is empty; name at least one.")
    return tuple(_seed(f"domains[{k}]", domain) for k, domain in enumerate(domains))


def _seed(what: str, value: int) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or not 0 <= value.__index__() < 1 << 64:
        raise InvalidInstance(f"{what} = {value!r} is no whole number from 0 to 2**64 - 1; give one.")
    return int(value.__index__())


def _given(lengths: ArrayLike, samples: int) -> IntArray:
    tokens: IntArray = integer_array("lengths", lengths, np.int64, 1, 1, INT32_MAX)
    if len(tokens) != samples:
        raise InvalidInstance(f"lengths has {len(tokens)} entries; one for each of the {samples} samples needed.")
    return tokens
