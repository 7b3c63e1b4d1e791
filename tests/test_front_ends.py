"""`matmul` has one meaning: NumPy's arrays, PyTorch's tensors and JAX's arrays give the same bits."""

import sys
from importlib import import_module
from types import ModuleType

import numpy as np
import pytest

import ozaki
from tests.precision import double_precision_in_jax

ACCURACIES = ["fp64", "fp32", "normwise", "exact", 30]
SHAPES = [((2, 40, 300), (300, 30)), ((2, 2, 5, 40), (40, 3)), ((3, 5, 40), (40,)), ((5, 40), (3, 40, 2))]


def numpy_matmul(a, b, accuracy):
    return ozaki.matmul(a, b, accuracy=accuracy)


def torch_matmul(a, b, accuracy):
    torch = pytest.importorskip("torch")
    front = import_module("ozaki.torch")
    return front.matmul(torch.from_numpy(a), torch.from_numpy(b), accuracy=accuracy).numpy()


def jax_matmul(a, b, accuracy):
    pytest.importorskip("jax")
    front = import_module("ozaki.jax")
    with double_precision_in_jax():
        return np.asarray(front.matmul(a, b, accuracy=accuracy))


@pytest.mark.parametrize("front", [numpy_matmul, torch_matmul, jax_matmul])
@pytest.mark.parametrize("accuracy", ACCURACIES)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_each_matrix_of_a_stack_has_the_bits_that_it_has_alone(shapes, accuracy, front):
    """The last matrix is graded, which makes its certificate ask for wider integers."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape) for shape in shapes)
    stack = a if a.ndim > 2 else b
    stack[-1] *= np.exp(8 * rng.standard_normal(stack.shape[1:]))
    result = front(a, b, accuracy)
    for i in range(len(stack)):
        alone = ozaki.matmul(*((a[i], b) if stack is a else (a, b[i])), accuracy=accuracy)
        assert result[i].tobytes() == alone.tobytes()


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_libraries_that_another_thread_is_importing_are_no_concern(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, ModuleType(name))  # as it is before its first line has run
    assert ozaki.sum(np.ones(3)) == 3


@pytest.mark.parametrize("package", ["torch", "jax.numpy"])
def test_dask_arrays_beside_others_are_refused(package):
    """Neither is copied into the other's library without a word."""
    other, da = pytest.importorskip(package), pytest.importorskip("dask.array")
    lazy, x = da.ones((4, 4)), other.ones((4, 4), dtype=other.float32)
    for name in ("matmul", "dot", "einsum", "cov"):
        subscripts = ("ij,jk",) if name == "einsum" else ()
        for pair in ((lazy, x), (x, lazy)):
            with pytest.raises(TypeError, match="arrays must be of one kind, but they are Dask and"):
                getattr(ozaki, name)(*subscripts, *pair)
