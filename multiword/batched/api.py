"""The public function: check the call, compute it where its arrays are."""

from __future__ import annotations

from typing import Any

import numpy as np

from multiword.batched import host
from multiword.batched.gpu.launches import cache, key_of, relaunch
from multiword.batched.halfcomplex import HalfComplex
from multiword.batched.problem import check_problem
from multiword.public import public_in
from multiword.runtime.arrays import device_of


@public_in("multiword", "Batches of small matrices")
def batched_matmul(
    a: Any,
    b: Any,
    *,
    alpha: float | complex = 1.0,
    beta: float | complex = 0.0,
    c: Any = None,
    trans_a: bool | str = False,
    trans_b: bool | str = False,
    accumulate: str = "fp32",
    out: Any = None,
) -> Any:
    """Return alpha·op(A)·op(B) + beta·C for every pair of two stacks of small matrices.

    Parameters
    ----------
    a, b : stacks of matrices whose op() is (..., m, k) and (..., k, n): float16 or bfloat16
        arrays, `HalfComplex` arrays, or lists of separate matrices of one shape. The leading
        axes broadcast as in `np.matmul`, so one matrix can be shared by the whole batch.
        Strides, leading dimensions and alignment are arbitrary.
    alpha, beta : scalars; complex ones for half-complex matrices only.
    c : stack of the operands' kind that broadcasts to (..., m, n). It is read only if beta is
        not 0, in which case it must be given.
    trans_a, trans_b : op() is nothing for False or "N", the transpose for True or "T", the
        conjugate transpose for "C".
    accumulate : the format of the sums, "fp32" or "fp16" (for float16 only).
    out : array of the operands' kind and shape (..., m, n) to write to, which may be `c`.

    Returns
    -------
    Array, or `HalfComplex`, of the operands' format and of shape (..., m, n).

    Notes
    -----
    The sum P of the products is computed in the accumulation format and is within
    (k + 16)·v·|A||B| + k·η of the exact one in every entry, on every device and whether its adders
    round or truncate: v = 2⁻²³ and η = 2⁻¹⁴⁹ in fp32, v = 2⁻¹⁰ and η = 2⁻²⁴ in fp16. η is the smallest
    subnormal number, which each product may lose where it underflows: 2⁻¹⁰⁰·2⁻¹⁰⁰ in bfloat16 is 0,
    and alpha = 2¹⁰⁰ does not bring it back. (Half-complex: each part is a real sum of 2k products,
    and the bound is that sum's.) Then alpha·P + beta·C is evaluated in fp32, with alpha and beta
    rounded to the accumulation format, and rounded once to the result's.
    On the CPU, fp16 sums take one fused multiply-add for each term, in order.
    The order of the sums is the engine's own, so bits may differ between devices, and where
    cuBLAS is chosen it may round alpha·P to the format before it adds beta·C.
    What exceeds the format's range becomes infinite, Inf and NaN spread as in IEEE arithmetic
    (complex products are four real ones), and with alpha = 0 or k = 0 A and B are not read.
    On a GPU (compute capability 8.0 or later), calls with `out` can be captured in CUDA graphs, as
    long as nothing has to be copied (rows contiguous, no overlap of `out` and operands) and the
    thread uses up to eight streams; the graph does not keep the arrays alive.

    Raises
    ------
    TypeError : other dtypes, mixed dtypes, real mixed with half-complex, NumPy with CuPy, out masked.
    ValueError : shapes or batches that do not fit, unknown options, beta ≠ 0 without c, out read-only.

    References
    ----------
    Abdelfattah, Tomov and Dongarra (2020), "Matrix multiplication on batches of small matrices
    in half and half-complex precisions".

    >>> a = np.arange(8, dtype=np.float16).reshape(2, 2, 2)
    >>> batched_matmul(a, np.eye(2, dtype=np.float16), alpha=2, trans_a=True)
    array([[[ 0.,  4.],
            [ 2.,  6.]],
    <BLANKLINE>
           [[ 8., 12.],
            [10., 14.]]], dtype=float16)
    """
    if isinstance(beta, int | float) and beta == 0:
        c = None  # it does not count
    key = key_of(a, b, c, out, (alpha, beta, trans_a, trans_b, accumulate))
    if key is not None and (result := relaunch(key, a, b, c, out)) is not None:
        return result
    problem = check_problem(a, b, alpha, beta, c, trans_a, trans_b, accumulate, out)
    if problem.xp is np:
        result = host.multiply(problem)
        if problem.out is not None:
            problem.out[...] = result
    else:
        # Imported late: it is of no use without CuPy.
        from multiword.batched.gpu.device import multiply

        with device_of(problem.a.first):
            result, launched = multiply(problem)
        if key is not None and launched is not None:
            cache(key, *launched, a, b, c, out)
    if out is not None:
        return out
    return HalfComplex(result) if problem.complex else result
