"""Hugging Face configs give the layers, experts and attention costs of the models that they describe."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routepack.errors import InvalidInstance
from routepack.instances.model_config import describe, model_of, read_config
from routepack.instances.presets import preset

QWEN3 = {
    "num_hidden_layers": 48,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "sliding_window": None,
    "use_sliding_window": False,
    "max_window_layers": 48,
}
DEEPSEEK = {
    "num_hidden_layers": 61,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}
GPT_OSS = {
    "num_hidden_layers": 24,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "hidden_size": 2880,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
}
GLM_AIR = {
    "num_hidden_layers": 46,
    "first_k_dense_replace": 1,
    "n_routed_experts": 128,
    "num_experts_per_tok": 8,
    "hidden_size": 4096,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "head_dim": 128,
}
SMALL = {"num_hidden_layers": 4, "num_experts": 8, "num_experts_per_tok": 2, "hidden_size": 64, "num_attention_heads": 4}


@pytest.mark.parametrize(
    ("name", "config"), [("qwen3-30b-a3b", QWEN3), ("deepseek-v3", DEEPSEEK), ("gpt-oss-20b", GPT_OSS), ("glm-4.5-air", GLM_AIR)]
)
def test_a_config_gives_the_preset_of_its_model(name, config):
    assert model_of(config, name) == preset(name)


@pytest.mark.parametrize(
    ("changes", "layers"),
    [
        ({}, [0, 1, 2, 3]),
        ({"first_k_dense_replace": 1}, [1, 2, 3]),
        ({"first_k_dense_replace": 1, "moe_layer_freq": 2}, [2]),  # layers 0, 2, ... are on the step, the first is dense
        ({"mlp_only_layers": [0, 3]}, [1, 2]),
        ({"decoder_sparse_step": 2}, [1, 3]),  # layer n where n + 1 divides
        ({"interleave_moe_layer_step": 2}, [1, 3]),
        ({"moe_layer_freq": [0, 1, 1, 0]}, [1, 2]),
        ({"moe_layers": [1, 3]}, [1, 3]),
        ({"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]}, [1, 2, 3]),
        ({"moe_layer_start_index": 1, "moe_layer_end_index": 2}, [1, 2]),
    ],
)
def test_moe_layers_follow_every_rule(changes, layers):
    assert list(model_of(SMALL | changes).moe_layers) == layers


@pytest.mark.parametrize(
    ("changes", "kinds"),
    [
        ({}, {"full": 4}),
        ({"sliding_window": 16}, {"sliding": 4}),
        ({"sliding_window": 16, "use_sliding_window": False}, {"full": 4}),
        ({"sliding_window": 16, "use_sliding_window": True, "max_window_layers": 1}, {"full": 1, "sliding": 3}),
        ({"layer_types": ["linear_attention"] * 3 + ["full_attention"]}, {"linear": 3, "full": 1}),
        ({"full_attention_interval": 2}, {"linear": 2, "full": 2}),
        ({"num_hidden_layers": 5, "layer_group_size": 4}, {"linear": 3, "full": 2}),  # the group's last, and what is left over
        ({"attn_type_list": [0, 0, 0, 1]}, {"linear": 3, "full": 1}),
        ({"linear_attn_config": {"full_attn_layers": [4], "num_heads": 4, "head_dim": 16}}, {"linear": 3, "full": 1}),
        ({"layer_types": ["chunked_attention"] * 4, "attention_chunk_size": 8}, {"chunked": 4}),
    ],
)
def test_attention_kinds_follow_every_rule(changes, kinds):
    model = model_of(SMALL | changes)
    assert {kind.name: kind.layers for kind in model.attention} == kinds
    assert all((kind.quadratic > 0) == (kind.name == "full") for kind in model.attention)  # all others are linear in the tokens


def test_linear_attention_costs_what_delta_attention_of_the_presets_does():
    own = {"full_attn_layers": [4], "num_heads": 12, "head_dim": 128}
    linear = model_of(SMALL | {"hidden_size": 1536, "linear_attn_config": own}).attention[0]
    assert linear.linear == preset("ling-3.0-tiny").attention[0].linear  # 12 heads of 128 on 1,536 there too


def test_the_language_model_of_a_multimodal_config_is_found():
    assert model_of({"vision_config": {}, "text_config": SMALL}).experts == 8


def test_a_file_is_read_and_described(tmp_path):
    path = tmp_path / "Some-MoE" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(SMALL | {"first_k_dense_replace": 1}))
    model = read_config(path)
    assert describe(model) == [
        "model: Some-MoE, 4 layers, 3 of them MoE, 8 experts, 2 a token",
        "dense layers: 0",
        # a token: 2 * 64 * 16 * (4 + 2 * 4) + 2 * 64^2 = 32,768; a pair: 2 * 4 * 16 = 128
        "attention: full in 4 layers, 3.277e+04 t + 128 t^2 FLOPs for t tokens",
    ]
    assert [stage.quadratic for stage in model.cost.stages] == [4 * 128]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ([], "is no object"),
        ({}, "num_hidden_layers or num_layers or n_layer is missing"),
        ({"num_hidden_layers": 4}, "num_experts or"),
        (SMALL | {"num_experts_per_tok": 9}, "num_experts_per_tok = 9"),
        (SMALL | {"num_hidden_layers": "4"}, "num_hidden_layers = '4'"),
        (SMALL | {"num_hidden_layers": 10**9}, "num_hidden_layers = 1000000000"),
        (SMALL | {"hidden_size": None}, "hidden_size is missing"),
        (SMALL | {"moe_layer_freq": [1]}, "moe_layer_freq has 1 entries for 4 layers"),
        (SMALL | {"first_k_dense_replace": 4}, "no layer of the config holds experts"),
        (SMALL | {"layer_types": ["mamba"] * 4}, "layer_types names 'mamba'"),
        (SMALL | {"mlp_only_layers": [7]}, "mlp_only_layers"),
        (SMALL | {"decoder_sparse_step": 1.5}, "decoder_sparse_step = 1.5"),
        (SMALL | {"layer_types": ["sliding_attention"] * 4}, "sliding_window or attention_chunk_size is missing"),
    ],
)
def test_a_config_that_is_none_is_refused_with_the_key(config, words):
    with pytest.raises(InvalidInstance) as fault:
        model_of(config)
    assert words in str(fault.value)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_file_that_is_no_json_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(InvalidInstance) as fault:
        read_config(tmp_path / "config.json")
    assert "\n" not in str(fault.value)
    with pytest.raises(InvalidInstance, match="cannot be read"):
        read_config(tmp_path / "absent.json")


@given(
    st.dictionaries(
        st.sampled_from(sorted(QWEN3 | DEEPSEEK | GPT_OSS)), st.none() | st.booleans() | st.integers(-2, 70) | st.text(max_size=2)
    )
)
def test_any_values_give_a_model_or_one_line(changes):
    message = ""
    try:
        model = model_of(SMALL | changes)
    except InvalidInstance as fault:
        message = str(fault)
    else:
        assert model.top_k <= model.experts
        assert describe(model)
    assert "\n" not in message
