"""Sparse tensors in the PyTorch mode on a GPU: the bits of the CPU, of products and of their derivatives."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("scipy.sparse")

from tests.gpu.test_torch import both  # noqa: E402
from tests.sparse.test_products import dense, numbers  # noqa: E402
from tests.torch.test_mode import same_bits  # noqa: E402
from tests.torch.test_sparse import DTYPES, FORMS  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch has no GPU"),
    pytest.mark.filterwarnings("ignore:Sparse"),
]


def operands(form, dtype):
    """A sparse tensor, what it is multiplied by, the product's gradient, and a factor on the left."""
    rng = np.random.default_rng(1)
    a = FORMS[form](torch.from_numpy(dense(rng, dtype)))
    return a, *(torch.from_numpy(numbers(rng, shape, dtype)) for shape in ((8, 3), (6, 3), (3, 6)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_products(form, dtype):
    a, x, addend, left = operands(form, dtype)
    calls = [
        (torch.sparse.mm, (a, x)),
        (lambda a, x: a @ x[:, 0].contiguous(), (a, x)),
        (lambda c, a, x: torch.addmm(c, a, x, beta=2.0), (addend, a, x)),
    ]
    calls += [(torch.matmul, (left, a))] * (form in ("csr", "csc"))
    for function, tensors in calls:
        result, expected, replaced = both(function, *tensors)
        assert any(name.startswith("sparse") for name in replaced)
        assert same_bits(result, expected)


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("form", ["coo", "csr"])
def test_gradients(form, dtype):
    """That of the sparse operand has its pattern."""

    def gradients(a, x, g):
        a, x = a.detach().requires_grad_(), x.detach().requires_grad_()
        torch.sparse.mm(a, x).backward(g)
        assert a.grad.layout is a.layout
        return torch.cat([a.grad.to_dense().flatten(), x.grad.flatten()])

    result, expected, replaced = both(gradients, *operands(form, dtype)[:3])
    assert replaced["sparse addmm"] == 2
    assert same_bits(result, expected)
