"""Optimizers and clipping in a mode of everything: plain, foreach and fused forms have the same bits."""

from functools import partial

import pytest

torch = pytest.importorskip("torch")

from ozaki.torch import lists, overrides  # noqa: E402
from ozaki.torch.settings import active  # noqa: E402
from tests.torch.test_everything import bits, drawn, everything  # noqa: E402

OPTIMIZERS = {
    "SGD": (torch.optim.SGD, {"lr": 0.1}),
    "SGD with momentum": (
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.3},
    ),
    "SGD of Nesterov": (
        torch.optim.SGD,
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True, "weight_decay": 0.3},
    ),
    "Adam": (torch.optim.Adam, {"lr": 0.1, "weight_decay": 0.3}),
    "Adam of maxima": (torch.optim.Adam, {"lr": 0.1, "amsgrad": True, "maximize": True}),
    "AdamW": (torch.optim.AdamW, {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.3}),
    "AdamW with a tensor": (torch.optim.AdamW, {"lr": torch.tensor(0.1), "amsgrad": True}),
    "Adagrad": (torch.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.3}),
    "Adadelta": (torch.optim.Adadelta, {"lr": 0.1, "weight_decay": 0.3}),
    "Adamax": (torch.optim.Adamax, {"lr": 0.1, "weight_decay": 0.3}),
    "RMSprop": (torch.optim.RMSprop, {"lr": 0.1, "centered": True, "momentum": 0.9, "weight_decay": 0.3}),
    "Rprop": (torch.optim.Rprop, {"lr": 0.1}),
}
FUSED = ("SGD", "Adam", "AdamW", "Adagrad")


def stepped(name, form, device="cpu", steps=8):
    """The parameters and the optimizer's state after some steps."""
    kind, options = OPTIMIZERS[name]
    params = [
        drawn(*shape, seed=i).to(device).requires_grad_() for i, shape in enumerate([(37, 11), (5,), ()])
    ]
    chosen = {"foreach": form == "foreach"} | ({"fused": True} if form == "fused" else {})
    with everything():
        optimizer = kind(params, **options, **chosen)
        for step in range(steps):
            for i, p in enumerate(params):
                p.grad = drawn(*p.shape, seed=10 * step + i).to(device)
            optimizer.step()
    state = [optimizer.state[p] for p in params]
    kept = [of[key] for of in state for key in sorted(of) if isinstance(of[key], torch.Tensor)]
    return bits(*params, *kept)


LISTS = {
    "add.List": ("x", "y"),
    "add.Scalar": ("x", 0.3),
    "sub.List": ("x", "y"),
    "mul.Scalar": ("x", 0.3),
    "mul.List": ("x", "y"),
    "mul.ScalarList": ("x", [0.1, 0.3, 0.1, 0.1]),
    "mul.Tensor": ("x", torch.tensor(0.3)),
    "div.ScalarList": ("x", [0.3] * 4),
    "div.List": ("x", "y"),
    "addcmul.Scalar": ("x", "y", "z", 0.3),
    "addcmul.ScalarList": ("x", "y", "y", [1.0, 0.3, 2.0, 0.1]),
    "addcdiv.Scalar": ("x", "y", "z", 1.0),
    "addcdiv.ScalarList": ("x", "y", "z", [0.3] * 4),
    "lerp.Scalar": ("x", "y", 0.3),
    "sqrt": ("y",),
}


@pytest.mark.parametrize("form", ["", "_"])
@pytest.mark.parametrize("name", LISTS)
def test_lists_are_left_to_kernels_that_round_once(monkeypatch, name, form):
    """As those of a GPU are, whose kernels are a CPU's here."""
    shapes, calls = [(3, 2), (1,), (5,), (40,)], []

    def arguments():
        lists = {
            letter: [drawn(*shape, seed=10 * k + i).abs() for i, shape in enumerate(shapes)]
            for k, letter in enumerate("xyz")
        }
        return [lists.get(x, x) if isinstance(x, str) else x for x in LISTS[name]]

    def noted(kernel, native, *given):
        calls.append(kernel)
        return native(*given)

    kernels = {kernel: partial(noted, kernel, native) for kernel, native in lists._NATIVE.items()}
    monkeypatch.setattr(lists, "_NATIVE", kernels)
    base, dot, overload = name.partition(".")
    compute, found = lists.one_by_one(f"_foreach_{base}{form}{dot}{overload}"), []
    with everything():
        for on_one in (False, True):
            monkeypatch.setattr(lists, "_on_one_gpu", lambda _, on_one=on_one: on_one)
            given = arguments()
            result = compute(active(), *given)
            found.append(bits(*(given[0] if form else result)))
            assert bool(calls) == on_one
    assert found[0] == found[1]


def alone():
    a, b = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])
    row = torch.arange(4.0)
    return {
        "twice in a list": ("_foreach_add_.Scalar", [a, b, a], 1.0),
        "read later": ("_foreach_add_.List", [a, b], [b, a]),
        "views that overlap": ("_foreach_mul_.Scalar", [row[:3], row[1:]], 2.0),
        "a tensor of numbers": (
            "_foreach_addcdiv_.Tensor",
            [a, b],
            [b, a],
            [b, b],
            torch.tensor([0.5, 0.25]),
        ),
        "a tensor of one number": ("_foreach_mul_.Tensor", [a, b], torch.tensor(0.1, dtype=torch.float64)),
        "a large weight": ("_foreach_lerp_.Scalar", [a, b], [b, a.clone()], 0.7),
        "a number out of range": ("_foreach_mul_.Scalar", [a, b], 1e39),
        "integers": ("_foreach_mul.Scalar", [a.int(), b.int()], 2),
        "no axes": ("_foreach_mul.List", [a[0], b[0]], [a[1], b[1]]),
        "two dtypes": ("_foreach_mul.List", [a, b], [a.double(), b.double()]),
        "gaps in memory": ("_foreach_mul_.Scalar", [row[::2], a], 2.0),
        "other shapes": ("_foreach_mul.List", [row[:1], a], [b, a]),
    }


