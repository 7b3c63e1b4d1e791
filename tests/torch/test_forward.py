"""Derivatives of functions of tensors, forwards and backwards, against differences and against each other."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ozaki  # noqa: E402
import ozaki.torch  # noqa: E402
from tests.torch.test_mode import random, same_bits  # noqa: E402

COMPLEX = torch.complex128


def leaf(*shape, dtype=torch.float64, seed=0):
    return random(*shape, dtype=dtype, seed=seed).requires_grad_()


CASES = {
    "matmul": (ozaki.torch.matmul, lambda: (leaf(2, 3, 4), leaf(4, 2, seed=1))),
    "matmul, complex": (
        ozaki.torch.matmul,
        lambda: (leaf(3, 4, dtype=COMPLEX), leaf(4, 2, dtype=COMPLEX, seed=1)),
    ),
    "sum": (lambda x: ozaki.torch.sum(x, (0, 1)), lambda: (leaf(3, 4),)),
    "sum, dtype": (lambda x: ozaki.torch.sum(x, 0, dtype=COMPLEX), lambda: (leaf(3, 4),)),
    "mean": (lambda x: ozaki.torch.mean(x, 1, True), lambda: (leaf(3, 4, dtype=COMPLEX),)),
    "average": (lambda x, w: ozaki.torch.average(x, 1, 1 + w * w), lambda: (leaf(3, 4), leaf(4, seed=1))),
    "dot": (lambda x, y: ozaki.torch.dot(x, y, 0), lambda: (leaf(3, 4), leaf(3, 1, seed=1))),
    "vdot": (ozaki.torch.vdot, lambda: (leaf(3, dtype=COMPLEX), leaf(3, dtype=COMPLEX, seed=1))),
    "einsum": (
        lambda x, y, z: ozaki.torch.einsum("iij,jk,kl->li", x, y, z),
        lambda: (leaf(2, 2, 3), leaf(3, 4, seed=1), leaf(4, 2, seed=2)),
    ),
    "einsum, labels of one tensor": (
        lambda x, y: ozaki.torch.einsum("ijk,j->i", x, y),
        lambda: (leaf(2, 3, 4, dtype=COMPLEX), leaf(3, dtype=COMPLEX, seed=1)),
    ),
    "einsum, axes of length 1": (
        lambda x, y: ozaki.torch.einsum("...ij,...ij->...j", x, y),
        lambda: (leaf(2, 1, 4), leaf(3, 4, seed=1)),
    ),
    "einsum, one tensor": (lambda x: ozaki.torch.einsum("iij->j", x), lambda: (leaf(2, 2, 3),)),
    "var": (lambda x: ozaki.torch.var(x, 1, correction=1), lambda: (leaf(3, 4),)),
    "var, complex": (
        lambda x: ozaki.torch.var(x, keepdim=True),
        lambda: (leaf(3, 2, dtype=COMPLEX),),
    ),
    "norm": (lambda x: ozaki.torch.norm(x, 1), lambda: (leaf(3, 4),)),
    "norm, complex": (lambda x: ozaki.torch.norm(x, 0, True), lambda: (leaf(3, 4, dtype=COMPLEX),)),
    "cumsum": (lambda x: ozaki.torch.cumsum(x, 1), lambda: (leaf(3, 4),)),
    "exp": (ozaki.torch.exp, lambda: (leaf(3),)),
    "atan2": (ozaki.torch.atan2, lambda: (leaf(3, 1), leaf(2, seed=1))),
    "softmax": (lambda x: ozaki.torch.softmax(x, 1), lambda: (leaf(3, 4),)),
    "log_softmax": (lambda x: ozaki.torch.log_softmax(x, 0), lambda: (leaf(3, 4),)),
    "logsumexp": (lambda x: ozaki.torch.logsumexp(x, 1), lambda: (leaf(3, 4),)),
    "layer_norm": (lambda x: ozaki.torch.layer_norm(x, (4,)), lambda: (leaf(3, 4),)),
    "rms_norm": (lambda x: ozaki.torch.rms_norm(x, (4,)), lambda: (leaf(3, 4),)),
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    function, arguments = CASES[name]
    x = arguments()
    assert torch.autograd.gradcheck(function, x, check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, x, fast_mode=True)
    primals = tuple(z.detach() for z in x)
    tangents = tuple(random(*z.shape, dtype=z.dtype, seed=9) for z in x)
    result, tangent = torch.func.jvp(function, primals, tangents)
    assert same_bits(result, function(*primals))
    with torch.autograd.forward_ad.dual_level():
        duals = map(torch.autograd.forward_ad.make_dual, primals, tangents)
        assert same_bits(torch.autograd.forward_ad.unpack_dual(function(*duals)).tangent, tangent)


@pytest.mark.parametrize(
    "name", ["matmul", "average", "einsum", "var", "norm", "atan2", "log_softmax", "layer_norm"]
)
def test_second_derivatives_forwards_over_backwards_and_batched(name):
    function, arguments = CASES[name]
    first, *others = (z.detach() for z in arguments())

    def total(x):
        return ozaki.torch.sum(function(x, *others) ** 2)

    backwards = torch.func.jacrev(torch.func.jacrev(total))(first)
    assert torch.allclose(torch.func.hessian(total)(first), backwards, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "options"), [("var", {}), ("var", {"ddof": 1}), ("norm", {}), ("cumsum", {})]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
def test_results_are_this_librarys(name, options, dtype):
    x = random(3, 4, 5, dtype=dtype) * 1e8 + 1
    given = {"correction": options["ddof"]} if options else {}
    for dim in (1, -1) if name == "cumsum" else (None, 1, (0, -1)):
        expected = getattr(ozaki, name)(x.numpy(), axis=dim, **options)
        expected = torch.from_numpy(np.asarray(expected))
        assert same_bits(getattr(ozaki.torch, name)(x, dim, **given), expected)
        if name != "cumsum":
            kept = getattr(ozaki.torch, name)(x, dim, **given, keepdim=True)
            assert kept.dim() == 3
            assert same_bits(kept.reshape(expected.shape), expected)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk", [(3, 40), (40, 2)]),
        ("bij,bjk->kbi", [(2, 3, 4), (2, 4, 2)]),
        ("ijk,j->i", [(2, 3, 4), (3,)]),
        ("ij,jk,kl->il", [(2, 30), (30, 4), (4, 2)]),
        ("...i,...i", [(2, 3), (3,)]),
        ("iij->ji", [(2, 2, 3)]),
        ("i,i,i->", [(3,), (3,), (3,)]),
    ],
)
@pytest.mark.parametrize("accuracy", ["normwise", "exact"])
def test_einsum_is_this_librarys(subscripts, shapes, accuracy):
    x = [random(*shape, seed=i) for i, shape in enumerate(shapes)]
    expected = ozaki.einsum(subscripts, *(z.numpy() for z in x), accuracy=accuracy)
    found = ozaki.torch.einsum(subscripts, *x, accuracy=accuracy)
    assert same_bits(found, torch.from_numpy(np.asarray(expected)))


def test_einsum_mapped_and_compiled():
    x, y = random(5, 3, 4), random(4, 2)

    def function(x):
        return ozaki.torch.einsum("ij,jk->ki", x, y)

    expected = torch.stack([function(z) for z in x])
    assert same_bits(torch.vmap(function)(x), expected)
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    assert same_bits(compiled(x[0]), expected[0])


def test_a_sum_is_rounded_once_to_its_dtype():
    x = torch.tensor([1e8, 1.0, -1e8, 2.0**-24, 2.0**-60], dtype=torch.float64)
    assert ozaki.torch.sum(x, dtype=torch.float32).item() == 1 + 2.0**-23
    assert (
        ozaki.torch.mean(x.to(torch.float32), dtype=torch.complex128).item() == (1 + 2.0**-24 + 2.0**-60) / 5
    )
    many = torch.full((70000,), 0.1, dtype=torch.float16, requires_grad=True)
    total = ozaki.torch.sum(many, dtype=torch.float32)
    assert total.item() == np.float32(70000 * float(np.float16(0.1)))
    total.backward()
    assert many.grad.dtype is torch.float16
    assert bool((many.grad == 1).all())
    bfloat = torch.full((300,), 0.1, dtype=torch.bfloat16)
    assert ozaki.torch.sum(bfloat, dtype=torch.float64).item() == 300 * bfloat[0].item()


def test_derivative_of_a_norm_of_zeros_is_zero():
    x = torch.zeros(3, requires_grad=True)
    ozaki.torch.norm(x).backward()
    assert x.grad.tolist() == [0, 0, 0]
