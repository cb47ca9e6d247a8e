"""Trace files as the frameworks write them, and files that are cut, flipped, swollen or hostile."""

import io
import json
import pickle
import resource
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_forms import FORMS, described, naive, plain, text

from routepack.cli import main
from routepack.errors import InvalidInstance, RoutePackError
from routepack.instances.files import read_instance
from routepack.instances.presets import preset
from routepack.instances.readers import ModelShape, count, read_trace

MODEL = ModelShape(3, np.array([1, 2]), 8, 2)  # one dense layer, two MoE layers
LENGTHS = (5, 3, 9)
MEMORY = 256 << 20  # bytes that a malformed file may take on top


def draw(model=MODEL, lengths=LENGTHS):
    """T rows a sample, distinct choices, zeros in dense layers."""
    rng = np.random.default_rng(0)
    samples = []
    for tokens in lengths:
        routes = np.zeros((tokens, model.num_layers, model.top_k), dtype=np.int32)
        order = rng.random((tokens, len(model.moe_layers), model.experts)).argsort(axis=2)
        routes[:, model.moe_layers] = order[:, :, : model.top_k]
        samples.append(routes)
    return samples


SAMPLES = draw()
KNOWN = [naive(MODEL, routes, len(routes) - 1).tolist() for routes in SAMPLES]  # the last token has no route


def batch(before=0, dtype=np.int16):
    """All samples in one array, padded to the longest plus two."""
    width = before + max(LENGTHS) + 2
    ids, mask = np.zeros((len(SAMPLES), width, 3, 2), dtype), np.zeros((len(SAMPLES), width), np.int64)
    for n, routes in enumerate(SAMPLES):
        ids[n, before : before + len(routes)] = routes
        mask[n, before : before + len(routes)] = 1
    return {"routed_experts": ids, "attention_mask": mask}


