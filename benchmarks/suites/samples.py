"""PyTorch's own samples of its operators: each in the mode as outside of it, with gradients and errors."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import SampleInput
from torch.utils._pytree import tree_flatten

from benchmarks.suites.plugin import within

_NAMES = {
    *(
        "mm",
        "addmm",
        "bmm",
        "baddbmm",
        "addbmm",
        "mv",
        "addmv",
        "dot",
        "vdot",
        "inner",
        "matmul",
        "__rmatmul__",
    ),
    *(
        "einsum",
        "tensordot",
        "linalg.vecdot",
        "linalg.multi_dot",
        "linalg.matrix_power",
        "linalg.pinv",
        "pinverse",
    ),
    *("nn.functional.linear", "nn.functional.bilinear", "nn.functional.scaled_dot_product_attention"),
    *(
        "nn.functional.multi_head_attention_forward",
        "cdist",
        "cov",
        "corrcoef",
        "matrix_exp",
        "linalg.matrix_norm",
    ),
    *("sum", "mean", "sum_to_size", "addr", "outer", "kron", "linalg.householder_product", "linalg.cholesky"),
    *("linalg.solve", "linalg.inv", "linalg.svd", "linalg.eigh", "linalg.qr", "linalg.lstsq", "pca_lowrank"),
}
_DTYPES = (torch.float64, torch.complex128, torch.int64)
"""Not single precision, in which two right results can differ by more than `assert_close` allows: elements of
`matrix_exp` reach 3e7 in the samples, and 2.0 is 1e-7 of that (`tests/torch/test_mode.py` measures it)."""
_CASES = [
    pytest.param(op, dtype, id=f"{op.formatted_name}-{str(dtype).removeprefix('torch.')}")
    for op in op_db
    if op.name in _NAMES
    for dtype in _DTYPES
    if dtype in op.supported_dtypes("cpu")
]


def _computed(op, sample: SampleInput, differentiate: bool):
    """Return the tensors of a result, and the gradients of their sum weighted by ones."""
    result = op(sample.input, *sample.args, **sample.kwargs)
    result = sample.output_process_fn_grad(result) if differentiate else result
    tensors = [x for x in tree_flatten(result)[0] if isinstance(x, torch.Tensor)]
    leaves = [x for x in tree_flatten((sample.input, sample.args, sample.kwargs))[0] if _is_leaf(x)]
    rooted = [x for x in tensors if x.requires_grad]
    if not (differentiate and leaves and rooted):
        return tensors, []
    ones = [torch.ones_like(x) for x in rooted]
    return tensors, torch.autograd.grad(rooted, leaves, ones, allow_unused=True)


def _is_leaf(x) -> bool:
    return isinstance(x, torch.Tensor) and x.requires_grad


@pytest.mark.parametrize(("op", "dtype"), _CASES)
def test_samples(op, dtype):
    """Results and gradients have native values, shapes and dtypes, and results native strides."""
    differentiate = (dtype.is_floating_point or dtype.is_complex) and op.supports_autograd
    torch.manual_seed(0)
    for sample in op.sample_inputs("cpu", dtype, requires_grad=differentiate):
        seed = torch.get_rng_state()
        expected = _computed(op, sample, differentiate)
        torch.set_rng_state(seed)
        with within():
            actual = _computed(op, sample, differentiate)
        assert_close(actual, expected, equal_nan=True)
        for ours, native in zip(actual[0], expected[0], strict=True):
            assert ours.stride() == native.stride() or not native.numel()  # nobody can step in an empty one


@pytest.mark.parametrize("op", [pytest.param(x, id=x.formatted_name) for x in op_db if x.name in _NAMES])
def test_errors(op):
    """Wrong arguments are refused with the native operator's exception and message."""
    if op.error_inputs_func is None:
        pytest.skip("PyTorch has no wrong arguments of it")
    for wrong in op.error_inputs("cpu"):
        sample = wrong.sample_input
        with within(), pytest.raises(wrong.error_type, match=wrong.error_regex):
            op(sample.input, *sample.args, **sample.kwargs)
