"""Experts in the order of a placement: values follow their expert, everything else stays, and training does not notice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routepack import InvalidInstance
from routepack.instances.writers.expert_maps import expert_of_slot, slot_of_expert
from routepack.materialise import apply_placement, restore_logical

RANKS = 2
PLACEMENT = np.array([[1, 0, 0, 1], [0, 1, 1, 0]])


def labelled(layers=2, experts=4, axis=0):
    """Arrays whose values name layer and expert."""
    return [
        np.moveaxis(np.broadcast_to(10 * k + np.arange(experts)[:, None, None], (experts, 3, 2)), 0, axis).copy() for k in range(layers)
    ]


@st.composite
def two_placements(draw):
    ranks, held, layers = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    return [np.array([rng.permutation(np.repeat(np.arange(ranks), held)) for _ in range(layers)]) for _ in range(2)], ranks


def test_slots_hold_the_experts_of_the_map():
    weights = labelled()
    apply_placement(weights, PLACEMENT, RANKS)
    assert [w[:, 0, 0].tolist() for w in weights] == [[1, 2, 0, 3], [10, 13, 11, 12]]  # physical_to_logical_map, by hand


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis_may_run_over_the_experts(axis):
    weights = labelled(axis=axis)
    apply_placement(weights, PLACEMENT, RANKS, axis=axis)
    assert np.moveaxis(weights[0], axis, 0)[:, 0, 0].tolist() == [1, 2, 0, 3]


@given(two_placements())
def test_from_one_placement_to_the_next_and_back_to_logical_order(drawn):
    (current, placement), ranks = drawn
    experts = current.shape[1]
    state = [{"w": np.arange(experts * 2.0).reshape(experts, 2), "moments": [np.arange(experts), None], "step": 3} for _ in current]
    apply_placement(state, current, ranks)
    apply_placement(state, placement, ranks, current=current)
    for layer, slots in zip(state, expert_of_slot(placement, ranks), strict=True):
        assert (layer["w"][:, 0] == 2 * slots).all()
        assert (layer["moments"][0] == slots).all()
    restore_logical(state, placement, ranks)
    assert all((layer["moments"][0] == np.arange(experts)).all() for layer in state)


def test_values_change_in_place_so_that_views_of_the_trainer_stay_valid():
    weights = labelled()
    held = [w.view() for w in weights]
    apply_placement(weights, PLACEMENT, RANKS)
    assert all(a.base is b or np.shares_memory(a, b) for a, b in zip(held, weights, strict=True))
    assert held[0][:, 0, 0].tolist() == [1, 2, 0, 3]


def test_an_array_that_is_listed_twice_moves_once():
    weights = labelled()
    apply_placement([[w, {"again": w}] for w in weights], PLACEMENT, RANKS)
    assert weights[0][:, 0, 0].tolist() == [1, 2, 0, 3]


def test_experts_with_arrays_of_their_own_exchange_values():
    layer = [{"w": np.full(2, e), "step": np.array(e)} for e in range(4)]
    arrays = [own["w"] for own in layer]
    apply_placement([layer], PLACEMENT[:1], RANKS, axis=None)
    assert [int(a[0]) for a in arrays] == [1, 2, 0, 3]
    assert [int(own["step"]) for own in layer] == [1, 2, 0, 3]


@pytest.mark.parametrize(
    ("state", "axis", "text"),
    [
        ([np.zeros((4, 2)), np.zeros((3, 2))], 0, r"layers\[0\]\[1\]\[1\] has shape \(3, 2\)"),
        ({"router": np.zeros((2, 4))}, 0, r"layers\[0\]\[1\]\['router'\]"),
        ([np.zeros(4), "text"], 0, "of type str"),
        (np.zeros((4, 2)), None, "no sequence of 4 states"),
        ([np.zeros(2), np.zeros(3), np.zeros(2), np.zeros(2)], None, "differ from expert to expert"),
        ([np.zeros(2)] * 4, None, "one array for several experts"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_before_anything_moves(state, axis, text):
    first = np.arange(4.0)
    with pytest.raises(InvalidInstance, match=text):
        apply_placement([state] if axis is None else [[first, state]], PLACEMENT[:1], RANKS, axis=axis)
    assert first.tolist() == [0, 1, 2, 3]


def test_read_only_arrays_and_wrong_numbers_of_layers_are_refused():
    fixed = np.arange(4.0)
    fixed.setflags(write=False)
    with pytest.raises(InvalidInstance, match="read-only"):
        apply_placement([fixed], PLACEMENT[:1], RANKS)
    with pytest.raises(InvalidInstance, match="3 layers"):
        apply_placement(labelled(3), PLACEMENT, RANKS)


# A small Mixture of Experts on the CPU: what training must not notice.


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def make_moe(torch, experts=6, hidden=5, width=7, layers=2):
    """Two layers of a router, stacked experts and a bias that balances them; slots are mapped after top-k."""

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.router = torch.nn.Parameter(torch.randn(experts, hidden, dtype=torch.float64))
            self.up = torch.nn.Parameter(torch.randn(experts, hidden, width, dtype=torch.float64))
            self.down = torch.nn.Parameter(torch.randn(experts, width, hidden, dtype=torch.float64))
            self.register_buffer("bias", torch.linspace(0, 0.1, experts, dtype=torch.float64))
            self.slot_of_expert = torch.arange(experts)

        def forward(self, x, replayed=None):
            scores = torch.softmax(x @ self.router.T, dim=-1)
            chosen = (scores + self.bias).topk(2).indices if replayed is None else replayed  # logical ids
            shares = scores.gather(1, chosen)
            slots = self.slot_of_expert[chosen]
            out = torch.zeros_like(x)
            for slot in range(experts):
                token, place = (slots == slot).nonzero(as_tuple=True)
                y = torch.relu(x[token] @ self.up[slot]) @ self.down[slot]
                out = out.index_add(0, token, y * shares[token, place, None])
            return x + out, chosen

    torch.manual_seed(0)
    return torch.nn.ModuleList([Layer() for _ in range(layers)])


def step(torch, model, optimizer, x, replayed):
    """One training step: loss, logical top-k of each layer."""
    optimizer.zero_grad()
    routes, y = [], x
    for layer, ids in zip(model, replayed or [None] * len(model), strict=True):
        y, chosen = layer(y, ids)
        routes.append(chosen)
    loss = y.square().mean()
    loss.backward()
    optimizer.step()
    return loss.item(), routes


def layers_of(model, optimizer):
    """All that moves with the experts of each layer."""
    return [[[p, p.grad, optimizer.state[p]] for p in (layer.up, layer.down)] for layer in model]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD"])
def test_loss_gradients_and_optimizer_steps_are_the_same_under_a_permutation(torch, name):
    placement, ranks = np.array([[2, 0, 1, 1, 0, 2], [1, 2, 0, 2, 1, 0]]), 3
    plain, moved = make_moe(torch), make_moe(torch)
    options = {"momentum": 0.9} if name == "SGD" else {}
    optimizers = [getattr(torch.optim, name)(m.parameters(), lr=0.005, **options) for m in (plain, moved)]
    x = torch.randn(40, 5, dtype=torch.float64)
    for model, optimizer in zip((plain, moved), optimizers, strict=True):
        step(torch, model, optimizer, x, None)  # moments that are not zero
    names = set(moved.state_dict())
    routers = [layer.router.detach().clone() for layer in moved]
    apply_placement(layers_of(moved, optimizers[1]), placement, ranks)
    for layer, slots in zip(moved, slot_of_expert(placement, ranks), strict=True):
        layer.slot_of_expert = torch.from_numpy(slots)
    assert set(moved.state_dict()) == names  # checkpoint names stay
    assert all(torch.equal(a, layer.router) for a, layer in zip(routers, moved, strict=True))  # router rows stay logical

    order = [torch.from_numpy(e) for e in expert_of_slot(placement, ranks)]
    for _ in range(3):
        expected, replay = step(torch, plain, optimizers[0], x, None)
        loss, routes = step(torch, moved, optimizers[1], x, replay)
        assert loss == pytest.approx(expected, rel=1e-12)
        assert all(torch.equal(a, b) for a, b in zip(routes, replay, strict=True))  # replayed top-k is untouched
        for a, b, experts in zip(plain, moved, order, strict=True):
            assert torch.allclose(a.up.grad[experts], b.up.grad, rtol=1e-9, atol=1e-14)
            assert torch.allclose(a.router.grad, b.router.grad, rtol=1e-9, atol=1e-14)
            assert torch.allclose(a.down[experts], b.down, rtol=1e-9, atol=1e-14)

    restore_logical(layers_of(moved, optimizers[1]), placement, ranks)
    for a, b in zip(plain.state_dict().items(), moved.state_dict().items(), strict=True):
        assert a[0] == b[0]
        assert torch.allclose(a[1], b[1], rtol=1e-9, atol=1e-14)  # saved in logical order: expert by expert the same


@pytest.mark.slow
def test_saved_under_a_permutation_and_loaded_under_the_identity_is_equal_bit_for_bit(torch):
    placement, ranks = np.array([[2, 0, 1, 1, 0, 2], [1, 2, 0, 2, 1, 0]]), 3
    model = make_moe(torch)
    saved = {key: value.clone() for key, value in model.state_dict().items()}
    layers = [[layer.up, layer.down] for layer in model]
    apply_placement(layers, placement, ranks)
    assert not torch.equal(model.state_dict()["0.up"], saved["0.up"])
    restore_logical(layers, placement, ranks)
    assert all(torch.equal(value, saved[key]) for key, value in model.state_dict().items())


@pytest.mark.slow
def test_optimizer_state_dicts_move_like_the_optimizer(torch):
    placement = np.array([[2, 0, 1, 1, 0, 2], [1, 2, 0, 2, 1, 0]])
    model = make_moe(torch)
    optimizer = torch.optim.Adam([p for layer in model for p in (layer.up, layer.down)])
    step(torch, model, optimizer, torch.randn(9, 5, dtype=torch.float64), None)
    state = optimizer.state_dict()["state"]  # 0, 1: first layer; 2, 3: second layer; step is a tensor without axes
    before = state[1]["exp_avg"].clone()
    apply_placement([[state[0], state[1]], [state[2], state[3]]], placement, 3)
    assert torch.equal(state[1]["exp_avg"], before[torch.from_numpy(expert_of_slot(placement, 3)[0])])


@pytest.mark.slow
def test_a_change_between_forward_and_backward_is_an_error_of_the_framework(torch):
    model = make_moe(torch)
    y, _ = model[0](torch.randn(9, 5, dtype=torch.float64))
    apply_placement([[model[0].up, model[0].down]], np.array([[2, 0, 1, 1, 0, 2]]), 3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