def refusal(path, form="array", model=MODEL):
    """Return the one line with which a file is refused, in bounded memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidInstance) as fault:
        read_trace(path, form, model)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY >> 10
    assert "\n" not in str(fault.value)
    assert str(fault.value).startswith(str(path))
    return str(fault.value)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_every_form_is_read_from_json(tmp_path, name, suffix):
    form, write = FORMS[name]
    records = [plain(write(MODEL, routes)) for routes in SAMPLES]
    path = tmp_path / f"trace{suffix}"
    path.write_text(json.dumps(records) if suffix == ".json" else "".join(json.dumps(record) + "\n" for record in records))
    trace = read_trace(path, form, MODEL)
    assert trace.demand.tolist() == KNOWN
    assert trace.window().lengths.tolist() == [*LENGTHS]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("form", ["verl", "ms-swift"])
def test_a_padded_batch_is_read_from_an_archive(tmp_path, save, form):
    path = tmp_path / "batch.npz"
    save(path, **batch(before=2), sample_ids=np.array(["a", "b", "c"]))
    trace = read_trace(path, form, MODEL)
    assert trace.demand.tolist() == KNOWN
    assert trace.sample_ids == ("a", "b", "c")


def test_arrays_of_different_lengths_are_read_from_an_archive(tmp_path):
    path = tmp_path / "trace.npz"
    np.savez(path, *(routes[:-1] for routes in SAMPLES))
    assert read_trace(path, "slime", MODEL).demand.tolist() == KNOWN


def test_packed_rows_are_read_from_an_archive(tmp_path):
    path = tmp_path / "trace.npz"
    np.savez(path, routed_experts=np.concatenate(SAMPLES)[None], cu_seqlens=np.cumsum([0, *LENGTHS]))
    assert read_trace(path, "ms-swift", MODEL).demand.tolist() == KNOWN


def test_one_sample_is_read_from_an_array_file(tmp_path):
    np.save(tmp_path / "one.npy", SAMPLES[0][:-1].astype(np.uint8))
    assert read_trace(tmp_path / "one.npy", "vllm", MODEL).demand.tolist() == KNOWN[:1]


def test_the_raw_tokens_beside_the_checkout_are_counted_as_a_naive_loop_does(shared):
    path = shared / "data" / "traces" / "tinymoe_raw_tokens.npz"
    with np.load(path) as archive:
        topk, offsets = archive["topk"], archive["offsets"]
    model = ModelShape(6, np.arange(6), 64, 8)
    source = {"routes": topk, "cu_seqlens": offsets, "lengths": np.diff(offsets)}
    trace = count([source], "array", model, last_row="routed")  # all tokens have a row there
    for n in range(3):
        rows = topk[offsets[n] : offsets[n + 1]]
        known = [np.bincount(rows[:, layer].ravel(), minlength=64).tolist() for layer in range(6)]
        assert trace.demand[n].tolist() == known
    assert trace.facts.unknown_tokens == 0


class TestTorchFiles:
    """Dumps of trainers, read without running their pickles."""

    @pytest.fixture(autouse=True)
    def _needs_torch(self):
        self.torch = pytest.importorskip("torch")

    @pytest.mark.parametrize("kind", ["tensor", "array", "list"])
    def test_a_debug_dump_of_slime(self, tmp_path, kind):
        make = {"tensor": self.torch.from_numpy, "array": np.asarray, "list": lambda routes: routes.tolist()}[kind]
        samples = [
            {"index": n, "group_index": 0, "tokens": [1] * len(r), "rollout_routed_experts": make(r[:-1]), "status": "completed"}
            for n, r in enumerate(SAMPLES)
        ]
        self.torch.save({"rollout_id": 3, "samples": samples}, tmp_path / "rollout.pt")
        trace = read_trace(tmp_path / "rollout.pt", "slime", MODEL)
        assert trace.demand.tolist() == KNOWN
        assert trace.sample_ids == (0, 1, 2)
        assert trace.prompt_ids == (0, 0, 0)

    def test_a_batch_of_verl(self, tmp_path):
        self.torch.save({key: self.torch.from_numpy(value) for key, value in batch(before=1).items()}, tmp_path / "batch.pt")
        assert read_trace(tmp_path / "batch.pt", "verl", MODEL).demand.tolist() == KNOWN

    def test_a_jagged_batch_of_verl(self, tmp_path):
        self.torch.save({"routed_experts": [self.torch.from_numpy(routes) for routes in SAMPLES]}, tmp_path / "jagged.pt")
        assert read_trace(tmp_path / "jagged.pt", "verl", MODEL).demand.tolist() == KNOWN

    def test_a_dump_of_the_recorder(self, tmp_path):
        dump = {"rank": 0, "logical_count": self.torch.tensor([[[4, 0], [2, 2]]], dtype=self.torch.int32)}
        self.torch.save(dump, tmp_path / "expert_distribution_recorder_1.pt")
        model = ModelShape(3, np.array([1, 2]), 2, 1)
        assert read_trace(tmp_path / "expert_distribution_recorder_1.pt", "sglang-distribution", model).demand.tolist() == [
            [[4, 0], [2, 2]]
        ]

    def test_code_in_a_file_is_refused_and_never_run(self, tmp_path):
        ran = tmp_path / "ran"

        class Hostile:
            def __reduce__(self):
                return open, (str(ran), "w")

        self.torch.save({"samples": [Hostile()]}, tmp_path / "hostile.pt")
        refusal(tmp_path / "hostile.pt", "slime")
        (tmp_path / "plain.pt").write_bytes(pickle.dumps(Hostile()))
        assert "no torch file" in refusal(tmp_path / "plain.pt", "slime")
        assert not ran.exists()

    def test_a_compressed_member_is_refused(self, tmp_path):
        self.torch.save([1], tmp_path / "good.pt")
        with zipfile.ZipFile(tmp_path / "good.pt") as good, zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as bomb:
            for info in good.infolist():
                bomb.writestr(info.filename, good.read(info))
        assert "compressed" in refusal(tmp_path / "bomb.pt", "slime")


def npy_header(shape, kind="|u1"):
    """The head of an array file that declares a shape, without its data."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
    return file.getvalue()


@pytest.mark.parametrize("shape", [(1 << 40, 3, 2), (1 << 62, 1 << 62, 2), (5,), ()])
def test_a_huge_declared_shape_is_refused(tmp_path, shape):
    path = tmp_path / "huge.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("routes.npy", npy_header(shape) + b"\1" * 64)
    refusal(path)
    (tmp_path / "huge.npy").write_bytes(npy_header(shape) + b"\1" * 64)
    refusal(tmp_path / "huge.npy", "vllm")


