"""Generated windows: exact totals, equal seeds, and the statistics that were measured on real ones."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routepack import InvalidInstance
from routepack.instances import generate
from routepack.instances.files import instance_from_dict
from routepack.instances.presets import PRESETS, preset
from routepack.instances.routing import PROMPT_DISTANCE, Router, draw_counts, draw_shares, stream
from routepack.instances.workloads import WORKLOADS, draw_lengths, workload

SMALL = {"samples": 8, "prompts": 2, "layers": 2, "experts": 8, "top_k": 2, "dp": 2, "ep": 2, "token_cap": 2048, "seed": 0}


def small(**changes):
    """Generate a small window, or a variation of it."""
    return generate(**{**SMALL, **changes})


def rank_loads(demand, ranks):
    """Sum demand over experts placed in order, shape (N, L, P)."""
    return demand.reshape(*demand.shape[:2], ranks, -1).sum(axis=3).astype(float)


def balanced_order(demand, ranks):
    """Reorder experts so that ranks in order hold them as longest-first placement would: heaviest to the lightest rank with room."""
    loads = demand.sum(axis=0)
    held = loads.shape[1] // ranks
    order = np.empty_like(loads)
    for layer, load in enumerate(loads):
        sets = [[] for _ in range(ranks)]
        for e in np.argsort(-load, kind="stable"):
            min((s for s in sets if len(s) < held), key=lambda s: load[s].sum()).append(e)
        order[layer] = np.concatenate(sets)
    return np.take_along_axis(demand, order[None], axis=2)


def peak_over_mean(loads, lengths, cap):
    """Fill rows of up to ``cap`` tokens in order; sum of the largest ranks over the sum of the means."""
    row = np.zeros(len(lengths), dtype=int)
    tokens = 0
    for i, t in enumerate(lengths):
        row[i] = row[i - 1] + (tokens + t > cap) if i else 0
        tokens = t if i and row[i] != row[i - 1] else tokens + t
    rows = np.stack([loads[row == r].sum(axis=0) for r in range(row[-1] + 1)])
    return rows.max(axis=2).sum() / rows.mean(axis=2).sum()


def share_correlation(demand, groups):
    """Mean correlation of expert shares, window mean removed, within a group and across groups."""
    share = demand / demand.sum(axis=2, keepdims=True)
    flat = (share - share.mean(axis=0)).reshape(len(demand), -1)
    flat /= np.linalg.norm(flat, axis=1, keepdims=True)
    both = flat @ flat.T
    same = np.equal.outer(groups, groups)
    return both[same & ~np.eye(len(groups), dtype=bool)].mean(), both[~same].mean()


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    experts=st.integers(1, 6),
    seed=st.integers(0, 2**64 - 1),
    data=st.data(),
)
def test_every_layer_has_top_k_slots_for_each_token_and_no_expert_has_more_than_the_tokens(lengths, experts, seed, data):
    top_k = data.draw(st.integers(1, experts))
    instance = generate(
        samples=len(lengths), layers=2, experts=experts, top_k=top_k, lengths=lengths, dp=1, ep=1, token_cap=64, seed=seed, concentration=1
    )
    demand = instance.window.demand
    assert demand.dtype == np.int32
    assert (demand.sum(axis=2) == top_k * np.array(lengths)[:, None]).all()
    assert (demand <= np.array(lengths)[:, None, None]).all()


def test_excess_goes_to_experts_with_room_even_without_a_share():
    share = np.array([[1.0, 0.0, 0.0], [0.6, 0.4, 0.0]])
    counts = draw_counts(stream(0), share, 5, 2)
    assert counts.sum(axis=1).tolist() == [10, 10]
    assert counts[0, 0] == 5  # the only expert with a share is full, the others take the other five
    assert counts.max() <= 5
    assert draw_counts(stream(0), share, 5, 3).tolist() == [[5, 5, 5], [5, 5, 5]]  # every token chooses all three


def test_the_same_seed_gives_the_same_window_and_another_seed_another():
    assert small().sha256() == small().sha256()
    assert small().sha256() != small(seed=1).sha256()
    assert small(seed=2**64 - 1).sha256() == small(seed=2**64 - 1).sha256()


def test_a_sample_does_not_depend_on_those_after_it():
    alone = {"prompts": None, "lengths": None}
    few = small(**alone | {"samples": 4, "prompts": 4, "lengths": [90] * 4})
    more = small(**alone | {"samples": 6, "prompts": 6, "lengths": [90] * 6})
    assert (few.window.demand == more.window.demand[:4]).all()


def test_prompts_have_equal_groups_in_order():
    assert small().window.prompt_ids == (0, 0, 0, 0, 1, 1, 1, 1)
    assert small(prompts=None).window.prompt_ids == (0,) * 8  # one prompt for eight samples
    assert np.bincount(small(samples=10, prompts=4).window.prompt_ids).tolist() == [3, 2, 3, 2]


def test_samples_longer_than_the_cap_are_cut_and_kept():
    lengths = small(samples=64, prompts=8, workload="swe-agent", token_cap=4096).window.lengths
    assert len(lengths) == 64
    assert lengths.max() == 4096
    assert (lengths == 4096).mean() > 0.5  # prompt 2,048 and a median response of 9,300
    assert small(token_cap=1).window.lengths.tolist() == [1] * 8


def test_given_lengths_are_kept():
    assert small(lengths=[4000, *range(1, 8)]).window.lengths.tolist() == [4000, *range(1, 8)]


def test_the_array_itself_is_all_the_memory_that_grows():
    tracemalloc.start()
    window = small(samples=1024, prompts=128, layers=16, experts=64).window
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < window.demand.nbytes + 4_000_000  # 4.2 MB; a second copy, or float shares of all samples, would not fit


@pytest.mark.parametrize("name", WORKLOADS)
def test_lengths_follow_the_table(name):
    kind = workload(name)
    prompt_of_sample = np.arange(16_000) // 8
    prompt, total = draw_lengths(kind, prompt_of_sample, 1_000_000, np.random.default_rng(0))
    response = total - prompt[prompt_of_sample]
    assert np.median(prompt) == pytest.approx(kind.prompt_median, rel=0.1)
    assert response.max() <= kind.cap
    if kind.at_cap:
        assert (response == kind.cap).mean() == pytest.approx(kind.at_cap, abs=0.02)
        assert np.median(np.log(response[response < kind.cap])) == pytest.approx(kind.mu, abs=0.1)
        return
    logarithm = np.log(response)
    assert logarithm.mean() == pytest.approx(kind.mu, abs=0.05)
    assert logarithm.std() == pytest.approx(kind.sigma, rel=0.06)
    groups = logarithm.reshape(-1, 8)
    within, between = groups.var(axis=1, ddof=1).mean(), groups.mean(axis=1).var(ddof=1)
    assert (between - within / 8) / (between - within / 8 + within) == pytest.approx(kind.icc, abs=0.04)  # one-way analysis of variance


def test_many_domains_with_a_skewed_router_behave_like_gpt_oss():
    lengths = np.random.default_rng(0).lognormal(5.8, 0.7, 256).astype(int).clip(30, 511)
    instance = generate(
        samples=256, prompts=256, layers=24, experts=32, top_k=4, lengths=lengths, domains=85, dp=16, ep=8, token_cap=2048, seed=0
    )
    demand = instance.window.demand
    # Measured on gpt-oss-20b, and how far a model of independent experts may be off.
    for ranks, variation, contiguous, placed, alone in ((4, 0.235, 1.175, 1.075, 1.35), (8, 0.432, 1.47, 1.165, 1.91)):
        loads = rank_loads(demand, ranks)
        share = loads / loads.sum(axis=2, keepdims=True)
        assert (share.std(axis=0) / share.mean(axis=0)).mean() == pytest.approx(variation, rel=0.3)
        assert peak_over_mean(loads, lengths, 8192) == pytest.approx(contiguous, abs=0.08)
        assert peak_over_mean(rank_loads(balanced_order(demand, ranks), ranks), lengths, 8192) == pytest.approx(placed, abs=0.02)
        assert loads.max(axis=2).sum() / loads.mean(axis=2).sum() == pytest.approx(alone, abs=0.1)
        overload = np.corrcoef(share.max(axis=2).T)
        assert overload[np.triu_indices(24, 1)].mean() == pytest.approx(0.0, abs=0.1)  # measured .08
    within, across = share_correlation(demand, np.arange(256) % 85)
    assert within == pytest.approx(0.45, abs=0.03)
    assert across == pytest.approx(-0.04, abs=0.04)


@pytest.mark.parametrize(("name", "measured"), [("math", 0.88), ("gsm8k", 0.60), ("agent", 0.45)])
def test_siblings_of_a_prompt_are_as_alike_as_measured(name, measured):
    instance = generate(samples=200, prompts=25, layers=6, experts=64, top_k=8, workload=name, dp=8, ep=8, token_cap=16384, seed=0)
    within, _ = share_correlation(instance.window.demand, np.array(instance.window.prompt_ids))
    assert within == pytest.approx(measured, abs=0.1)


def test_a_prompt_and_its_response_differ_as_measured():
    router = Router(0, layers=40, experts=64, top_k=8, popularity=3.0, prompt_concentration=77.0, sample_concentration=700.0)
    domain, rng = router.domain_shares(router.popular_shares(), 0), stream(1)
    of_group, of_prompt, of_response = router.concentrations(domain, 200, 600.0)
    group = draw_shares(rng, domain, of_group)
    prompt = draw_counts(rng, draw_shares(rng, group, of_prompt), 200, 8) / 1600
    response = draw_counts(rng, draw_shares(rng, group, of_response), 400, 8) / 3200
    assert np.abs(prompt - response).sum(axis=1).mean() / 2 == pytest.approx(PROMPT_DISTANCE, abs=0.03)


def test_a_balanced_router_is_more_even_than_a_skewed_one():
    def skew(router):
        loads = small(samples=64, prompts=8, layers=8, experts=32, dp=8, ep=8, router=router, domains=8).window.demand.sum(axis=0)
        return (loads.max(axis=1) / loads.mean(axis=1)).mean()

    assert skew("skewed") > skew("medium") > skew("balanced")


def test_a_high_concentration_makes_samples_alike():
    def spread(concentration):
        demand = small(samples=64, prompts=8, layers=8, concentration=concentration, lengths=[500] * 64).window.demand
        return demand.std(axis=0).mean()

    assert spread(400) < 0.6 * spread(69)  # sqrt(70 / 401) = .42, and counting noise


def test_windows_of_one_model_share_its_domains():
    def totals(seed, domain):
        window = small(samples=64, prompts=16, layers=8, experts=32, model_seed=7, seed=seed, domains=[domain], lengths=[400] * 64).window
        return (window.demand.sum(axis=0) / 64).ravel()

    like, unlike = (np.corrcoef(totals(0, 3), totals(1, domain))[0, 1] for domain in (3, 4))
    assert like > 0.9 > unlike


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"preset": "ling-3.0-tiny"}, "stands beside preset"),
        ({"layers": None}, "layers is missing"),
        ({"preset": "gpt-5", "layers": None, "experts": None, "top_k": None}, "gpt-5"),
        ({"workload": "poetry"}, "swe-agent"),
        ({"router": "fair"}, "balanced"),
        ({"samples": 0}, "samples"),
        ({"samples": 2.5}, "samples"),
        ({"prompts": 9}, "prompts = 9 exceeds samples = 8"),
        ({"top_k": 9}, "top_k = 9"),
        ({"ep": 3, "dp": 3}, "experts = 8"),
        ({"dp": 3}, "edp"),
        ({"token_cap": 0}, "token_cap"),
        ({"seed": -1}, "seed"),
        ({"seed": True}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"model_seed": 0.5}, "model_seed"),
        ({"concentration": 0}, "concentration"),
        ({"concentration": float("nan")}, "concentration"),
        ({"domains": 0}, "domains"),
        ({"domains": []}, "domains"),
        ({"domains": [-1]}, "domains[0]"),
        ({"domains": "ab"}, "domains"),
        ({"lengths": [1, 2]}, "lengths has 2 entries"),
        ({"lengths": [0] * 8}, "lengths[0]"),
        ({"samples": 10**6, "prompts": 1}, "samples"),
        ({"experts": 2**20, "layers": 1}, "experts"),
    ],
)
def test_an_impossible_window_is_refused(changes, text):
    with pytest.raises(InvalidInstance) as info:
        small(**changes)
    assert text in str(info.value)


PRESET_SIZES = {  # MoE layers, the first of them; experts, top-k; layers of each kind of attention
    "ling-3.0-tiny": (23, 1, 128, 8, {"kda": 18, "mla": 6}),
    "ling-3.0-flash": (40, 2, 512, 8, {"kda": 35, "mla": 7}),
    "qwen3-30b-a3b": (48, 0, 128, 8, {"full": 48}),
    "qwen3-235b-a22b": (94, 0, 128, 8, {"full": 94}),
    "deepseek-v3": (58, 3, 256, 8, {"mla": 61}),
    "kimi-k2": (60, 1, 384, 8, {"mla": 61}),
    "glm-4.5-air": (45, 1, 128, 8, {"full": 46}),
    "gpt-oss-20b": (24, 0, 32, 4, {"sliding": 12, "full": 12}),
}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_has_the_sizes_of_its_model(name):
    model = preset(name)
    kinds = {kind.name: kind.layers for kind in model.attention}
    assert (len(model.moe_layers), model.moe_layers[0], model.experts, model.top_k, kinds) == PRESET_SIZES[name]
    assert [stage.name for stage in model.cost.stages] == list(kinds)
    for kind in model.attention:
        assert kind.linear > 0
        assert (kind.quadratic > 0) == (kind.name in ("full", "mla"))


def test_attention_flops_are_those_of_the_formulas():
    full = preset("qwen3-30b-a3b").attention[0]
    assert full.linear == 2 * 2048 * 32 * 128 + 4 * 2048 * 4 * 128 + 2 * 2048**2  # queries, keys and values, output
    assert full.quadratic == 2 * 32 * 128
    mla = preset("deepseek-v3").attention[0]
    queries = 2 * 1536 * (7168 + 128 * 192)
    keys_and_values = 2 * (512 * (7168 + 128 * 256) + 7168 * 64)
    assert mla.linear == queries + keys_and_values + 2 * 7168**2
    assert mla.quadratic == 128 * (128 + 64 + 128)
    sliding, whole = preset("gpt-oss-20b").attention
    assert sliding.linear == whole.linear + 4 * 64 * 64 * 128  # each token sees 128 others


def test_a_preset_gives_a_window_its_layers_and_its_stages():
    instance = generate(preset="ling-3.0-tiny", samples=8, dp=8, ep=8, token_cap=8192, seed=0)
    assert instance.window.demand.shape == (8, 23, 128)
    assert instance.window.moe_layers.tolist() == list(range(1, 24))
    assert [stage.name for stage in instance.cost.stages] == ["kda", "mla"]
    assert instance.name == "generated-ling-3.0-tiny-math-8-seed0"


def from_rule(rule, token_cap, dp, ep, edp, w=0):
    """Build the window of a length rule; every token of sample i goes to expert i mod ep."""

    def size(value):
        return value["base"] + w % value["mod"] if isinstance(value, dict) else value

    lengths = [
        rule["min"] + (rule.get("per_window", 0) * w + rule["step"] * i + rule.get("square", 0) * i * i) % rule["mod"]
        for i in range(size(rule["n"]))
    ]
    demand = np.zeros((len(lengths), 1, ep), dtype=int)
    demand[np.arange(len(lengths)), 0, np.arange(len(lengths)) % ep] = lengths
    head = {"format": "routepack-instance", "version": 1, "topology": {"dp": size(dp), "ep": ep, "edp": edp}, "token_cap": token_cap}
    return instance_from_dict(head | {"lengths": lengths, "demand": demand.tolist()})


def fewest_cells(lengths, cap):
    """Return the bin-packing optimum, by the best (cells, fill of the last) of every subset."""
    best = [(0, cap)] + [(len(lengths), cap)] * ((1 << len(lengths)) - 1)
    for subset in range(1, len(best)):
        best[subset] = min(
            (cells, fill + t) if fill + t <= cap else (cells + 1, t)
            for i, t in enumerate(lengths)
            if subset >> i & 1
            for cells, fill in [best[subset ^ 1 << i]]
        )
    return best[-1][0]


def test_windows_by_a_length_rule_need_the_rows_that_enumeration_gives(shared):
    for case in generator_cases(shared):
        given_, expect = case["input"], case["expect"]
        if "rows_per_window" in expect:
            for w, rows in enumerate(expect["rows_per_window"]):
                instance = from_rule(given_["rule"], given_["token_cap"], given_["dp"], given_["ep"], given_["edp"], w)
                needed = instance.rows_for(fewest_cells(instance.window.lengths.tolist(), instance.token_cap))
                assert rows == (needed if needed * instance.topology.dp <= instance.window.num_samples else None)
        elif "rule" in given_:
            instance = from_rule(given_["rule"], given_["token_cap"], given_["dp"], given_["ep"], given_["edp"])
            assert instance.window.lengths[:4].tolist() == expect["first_lengths"]
            assert instance.window.lengths.sum() == expect["total_tokens"]
            assert instance.rows_for(-(-expect["total_tokens"] // instance.token_cap)) == expect["rows"]


def test_generated_demand_has_the_facts_of_the_cases(shared):
    checked = 0
    for case in generator_cases(shared):
        if "rule" in case["input"]:
            continue
        wanted, expect = dict(case["input"]), case["expect"]
        wanted["layers"] = wanted.pop("moe_layers")
        instance = generate(**wanted, dp=1, ep=1, token_cap=8)
        demand = instance.window.demand
        assert list(demand.shape) == expect["demand_shape"]
        assert demand.sum(axis=2).T.tolist() == [expect["row_sums"]] * demand.shape[1]
        if "entry_at_most" in expect:
            assert (demand.max(axis=(1, 2)) <= expect["entry_at_most"]).all()
            assert demand.sum() == expect["total_demand"]
        if "prompt_groups" in expect:
            assert np.bincount(instance.window.prompt_ids).tolist() == expect["prompt_groups"]
        assert generate(**wanted, dp=1, ep=1, token_cap=8).sha256() == instance.sha256()
        assert generate(**wanted | {"seed": 99}, dp=1, ep=1, token_cap=8).sha256() != instance.sha256()
        checked += 1
    assert checked == 2


def generator_cases(shared):
    """Return the cases of kind generator."""
    with (shared / "cases" / "cases.jsonl").open() as lines:
        return [case for case in map(json.loads, lines) if case["kind"] == "generator"]