@pytest.mark.parametrize("case", alone())
def test_lists_of_which_each_is_computed_by_itself(monkeypatch, case):
    """Where a tensor that has been written to is read again, and where kernels of lists do something else."""
    found = []
    for together in (False, True):
        monkeypatch.setattr(lists, "_on_one_gpu", lambda _, together=together: together)
        monkeypatch.setattr(lists, "_NATIVE", {})
        name, *arguments = alone()[case]
        with everything():
            result = lists.one_by_one(name)(active(), *arguments)
        found.append(bits(*arguments[0], *(result or ())))
    assert found[0] == found[1]


def test_a_number_that_is_written_to_is_read_before(monkeypatch):
    """PyTorch refuses it for single tensors, where a kernel of lists would read it at some time."""
    monkeypatch.setattr(lists, "_on_one_gpu", lambda _: True)
    row, other = torch.arange(4.0), torch.ones(2)
    assert not lists._together(True, ([row, other], row[1]))
    assert lists._together(True, ([row, other], torch.tensor(2.0)))
    assert lists._together(False, ([row, other], row[1]))


@pytest.mark.parametrize("numbers", [[0.5] * 3, [0.5], []])
def test_lists_of_other_lengths_are_refused(monkeypatch, numbers):
    monkeypatch.setattr(lists, "_on_one_gpu", lambda _: True)
    with everything(), pytest.raises(RuntimeError):
        lists.one_by_one("_foreach_mul.ScalarList")(active(), [torch.ones(2), torch.ones(3)], numbers)


@pytest.mark.parametrize(("most", "alone"), [(2**24, 2), (2**12, 4)])
def test_norms_of_small_tensors_are_of_rows(monkeypatch, most, alone):
    """Six of up to 1024 numbers, as many at once as may be copied; two of up to 4096; large ones alone."""
    shapes = [(3, 2), (5,), (0, 3), (1025,), (32, 32), (70, 70), (20,), (4096,), (5, 1), (20_000,)]
    tensors, found = [drawn(*shape, seed=i) for i, shape in enumerate(shapes)], []
    monkeypatch.setattr(lists, "SMALL", 4096)
    monkeypatch.setattr(lists, "MOST", most)
    compute = lists.one_by_one("_foreach_norm.Scalar")
    for on_one, made in ((False, len(shapes)), (True, 2 + alone)):
        monkeypatch.setattr(lists, "_on_one_gpu", lambda _, on_one=on_one: on_one)
        with everything() as calls:
            found.append(bits(*compute(active(), tensors, 2.0)))
        assert calls["linalg_vector_norm"] == made
    assert found[0] == found[1]
    with everything(), pytest.raises(RuntimeError, match="linalg_vector_norm"):
        compute(active(), tensors, 1)


def clipped(device="cpu", shapes=((370, 110), (5,), ()), **options):
    params = [drawn(*shape, seed=i).to(device).requires_grad_() for i, shape in enumerate(shapes)]
    for p in params:
        p.grad = p.detach() * 3
    with everything():
        norm = torch.nn.utils.clip_grad_norm_(params, 1.5, **options)
        found = bits(norm, *(p.grad for p in params))
        torch.nn.utils.clip_grad_value_(params, 0.01, **options)
    return found + bits(*(p.grad for p in params))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_forms_of_an_optimizer_have_the_same_bits(name):
    plain = stepped(name, "plain")
    if name != "AdamW with a tensor":  # which PyTorch refuses of a foreach form
        assert stepped(name, "foreach") == plain
    if name.split()[0] in FUSED:
        assert stepped(name, "fused") == plain


def test_forms_of_clipping_have_the_same_bits():
    assert clipped(foreach=True) == clipped(foreach=False) == clipped()


def test_operators_of_lists_are_made_of_others():
    """As on a GPU, where each is one kernel."""
    x, y, z = drawn(3, 9).unbind()
    compute = lists.one_by_one("_foreach_addcmul.Scalar")
    kernel = overrides._of_lists("_foreach_addcmul.Scalar", compute, lambda *_: "native")
    with everything() as calls:
        found = kernel(None, [x, y], [y, x], [z, z], 0.3)
        assert calls == {"addcmul": 2, "_foreach_addcmul": 1}
        assert bits(*found) == bits(torch.addcmul(x, y, z, value=0.3), torch.addcmul(y, x, z, value=0.3))
    assert kernel(None, [x, y], [y, x], [z, z], 0.3) == "native"


def test_scaled_gradients_are_refused():
    x, scale = [torch.ones(3)], torch.tensor(2.0)
    options = dict.fromkeys(("amsgrad", "maximize"), False) | {"lr": 0.1, "beta1": 0.9, "beta2": 0.9}
    with everything(), pytest.raises(RuntimeError, match=r"_fused_adam of .*fused=False"):
        torch._fused_adam_(x, x, x, x, [], x, weight_decay=0, eps=0, grad_scale=scale, **options)


@pytest.mark.parametrize("kind", [torch.optim.NAdam, torch.optim.RAdam, torch.optim.ASGD])
def test_other_formulas_are_refused(kind):
    x = torch.ones(3, requires_grad=True)
    x.grad = torch.ones(3)
    with everything(), pytest.raises(RuntimeError, match=f"{kind.__name__} .* write foreach=False"):
        kind([x], foreach=True).step()
    kind([x], foreach=True).step()
    with everything():
        kind([x]).step()