def test_an_archive_that_swells_is_refused(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("routed_experts.npy", "w", force_zip64=True) as member:
        member.write(npy_header((3 << 30, 3, 2)))
        for _ in range(64):
            member.write(bytes(1 << 20))
    assert "more than" in refusal(path, "slime")


def test_long_base64_for_a_short_sample_is_refused(tmp_path):
    path = tmp_path / "bomb.jsonl"
    path.write_text(json.dumps({"routed_experts": "AAAA" * (4 << 20), "tokens": 3, "sample_id": "bomb"}))
    assert "sample 0 (bomb)" in refusal(path, "sglang")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.jsonl", b'{"routes": [[[1', "line 1 is no JSON"),
        ("x.jsonl", b"[" * 100_000, "line 1 is no JSON"),
        ("x.json", b"\xff\xfe", "no JSON"),
        ("x.json", b"5", "no samples"),
        ("x.json", b"{}", "tokens are missing"),
        ("x.json", b"[]", "no samples"),
        ("x.jsonl", b"", "no sample"),
        ("x.npz", b"PK", "not a zip file"),
        ("x.npy", b"\x93NUMPY", "no NumPy array file"),
        ("x.csv", b"1", "ending '.csv' is unknown"),
    ],
)
def test_a_broken_file_is_refused_in_one_line(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    assert words in refusal(tmp_path / name)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    assert "cannot be read" in refusal(tmp_path / "absent.json")
    assert "not a regular file" in refusal(tmp_path)


def originals(folder):
    """A valid file of each kind, with its format."""
    lines = "".join(json.dumps({**described(routes[:-1], "uint8"), "tokens": len(routes)}) + "\n" for routes in SAMPLES)
    (folder / "good.jsonl").write_text(lines)
    nested = [{"routed_experts": text(routes[:-1], "int32"), "tokens": len(routes)} for routes in SAMPLES]
    (folder / "good.json").write_text(json.dumps(nested))
    np.savez(folder / "good.npz", **batch())
    return {"good.jsonl": "prime-rl", "good.json": "sglang", "good.npz": "verl"}


@pytest.mark.parametrize("name", ["good.jsonl", "good.json", "good.npz"])
@settings(max_examples=30)
@given(st.data())
def test_a_cut_or_flipped_file_is_read_or_refused_in_one_line(tmp_path_factory, name, data):
    folder = tmp_path_factory.mktemp("fuzz")
    form = originals(folder)[name]
    content = bytearray((folder / name).read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    for _ in range(data.draw(st.integers(0, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    (folder / name).write_bytes(content)
    message = ""
    try:
        read_trace(folder / name, form, MODEL).window()  # whatever is read is a valid window
    except RoutePackError as fault:
        message = str(fault)
    assert "\n" not in message


def run(*arguments):
    """Run a command in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_import_writes_a_window_and_says_what_it_read(tmp_path):
    shape = ModelShape.of(preset("qwen3-30b-a3b"))
    samples = draw(shape, (6, 4))
    path = tmp_path / "rollout.jsonl"
    path.write_text("".join(json.dumps({"routed_experts": r[:-1].tolist(), "tokens": [1] * len(r)}) + "\n" for r in samples))
    options = ["--model", "qwen3-30b-a3b", "--dp", 2, "--ep", 8, "--edp", 1, "--token-cap", 100, "-o", tmp_path / "window.npz"]
    done = run("import", path, "--format", "slime", *options)
    assert done.exit_code == 0, done.stderr
    assert "model: qwen3-30b-a3b, 48 layers, 48 of them MoE, 128 experts, 8 a token" in done.stdout
    assert "read: 2 samples, 10 tokens, 8 tokens with routes" in done.stdout
    assert "unknown: 2 tokens, 768 token-slots" in done.stdout  # 2 * 48 layers * 8 choices
    instance = read_instance(tmp_path / "window.npz")
    assert instance.window.demand.tolist() == [naive(shape, routes, len(routes) - 1).tolist() for routes in samples]
    assert (instance.topology.dp, instance.topology.ep, instance.topology.edp, instance.token_cap) == (2, 8, 1, 100)
    assert instance.name == "rollout"


def test_import_of_loads_says_what_they_are_good_for(tmp_path):
    path = tmp_path / "trace.jsonl"
    lines = [{"step": 0, "layer": layer, "rank": 0, "num_tokens": 2, "topk": 8, "top_indices": [[*range(8)]] * 2} for layer in range(48)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ["--model", "qwen3-30b-a3b", "--dp", 1, "--ep", 8, "--edp", 1, "--token-cap", 9, "-o", tmp_path / "loads.npz"]
    done = run("import", path, "--format", "megatron-trace", *options)
    assert done.exit_code == 0, done.stderr
    assert "good for `routepack place`, not for a layout" in done.stdout
    assert run("place", tmp_path / "loads.npz").exit_code == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["--format", "trl"], "format = 'trl' is unknown"),
        (["--model", "gpt-9"], "neither a file nor a preset"),
        (["--on-missing", "guess"], "on_missing = 'guess'"),
        (["-o", "/nowhere/x.npz"], "cannot be written"),
        (["--dp", "3", "--edp", "2"], "straddle"),
    ],
)
def test_import_refuses_in_one_line(tmp_path, changes, words):
    path = tmp_path / "x.jsonl"
    path.write_text('{"routes": [[[1]]], "tokens": 2}\n')
    options = [
        "--format",
        "array",
        "--model",
        "qwen3-30b-a3b",
        "--dp",
        2,
        "--ep",
        8,
        "--edp",
        1,
        "--token-cap",
        9,
        "-o",
        tmp_path / "w.npz",
    ]
    done = run("import", path, *options, *changes)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
