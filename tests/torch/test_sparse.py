"""Products of sparse and strided tensors in the mode: correctly rounded, with PyTorch's derivatives."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("scipy.sparse")

import ozaki.torch  # noqa: E402
from tests.sparse.test_products import dense, numbers, reference, same  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Sparse", "ignore:`torch.jit")

FORMS = {
    "coo": lambda x: x.to_sparse(),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr((2, 4)),
    "uncoalesced": lambda x: torch.sparse_coo_tensor(
        torch.cat([x.to_sparse().indices()] * 3, 1),
        torch.cat([x.to_sparse().values()] * 2 + [-x.to_sparse().values()]),
        x.shape,
    ),
}
DTYPES = (np.float32, np.float64, np.complex64, np.complex128)


def within(call, dtype):
    """What a call returns in the mode, in which this library has computed something sparse."""
    with ozaki.torch.reproducible(dtypes=dtype) as calls:
        result = call()
    assert any(name.startswith("sparse") for name in calls)
    return result.numpy()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_products_are_correctly_rounded(form, dtype):

    rng = np.random.default_rng(1)
    a, x, y = dense(rng, dtype), numbers(rng, (8, 3), dtype), numbers(rng, (3, 6), dtype)
    ones, of = torch.ones(6, 3, dtype=torch.from_numpy(a).dtype), torch.from_numpy(a).dtype
    sparse, right, left = FORMS[form](torch.from_numpy(a)), torch.from_numpy(x), torch.from_numpy(y)
    expected = reference(a, x)
    assert same(within(lambda: torch.sparse.mm(sparse, right), of), expected)
    assert same(within(lambda: sparse @ right, of), expected)
    assert same(within(lambda: sparse @ right[:, 0].contiguous(), of), expected[:, 0])
    assert same(within(lambda: torch.addmm(ones, sparse, right, beta=2.0), of), expected + dtype(2))
    if form in ("csr", "csc"):
        assert same(within(lambda: left @ sparse, of), reference(y, a))


@pytest.mark.parametrize("form", ["coo", "csr"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_gradients_are_correctly_rounded(form, dtype):
    """That of the sparse operand has its pattern."""
    rng = np.random.default_rng(2)
    a, x, g = dense(rng, dtype), numbers(rng, (8, 3), dtype), numbers(rng, (6, 3), dtype)
    sparse = FORMS[form](torch.from_numpy(a)).requires_grad_()
    right = torch.from_numpy(x).requires_grad_()
    with ozaki.torch.reproducible(accuracy="exact") as calls:
        torch.sparse.mm(sparse, right).backward(torch.from_numpy(g))
    assert same(right.grad.numpy(), reference(a.conj().T, g))
    assert sparse.grad.layout is sparse.layout
    assert same(sparse.grad.to_dense().numpy(), np.where(a != 0, reference(g, x.conj().T), 0))
    assert calls["sparse addmm"] == 2
    assert calls["sparse sparse_sampled_addmm"] == (form == "csr")


def test_products_on_a_pattern():
    rng = np.random.default_rng(3)
    c, a, b = (numbers(rng, shape, np.float64) for shape in ((5, 4), (5, 6), (6, 4)))
    c[rng.random(c.shape) < 0.5] = 0
    sparse = torch.from_numpy(c).to_sparse_csr()
    with ozaki.torch.reproducible():
        found = torch.sparse.sampled_addmm(
            sparse, torch.from_numpy(a), torch.from_numpy(b), alpha=0.5, beta=2.0
        )
    assert same(found.to_dense().numpy(), np.where(c != 0, 0.5 * reference(a, b) + 2 * c, 0))


def test_what_does_not_fit_is_refused_by_pytorch():
    sparse, x = torch.eye(4, dtype=torch.float64).to_sparse_csr(), torch.ones(3, 2, dtype=torch.float64)
    for call in (
        lambda: sparse @ x,
        lambda: sparse @ torch.ones(4, 2),
        lambda: torch.sparse.mm(sparse, x[0]),
    ):
        with pytest.raises(RuntimeError) as native:
            call()
        with ozaki.torch.reproducible(), pytest.raises(RuntimeError) as ours:
            call()
        assert str(ours.value) == str(native.value)
