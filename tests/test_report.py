import dataclasses
import html
import itertools
import json
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import instances, plans

from routepack import Infeasible, Instance, InvalidPlan, Options, Topology, Window, solve
from routepack.budget import Budget
from routepack.cli import main
from routepack.cost import Score, cost
from routepack.instances.files import plan_from_dict, result_to_dict, write_instance, write_result
from routepack.studies.charts import heat_map, histogram, timeline, waterfall
from routepack.studies.curves import curves
from routepack.studies.decomposition import decompose
from routepack.studies.page import Figure, Report, Section, Table, render, standalone
from routepack.studies.plan_report import plan_report
from routepack.studies.records import Record, Step
from routepack.studies.study_report import study_report
from routepack.verify import recompute_bound

HOSTILE = "</script><script>document.title='owned'</script>\x00\ud800<img src=x onerror=alert(1)>&\"'"
CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update "
    "--disable-sync --enable-logging=stderr --virtual-time-budget=500"
)


def window(name="small", sync="shard"):
    """Twelve samples on two shards of two slots, three layers of four experts on two ranks."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(2, 20, 12)
    demand = rng.multinomial(40, [0.5, 0.2, 0.2, 0.1], size=(12, 3))
    return Instance(Window(lengths, demand), Topology(4, 2, 2), 40, name=name, options=Options(sync=sync))


def planned(instance):
    result = solve(instance, budget=Budget(attempts=500), backend="numpy")
    return result, *plan_from_dict(result_to_dict(result))


def study(hostile=False):
    """Two methods on two windows, one run failed; anneal needs 0.2 s to its best, 1 % below kk on the first window."""
    text = HOSTILE if hostile else ""
    versions = {"routepack": "1" + text}
    runs = []
    for (window, best), seed in itertools.product([("a", 100), ("b", 200)], [0, 1]):
        shared = {"seed": seed, "versions": versions, "machine": "here" + text, "attempts_limit": None}
        steps = (Step(0.1, 5, best + 10), Step(0.2, 9, best))
        name = window + text
        runs.append(
            Record(
                "s" + text,
                name,
                window,
                "anneal",
                1.0,
                status="optimal",
                score=Score(best, best, 5),
                gap=0.0,
                optimum=best,
                bound=best,
                seconds=1.0,
                trajectory=steps,
                **shared,
            )
        )
        runs.append(
            Record(
                "s" + text,
                name,
                window,
                "kk" + text,
                1.0,
                status="feasible",
                score=Score(best + 1, best, 5),
                gap=0.1,
                optimum=best,
                bound=best,
                seconds=0.1,
                trajectory=(Step(0.1, 0, best + 1),),
                **shared,
            )
        )
    failed = Record("s" + text, "c" + text, "c", "kk" + text, 1.0, None, 0, "failed", error="ValueError: " + text)
    return [*runs, failed]


@settings(max_examples=60)
@given(st.data())
def test_steps_of_the_gap_add_up_to_it_and_none_but_the_bounds_own_is_negative(data):
    instance = data.draw(instances(max_samples=8))
    assume(instance.window.num_samples >= instance.topology.dp)
    instance = dataclasses.replace(instance, token_cap=1000)  # so that every plan of filled cells keeps it
    plan = data.draw(plans(instance))
    assume(all(cell for slot in plan.layout.cells for cell in slot))
    found = cost(instance, plan)
    bound = recompute_bound(instance, None, plan.layout.num_rows).value
    parts = decompose(instance, plan, found, bound)
    steps = parts.steps
    assert sum(steps.values()) == found.score.makespan - bound
    assert steps.pop("beyond_sums") <= 0
    assert min(steps.values()) >= 0


def test_the_gap_of_a_plan_with_one_idle_shard_is_shard_imbalance():
    # one layer, one rank, no attention cost: 6 ticks on shard 0 and 2 on shard 1, 4 each would be even
    instance = Instance(Window([3, 1], np.array([6, 2]).reshape(2, 1, 1)), Topology(2, 1, 2), 4)
    instance = dataclasses.replace(instance, cost=dataclasses.replace(instance.cost, share=0.0))
    result, plan, _ = planned(instance)
    steps = decompose(instance, plan, result.cost, 4).steps
    assert steps == {"beyond_sums": 0, "placement": 0, "expert_peaks": 0, "attention_waste": 0, "shard_imbalance": 2}


@pytest.mark.parametrize("sync", ["shard", "row"])
def test_a_plan_report_says_what_the_result_says(sync):
    instance = window(sync=sync)
    result, plan, claims = planned(instance)
    facts = plan_report(instance, plan, claims).facts
    assert tuple(facts["score"]) == result.score
    assert facts["bound"]["value"] == result.bound.value
    assert facts["gap"] == result.gap
    assert facts["rows"]["count"] == result.rows.count
    assert facts["baseline"]["score"] == list(solve(instance, method="identity-ffd").score)
    assert sum(facts["gap_steps"].values()) == result.score.makespan - result.bound.value


def test_the_verdict_says_when_the_bound_is_met():
    # one sample on each of two shards with 4 ticks of experts: no plan has a faster slowest shard
    instance = Instance(Window([2, 2], np.array([4, 4]).reshape(2, 1, 1)), Topology(2, 1, 2), 2)
    _, plan, claims = planned(instance)
    assert "As fast as the best plan with as many rows" in plan_report(instance, plan, claims).verdict


def test_a_report_of_a_plan_that_does_not_hold_is_refused():
    instance = window()
    _, plan, claims = planned(instance)
    with pytest.raises(InvalidPlan):
        plan_report(instance, plan, dataclasses.replace(claims, score=Score(1, 1, 1)))


@pytest.mark.parametrize("edges", ["no attention", "one slot", "no demand", "split slots"])
def test_windows_at_the_edges_have_a_report(edges):
    instance = window()
    if edges == "no attention":
        instance = dataclasses.replace(instance, cost=dataclasses.replace(instance.cost, share=0.0))
    if edges == "one slot":
        instance = dataclasses.replace(instance, topology=Topology(1, 2, 1), token_cap=300)
    if edges == "no demand":
        instance = dataclasses.replace(instance, window=Window([2] * 12, np.zeros((12, 3, 4), dtype=int)))
    if edges == "split slots":
        instance = dataclasses.replace(instance, topology=Topology(2, 2, 4))
    _, plan, claims = planned(instance)
    assert "<h2>Cells</h2>" in render(plan_report(instance, plan, claims))


def test_a_plan_without_a_baseline_has_a_report(monkeypatch):
    def none(*_, **__):
        raise Infeasible("first-fit finds none", "give up")

    instance = window()
    _, plan, claims = planned(instance)
    monkeypatch.setattr("routepack.studies.plan_report.solve", none)
    report = plan_report(instance, plan, claims)
    assert report.facts["baseline"] is report.facts["gain"] is None
    assert "finds no plan to compare with" in report.verdict


@pytest.mark.parametrize("make", ["plan", "study"])
def test_hostile_names_stay_text(make):
    if make == "plan":
        instance = dataclasses.replace(window(HOSTILE.replace("\ud800", "")))
        report = plan_report(instance, *planned(instance)[1:])
    else:
        report = study_report(study(hostile=True), HOSTILE)
    page = render(report)
    page.encode()  # no lone surrogates
    assert "\x00" not in page
    assert "<img" not in page
    assert page.count("<script") == page.count("</script>") == 2  # facts and code
    for figure in report.figures:
        ElementTree.fromstring(standalone(figure))
        assert re.fullmatch(r"[a-z0-9-]+", figure.name)
    assert facts_of(page).keys() == report.facts.keys()


@given(st.text(), st.text())
def test_any_text_is_escaped_everywhere(text, other):
    svg = timeline([(text, [])], end=1.0, label=other, legend=[("idle", text)])
    figure = Figure("f", text, svg)
    table = Table(text, (text, other), ((other, text),), folded=True)
    page = render(Report(text, other, ((text, other, text),), (Section(text, other, (figure, table)),), {"text": text}))
    body = page[page.index("<body>") :]
    names = set(re.findall(r"<([a-z0-9]+)", body))
    known = "body header h1 h2 p dl div dt dd strong small main section figure svg rect text path figcaption details summary footer script"
    assert names <= {*known.split(), "table", "thead", "tbody", "tr", "th", "td"}
    ElementTree.fromstring(standalone(figure))
    assert facts_of(page) == {"text": text}


def facts_of(page):
    return json.loads(re.search(r'<script type="application/json" id="facts">(.*?)</script>', page, re.DOTALL)[1])


def test_charts_of_nothing_and_of_one_value_are_drawn():
    flat = heat_map(np.ones((1, 1)), lambda i, j: "x", label="", axes=("", ""), names=(["0"], ["0"]), domain=(1.0, 1.0), unit="")
    charts = [
        flat,
        histogram([5.0, 5.0], [3], label="", unit=""),
        timeline([], end=0.0, label="", legend=[]),
        waterfall(("bound", 0), [("a", 0)], ("score", 0), label=""),
        curves([], label="", axes=("", "")),
        curves([("a", []), ("b", [(0.5, 3.0)])], label="", axes=("", ""), log_x=True, floor=0.01),
    ]
    for chart in charts:
        ElementTree.fromstring(chart)
        assert "nan" not in chart


def test_the_largest_heat_maps_leave_a_page_below_eight_megabytes():
    layers, ranks = 96, 128  # the envelope; a page has two of them
    names = ([str(n) for n in range(layers)], [str(n) for n in range(ranks)])
    tip = "layer 95, rank 127\n1,000,000,000 token-slots, 1.000 of the mean"
    chart = heat_map(np.ones((layers, ranks)), lambda i, j: tip, label="", axes=("", ""), names=names, domain=(0.0, 1.0), unit="")
    assert 2 * len(chart) < 5_000_000


def test_a_study_report_counts_compares_and_names_failures():
    report = study_report(study(), "mine")
    assert report.facts["runs"] == 9
    assert report.facts["statuses"] == {"optimal": 4, "feasible": 4, "failed": 1}
    assert "anneal (1 s) comes closest, 0.000 % above the proven optimum" in report.verdict
    kk = next(line for line in report.facts["summaries"] if line["method"] == "kk")
    assert kk["optimality_gap"] == pytest.approx((0.01 + 0.005) / 2)  # 101 over 100 and 201 over 200
    page = render(report)
    assert "ValueError" in page
    assert {figure.name for figure in report.figures} == {"s-gap-profile", "s-performance-profile", "s-time-to-target", "s-anytime"}


def test_a_study_of_failures_alone_has_a_report():
    assert "none with a plan" in study_report(study()[-1:]).verdict


def test_the_command_writes_a_page_and_figures(tmp_path):
    instance = window()
    write_instance(tmp_path / "w.json", instance)
    write_result(tmp_path / "p.json", planned(instance)[0])
    arguments = ["report", str(tmp_path / "p.json"), "--window", str(tmp_path / "w.json"), "-o", str(tmp_path / "p.html")]
    found = CliRunner().invoke(main, [*arguments, "--figures", str(tmp_path / "figures")])
    assert found.exit_code == 0, found.output
    page = (tmp_path / "p.html").read_text()
    assert html.escape(found.output.strip()) in page
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)  # nothing comes from elsewhere
    assert len(list((tmp_path / "figures").glob("*.svg"))) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan.json", "-o", "x.html"], "window is missing"),
        (["plan.json", "--window", "nowhere", "-o", "x.html"], "plan.json"),
        ([".", "--window", "w", "-o", "x.html"], "leave it out"),
        ([".", "-o", "x.html"], "records"),
        ([".", "-o", "nowhere/x.html"], "cannot be written"),
    ],
)
def test_the_command_says_what_is_missing(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(main, ["report", *arguments])
    assert found.exit_code == 2
    assert message in found.output


PROBE = """<script>addEventListener("load", () => parent.postMessage(JSON.stringify({
  wide: document.documentElement.scrollWidth, room: innerWidth, facts: JSON.parse(document.getElementById("facts").textContent),
  cards: [...document.querySelectorAll(".card strong")].map((card) => card.textContent), title: document.title,
}), "*"));</script></body>"""
FRAME = """<!doctype html><body style="margin:0"><pre></pre><script>
addEventListener("message", (event) => { document.querySelector("pre").textContent = event.data; });
</script><iframe src="page.html" style="border:0;width:{width}px;height:900px"></iframe>"""


def in_chromium(folder, page, width):
    """Open a page in a frame as wide as asked, and return what it says of itself; windows are never narrower than some 500 px."""
    (folder / "page.html").write_text(page.replace("</body>", PROBE))
    (folder / "frame.html").write_text(FRAME.replace("{width}", str(width)))
    profile = folder / "profile"
    command = [
        CHROMIUM,
        *FLAGS.split(),
        f"--user-data-dir={profile}",
        "--window-size=1500,1000",
        "--dump-dom",
        f"file://{folder}/frame.html",
    ]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "CONSOLE" not in found.stderr
    return json.loads(html.unescape(re.search("<pre>(.*?)</pre>", found.stdout, re.DOTALL)[1]))


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
@pytest.mark.parametrize("make", ["plan", "study"])
@pytest.mark.parametrize("width", [390, 1440])
def test_chromium_opens_a_page_without_errors_or_overflow(tmp_path, make, width):
    if make == "plan":
        instance = window("a window with a name " + "x" * 200)
        report = plan_report(instance, *planned(instance)[1:])
    else:
        report = study_report(study(hostile=True), HOSTILE)
    found = in_chromium(tmp_path, render(report), width)
    assert found["wide"] <= found["room"] == width
    assert found["facts"] == json.loads(json.dumps(report.facts))
    assert found["cards"] == [value for _, value, _ in report.cards]
    assert found["title"] != "owned"  # what the hostile names try


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_the_probe_sees_errors_and_overflow(tmp_path):
    wide = '<!doctype html><body><script id="facts" type="application/json">{}</script><div style="width:2000px">x</div></body>'
    assert in_chromium(tmp_path, wide, 390)["wide"] > 390
    with pytest.raises(AssertionError):
        in_chromium(tmp_path, wide.replace("</div>", "</div><script>nowhere()</script>"), 390)
