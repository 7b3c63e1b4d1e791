"""The mode: PyTorch's own products and sums, in the bits of this library's."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ozaki  # noqa: E402
import ozaki.torch  # noqa: E402
from ozaki.torch.settings import ACCURACY  # noqa: E402

F = torch.nn.functional
DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def random(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed + sum(shape)))


def same_bits(x, y):
    """Whether two tensors agree bit for bit, NaNs and signs of zeros included."""
    bits = {4: torch.int32, 8: torch.int64}
    real = [torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (x, y)]
    a, b = (t.detach().resolve_neg().contiguous().view(bits[t.element_size()]) for t in real)
    return x.dtype == y.dtype and a.shape == b.shape and bool((a == b).all())


def product(a, b, accuracy=ACCURACY):
    """What `ozaki.matmul` makes of tensors, in the accuracy of the mode."""
    result = ozaki.matmul(a.numpy(force=True), b.numpy(force=True), accuracy=accuracy)
    return torch.from_numpy(np.asarray(result))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("mm", ((5, 7), (7, 3))),
        ("bmm", ((4, 5, 7), (4, 7, 3))),
        ("mv", ((5, 7), (7,))),
        ("dot", ((7,), (7,))),
        ("vdot", ((7,), (7,))),
        ("matmul", ((2, 3, 5, 7), (3, 7, 4))),
        ("inner", ((5, 7), (3, 7))),
    ],
)
def test_products_are_this_librarys(name, shapes, dtype):
    function = getattr(torch, name)
    a, b = (random(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes))
    left = a.conj() if name == "vdot" else a
    right = b.mT if name == "inner" else b
    with ozaki.torch.reproducible(dtypes=DTYPES) as calls:
        result, out = function(a, b), function(a, b, out=torch.empty(0, dtype=dtype))
    assert sum(calls.values()) == 2
    expected = product(left, right)
    assert same_bits(result, expected)
    assert same_bits(out, expected)


@pytest.mark.parametrize("accuracy", ["fp64", "fp32", "exact", 12])
@pytest.mark.parametrize("shapes", [((5, 7), (7, 3)), ((4, 5, 7), (4, 7, 3)), ((5, 7), (7,)), ((7,), (7,))])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
def test_other_accuracies(shapes, dtype, accuracy):
    a, b = (random(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes))
    with ozaki.torch.reproducible(accuracy, DTYPES) as calls:
        result = a @ b
    assert sum(calls.values()) == 1
    assert same_bits(
        result, torch.from_numpy(np.asarray(ozaki.matmul(a.numpy(), b.numpy(), accuracy=accuracy)))
    )


ADDED = [
    ("addmm", (5, 3), (5, 7), (7, 3)),
    ("baddbmm", (4, 5, 3), (4, 5, 7), (4, 7, 3)),
    ("addmv", (5,), (5, 7), (7,)),
    ("addbmm", (5, 3), (4, 5, 7), (4, 7, 3)),
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (0.3, -1.7), (2, 0)])
@pytest.mark.parametrize(("name", "shape", "of_a", "of_b"), ADDED)
def test_products_and_an_addend_round_every_operation_once(name, shape, of_a, of_b, alpha, beta, dtype):
    c, a, b = (random(*s, dtype=dtype, seed=i) for i, s in enumerate((shape, of_a, of_b)))
    left, right = (a.transpose(0, 1).flatten(1), b.flatten(0, 1)) if name == "addbmm" else (a, b)
    expected = product(left, right)
    if alpha != 1:
        expected = expected * alpha
    if beta:
        expected = expected + (c * beta if beta != 1 else c)
    with ozaki.torch.reproducible(dtypes=DTYPES) as calls:
        result = getattr(torch, name)(c, a, b, alpha=alpha, beta=beta)
        out = getattr(torch, name)(c, a, b, alpha=alpha, beta=beta, out=torch.empty_like(c))
        in_place = c.clone()
        returned = getattr(in_place, f"{name}_")(a, b, alpha=alpha, beta=beta)
    assert calls[name] == 3
    assert returned is in_place
    assert all(same_bits(x, expected) for x in (result, out, in_place))


def integers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randint(-(2**62), 2**62, shape, generator=generator)


@pytest.mark.parametrize(("name", "shape", "of_a", "of_b"), ADDED)
def test_products_of_integers_are_pytorchs(name, shape, of_a, of_b):
    c, a, b = (integers(*s, seed=i) for i, s in enumerate((shape, of_a, of_b)))

    def computed():
        factors = ((1, 1), (3, -7), (2, 0), (0.5, 1))  # the last are PyTorch's to refuse, or to cut
        results = [getattr(torch, name)(c, a, b, alpha=alpha, beta=beta) for alpha, beta in factors]
        in_place = c.clone()
        getattr(in_place, f"{name}_")(a, b)
        vectors = a[..., 0, :].flatten(), b.flatten()[: a[..., 0, :].numel()]
        return [*results, in_place, a @ b, torch.matmul(a[..., 0, :], b), torch.dot(*vectors), (a @ b).sum()]

    native = computed()
    with ozaki.torch.reproducible(dtypes=torch.int64, sums=True) as calls:
        ours = computed()
    assert calls[name] == 4
    assert sum(calls.values()) == 8
    assert all(x.dtype is torch.int64 and torch.equal(x, y) for x, y in zip(ours, native, strict=True))


def test_an_addend_broadcasts_and_is_not_read_without_need():
    a, b = random(5, 7), random(7, 3)
    nan = torch.full((), torch.nan, dtype=torch.float64)
    with ozaki.torch.reproducible():
        assert same_bits(torch.addmm(nan, a, b, beta=0), product(a, b))
        assert same_bits(torch.addmm(random(3), a, b), product(a, b) + random(3))
        assert same_bits(torch.addmm(random(5, 1), a, b), product(a, b) + random(5, 1))


@pytest.mark.parametrize("use_gelu", [False, True])
def test_a_product_an_addend_and_an_activation(use_gelu):
    c, a, b = random(3), random(5, 7), random(7, 3)
    with ozaki.torch.reproducible() as calls:
        result = torch._addmm_activation(c, a, b, use_gelu=use_gelu)
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            torch._addmm_activation(c, a, b[:2], use_gelu=use_gelu)
    expected = product(a, b) + c
    assert same_bits(result, F.gelu(expected, approximate="tanh") if use_gelu else expected.relu())
    assert calls == {"_addmm_activation": 1}


@pytest.mark.parametrize("factor", [1e40, -1e39, complex(1e40), 1j])
@pytest.mark.parametrize("name", ["alpha", "beta"])
def test_factors_that_are_no_numbers_of_the_dtype_are_refused(name, factor):
    a = random(2, 2, dtype=torch.float32)
    with pytest.raises(RuntimeError) as native:
        torch.addmm(a, a, a, **{name: factor})
    with ozaki.torch.reproducible(dtypes=DTYPES), pytest.raises(RuntimeError) as ours:
        torch.addmm(a, a, a, **{name: factor})
    assert str(ours.value) == str(native.value)


def test_infinite_factors():
    a = torch.ones(2, 2)
    with ozaki.torch.reproducible(dtypes=DTYPES) as calls:
        assert bool((torch.addmm(a, a, a, alpha=torch.inf) == torch.inf).all())
        assert bool(torch.addmm(a, a, a, beta=torch.nan).isnan().all())
    assert calls["addmm"] == 2


def test_layouts_and_views():
    a, b = random(6, 8, dtype=torch.complex128), random(8, 4, dtype=torch.complex128, seed=1)
    with ozaki.torch.reproducible() as calls:
        assert same_bits(a[::2, ::2] @ b[::2], product(a[::2, ::2].clone(), b[::2].clone()))
        assert same_bits(a.mT.conj() @ a, product(a.mT.conj().resolve_conj().clone(), a))
        negative = a.conj().imag  # a view that negates
        assert negative.is_neg()
        assert same_bits(negative @ b.real, product(-a.imag.clone(), b.real.clone()))
        expanded = random(1, 8).expand(6, 8)
        assert same_bits(expanded @ b.real, product(expanded.clone(), b.real.clone()))
    assert calls["mm"] == 4


@pytest.mark.parametrize("shapes", [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3), (3, 0)), ((0,), (0,))])
def test_empty_tensors(shapes):
    a, b = (torch.zeros(shape, dtype=torch.float64) for shape in shapes)
    native = a @ b
    with ozaki.torch.reproducible():
        assert same_bits(a @ b, native)
        if a.dim() == 2:
            c = random(a.shape[0], b.shape[1])
            assert same_bits(torch.addmm(c, a, b), c)


def test_composed_operators():
    x, w, bias = random(4, 6, 5), random(3, 5), random(3)
    q, k = random(2, 3, 4, 5), random(2, 3, 6, 5)
    with ozaki.torch.reproducible() as calls:
        linear = F.linear(x, w, bias)
        einsum = torch.einsum("bhid,bhjd->bhij", q, k)
        tensordot = torch.tensordot(x, w, dims=([2], [1]))
        with torch.inference_mode():
            inference = x @ w.mT
    assert sum(calls.values()) == 4
    flat = product(x.reshape(-1, 5), w.mT).reshape(4, 6, 3)
    assert same_bits(linear, flat + bias)
    assert same_bits(einsum, product(q, k.mT))
    assert same_bits(tensordot, flat)
    assert same_bits(inference, flat)


def test_products_inside_linear_algebra():
    a = random(5, 3)
    with ozaki.torch.reproducible() as calls:
        torch.linalg.pinv(a)
        torch.linalg.matrix_power(a.mT @ a, 3)
    assert sum(calls.values()) >= 3


def test_backward_passes():
    x, w = random(6, 5).requires_grad_(), random(5, 4).requires_grad_()
    g = random(6, 4, seed=9)
    with ozaki.torch.reproducible() as calls:
        (x @ w).backward(g)
    assert calls == {"mm": 3}
    assert same_bits(x.grad, product(g, w.mT))
    assert same_bits(w.grad, product(x.mT, g))


def test_derivatives_of_functions():
    a, w = random(4, 3, 5), random(5, 2)
    with ozaki.torch.reproducible() as calls:
        mapped = torch.func.vmap(lambda x: x @ w)(a)
        gradient = torch.func.grad(lambda w: (a @ w).square().sum())(w)
        _, tangent = torch.func.jvp(lambda w: a[0] @ w, (w,), (w,))
    assert sum(calls.values()) >= 5
    assert same_bits(mapped, product(a, w))
    flat = a.reshape(-1, 5)
    assert same_bits(gradient, product(flat.mT, 2 * product(flat, w)))
    assert same_bits(tangent, product(a[0], w))


def test_sums_are_correctly_rounded_if_asked():
    x = torch.tensor([[1e16, 1.0, -1e16], [1.0, 2.0, 3.0]], dtype=torch.float64)
    with ozaki.torch.reproducible() as calls:
        x.sum()
    assert not calls
    with ozaki.torch.reproducible(sums=True) as calls:
        assert x.sum().item() == 7
        assert x.sum(1).tolist() == [1, 6]
        assert x.sum((0, 1), keepdim=True).tolist() == [[7]]
        assert x.mean().item() == 7 / 6
        assert x.mean(-1).tolist() == [1 / 3, 2]
        assert torch.sum(x, 1, out=torch.empty(2, dtype=torch.float64)).tolist() == [1, 6]
        assert F.mse_loss(x, torch.zeros_like(x)).item() == float(np.mean(x.numpy() ** 2))
        assert x.to(torch.int64).sum().item() == 7
        assert torch.ones(2, dtype=torch.float64).sum(dtype=torch.float32).dtype is torch.float32
        assert x[0, 0].sum(0).item() == 1e16
        assert torch.empty(0, 3, dtype=torch.float64).sum(0).tolist() == [0, 0, 0]
        assert torch.empty(0, dtype=torch.float64).mean().isnan()
    assert calls["sum"] == 6
    assert calls["mean"] == 4


ATTENTION = {
    "plain": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": 0.3},
    "additive mask": {"attn_mask": random(4, 6)},
    "boolean mask": {"attn_mask": torch.tensor([[True, False, True, True, False, True]] * 3 + [[False] * 6])},
}


@pytest.mark.parametrize("options", ATTENTION.values(), ids=ATTENTION)
def test_attention_is_made_of_products(options):
    def attend():
        leaves = [random(2, 3, n, 5, seed=n + i).requires_grad_() for i, n in enumerate((4, 6, 6))]
        result = F.scaled_dot_product_attention(*leaves, **options)
        result.square().sum().backward()
        return result.detach(), *(x.grad for x in leaves)

    native = attend()
    with ozaki.torch.reproducible() as calls:
        ours = attend()
    assert calls == {"bmm": 6}
    for x, y in zip(ours, native, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-13)


@pytest.mark.filterwarnings("ignore:within ozaki")
def test_other_dtypes_and_devices_are_untouched():
    half, single = random(4, 4).half(), random(4, 4).float()
    meta = torch.empty(4, 4, dtype=torch.float64, device="meta")
    quantized = torch.quantize_per_tensor(single, 0.1, 0, torch.qint8)
    with ozaki.torch.reproducible() as calls:
        assert (half @ half).dtype is torch.float16
        assert (single @ single).dtype is torch.float32
        assert (meta @ meta).is_meta
        assert torch.arange(4) @ torch.arange(4) == 14
        with pytest.raises((RuntimeError, NotImplementedError)):
            quantized @ quantized
    assert not calls


@pytest.mark.filterwarnings("ignore:within ozaki")
def test_autocast_leaves_double_precision():
    x = random(4, 4)
    with ozaki.torch.reproducible() as calls, torch.autocast("cpu", torch.bfloat16):
        assert (x @ x).dtype is torch.float64
        assert (x.float() @ x.float()).dtype is torch.bfloat16
    assert calls == {"mm": 1}


WRONG = {
    "inner dimensions": lambda x: torch.mm(x, x[:2]),
    "dtypes": lambda x: torch.mm(x, x.float()),
    "ranks": lambda x: torch.mm(x, x[0]),
    "addend": lambda x: torch.addmm(x[:2], x, x),
    "addend's dtype": lambda x: torch.addmm(x, x.float(), x.float()),
    "factors beside an addend": lambda x: torch.addmm(x, x, x[:2]),
    "factors of a sum of products": lambda x: torch.addbmm(x, x.expand(2, 3, 3), x.expand(3, 3, 3)),
    "in place": lambda x: x[0].clone().addmm_(x, x),
    "alpha": lambda x: torch.addmm(x, x, x, alpha=1j),
    "out": lambda x: torch.mm(x, x, out=torch.empty(3, 3)),
    "batches": lambda x: torch.bmm(x.expand(2, 3, 3), x.expand(3, 3, 3)),
    "lengths": lambda x: torch.dot(x[0], x[0, :2]),
    "axes twice": lambda x: x.sum((0, 0)),
    "an axis too far": lambda x: x.sum(2),
    "a sum's out": lambda x: torch.sum(x, 1, dtype=torch.float64, out=torch.empty(3)),
    "a complex gradient": lambda x: (
        (x.to(torch.complex128).requires_grad_() @ x.to(torch.complex128)).sum().backward()
    ),
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG)
def test_errors_are_pytorchs(call):
    with pytest.raises((RuntimeError, IndexError)) as native:
        call(random(3, 3))
    with pytest.raises(type(native.value)) as ours, ozaki.torch.reproducible(sums=True):
        call(random(3, 3))
    assert str(ours.value) == str(native.value)


def test_out_is_resized_as_pytorch_does():
    x = random(3, 3)
    with ozaki.torch.reproducible():
        out = torch.empty(0, dtype=torch.float64)
        assert torch.mm(x, x, out=out) is out
        with pytest.warns(UserWarning, match="resized"):
            torch.mm(x, x, out=torch.empty(2, dtype=torch.float64))
        torch.mm(x, x, out=x)  # an operand of its own
    assert same_bits(x, product(random(3, 3), random(3, 3)))


def test_threads_of_pytorch_change_no_bit():
    a, b = random(300, 200), random(200, 100)
    before = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            with ozaki.torch.reproducible(sums=True):
                results.append((a @ b).sum())
    finally:
        torch.set_num_threads(before)
    assert same_bits(*results)


@pytest.mark.parametrize("spread", [0, 8])
def test_a_slice_of_a_batch_has_the_bits_it_has_alone(spread):
    scales = torch.exp2(
        torch.randint(-spread, spread + 1, (64, 40), generator=torch.Generator().manual_seed(1))
    )
    x, w, bias = random(64, 40) * scales, random(40, 24), random(24)
    with ozaki.torch.reproducible():
        whole = F.linear(x, w.mT, bias)
        for rows in (slice(0, 1), slice(5, 9), slice(0, 32), slice(7, 64, 9)):
            assert same_bits(F.linear(x[rows], w.mT, bias), whole[rows])
        assert same_bits(torch.mv(w.mT, x[3]), (x @ w)[3])
        assert same_bits(torch.bmm(x.reshape(4, 16, 40), w.expand(4, 40, 24)).reshape(64, 24), x @ w)


def test_fused_recurrent_layers_are_counted_as_native():
    layer, x = torch.nn.LSTM(16, 16), random(5, 4, 16, dtype=torch.float32)
    with torch.backends.mkldnn.flags(enabled=False), ozaki.torch.reproducible(dtypes=torch.float32) as calls:
        layer(x)
    assert calls["addmm"] + calls["mm"] > 5
    if torch.backends.mkldnn.is_available():
        with (
            pytest.warns(UserWarning, match=r"calls: 2 of torch.float32 .*mkldnn.flags\(enabled=False\)"),
            ozaki.torch.reproducible(dtypes=torch.float32) as calls,
        ):
            layer(x)[0].sum().backward()


@pytest.mark.filterwarnings("ignore:within ozaki")
def test_operators_with_tensors_by_name():
    """The backward pass of `matrix_exp` calls operators of which some tensors are not given by position."""
    x = torch.tensor([[0.0, 1.0], [2.0, 3.0]], dtype=torch.float64, requires_grad=True)
    (native,) = torch.autograd.grad(torch.linalg.matrix_exp(x).sum(), x)
    with ozaki.torch.reproducible():
        (ours,) = torch.autograd.grad(torch.linalg.matrix_exp(x).sum(), x)
    assert torch.allclose(ours, native, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_exponentials_of_matrices_are_as_near_as_pytorchs(dtype):
    """In single precision they differ, where elements are near 1e7 by more than 1; their errors are alike."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    for seed, scale in enumerate((0.1, 1.0, 4.0, 9.0)):
        x = scale * torch.randn(5, 5, 5, dtype=dtype, generator=torch.Generator().manual_seed(seed))
        exact = torch.linalg.matrix_exp(x.to(wide))
        with ozaki.torch.reproducible(dtypes=dtype, sums=True) as calls:
            ours = torch.linalg.matrix_exp(x)
        norms = torch.linalg.matrix_norm(exact)
        errors = [
            (torch.linalg.matrix_norm(y - exact) / norms).max() for y in (ours, torch.linalg.matrix_exp(x))
        ]
        assert calls["bmm"]
        assert errors[0] <= 4 * errors[1] + 2e-6
