"""The public functions `matmul` and `matmul_plan`: float32 products from words."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from multiword.engines import Engine, get_engine
from multiword.fp32.bounds import AMPLIFICATION
from multiword.fp32.choice import candidates
from multiword.fp32.execute import Gemm, execute, measured, multiply_natively, reason_for_rejection
from multiword.fp32.plan import Plan, make_plan
from multiword.fp32.ranges import range_error
from multiword.fp32.schemes import SCHEMES, Scheme, get_scheme
from multiword.public import public_in
from multiword.runtime.arrays import (
    Array,
    as_array,
    check_out,
    check_same_device,
    is_cupy,
    namespace,
    on_device_of_arrays,
    quietly,
)
from multiword.runtime.memory import default_workspace
from multiword.runtime.options import scalar, transposition, workspace_bytes


@public_in("multiword", "Products from words")
@on_device_of_arrays
def matmul(
    a: object,
    b: object,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    c: object = None,
    trans_a: bool = False,
    trans_b: bool = False,
    accuracy: str = "fp32",
    scheme: str | Scheme | None = None,
    word: str | None = None,
    words: int | None = None,
    block: int | None = None,
    accumulate: str | None = None,
    engine: str | Engine = "auto",
    workspace: int | None = None,
    out: Array | None = None,
) -> Array:
    """Return alpha·op(A)·op(B) + beta·C in float32, from products of short words on tensor cores.

    Parameters
    ----------
    a : (..., m, k) float32 array, NumPy or CuPy; (..., k, m) with `trans_a`. Types that float32
        holds exactly (float16, bfloat16, short integers, booleans) are promoted.
    b : (..., k, n) likewise; (..., n, k) with `trans_b`. Leading axes broadcast as in np.matmul.
    alpha, beta : real scalars, taken in float64.
    c : float32, broadcast to the result's shape, read unless beta = 0.
    trans_a, trans_b : whether to multiply by the transpose.
    accuracy : "fp32", the only one: an error no larger than that of the native fp32 product,
        with the fastest scheme that the data allows. On tensor cores "fast-fp16", else
        "short-block-fp16", "short-block-tf32" or "fp64" (one plain product, rounded once); each is left
        out where the data rule it out. Without tensor cores, and for sizes at which words do not
        pay, it is the native fp32 product.
    scheme : use this scheme, by name (`SCHEMES`) or as a `Scheme`, whatever its accuracy.
    word, words, block, accumulate : fields of the scheme to change; alone they stand for a
        scheme with scaled lines and words. block=0 takes all of k.
    engine : "auto", "host", "cublas", "tensorcore" or an `Engine`.
    workspace : bytes that may be used beyond inputs and result; by default 2 GiB, or two fifths of
        a GPU's memory. Larger products are computed in panels of rows and columns, on the same
        words: bits can differ only where a library chooses another kernel for a smaller product.
    out : float32 array for the result, written once it is complete.

    Returns
    -------
    (..., m, n) float32 array, `out` if given. Infinities and NaNs give in their rows and columns
    what IEEE arithmetic gives, and disturb nothing else.

    Raises
    ------
    TypeError : float64 or complex operands (`ozaki.accurate_dgemm` multiplies those), mixed NumPy
        and CuPy; alpha or beta no real number, or an integer that float64 does not hold; out of another
        dtype, or masked.
    ValueError : shapes or options that do not fit; alpha or beta out of range; out read-only.

    References
    ----------
    Fasi, Higham, Lopez, Mary and Mikaitis, "Matrix multiplication in multiword arithmetic"
    (2022). Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores" (2022).

    >>> a, b = np.float32([[1, 2**-12], [3, 4]]), np.float32([[5, 6], [7, 8]])
    >>> matmul(a, b, scheme="double-fp16").tolist()
    [[5.001708984375, 6.001953125], [43.0, 50.0]]
    """
    alpha, beta = (float(scalar(name, x, float)) for name, x in (("alpha", alpha), ("beta", beta)))
    left, right, shape = _operands(a, b, trans_a, trans_b)
    addend = None if beta == 0 else _addend(c, shape)
    if out is not None:
        check_out(out, left, shape, np.float32)
    chosen = _chosen(accuracy, scheme, block, word=word, words=words, accumulate=accumulate)
    core, limit = get_engine(engine, left), _limit(workspace, left)
    xp = check_same_device(a=left, b=right, c=addend)

    def product(index: tuple[int, ...]) -> Array:
        part = None if addend is None else addend[index]
        one, other = _matrix(left, shape, index), _matrix(right, shape, index)
        gemm = Gemm(core, one, other.T, alpha, beta, part, limit)
        return execute(gemm, None if chosen is None else get_scheme(chosen))

    with quietly(left):
        if len(shape) == 2:
            result = product(())
        elif _native(core, chosen, shape, left.shape[-1]) and alpha == 1 and addend is None:
            result = xp.empty(shape, np.float32)
            multiply_natively(left, right, result)
        else:
            result = xp.empty(shape, np.float32)
            for index in np.ndindex(shape[:-2]):
                result[index] = product(index)
    if out is None:
        return result
    out[...] = result
    return out


@public_in("multiword", "Products from words")
@on_device_of_arrays
def matmul_plan(
    a: object,
    b: object,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    accuracy: str = "fp32",
    scheme: str | Scheme | None = None,
    word: str | None = None,
    words: int | None = None,
    block: int | None = None,
    accumulate: str | None = None,
    engine: str | Engine = "auto",
    workspace: int | None = None,
) -> Plan:
    """Return what `matmul` would do with these matrices: scheme, calls, workspace, bound.

    As `multiword.matmul`; differs in multiplying nothing: both matrices are split, those of a GPU in copies
    on the host. For stacks, the plan is that of the first pair.

    Returns
    -------
    A report to print. Its bound holds for these matrices: numbers that underflow in words, or in float32,
    make it larger than `error_bound`, and it is infinite, with a warning, where they may overflow.

    >>> print(matmul_plan(np.ones((4, 300), np.float32), np.ones((300, 5), np.float32)))
    product     (4, 300) by (300, 5), float32, engine host
    scheme      fp32: 1 fp32 word, 1 product in 1 call
    block       all of k, summed in fp32
    workspace   0.0 MiB in 1 panel
    bound       1.8e-05 of |A||B|
    """
    left, right, shape = _operands(a, b, trans_a, trans_b)
    check_same_device(a=left, b=right)
    core, limit = get_engine(engine, left), _limit(workspace, left)
    chosen = _chosen(accuracy, scheme, block, word=word, words=words, accumulate=accumulate)
    if 0 in shape[:-2]:
        return make_plan((*shape[-2:], left.shape[-1]), core, "fp32", SCHEMES["fp32"], limit)
    one, other = (_matrix(x, shape, (0,) * (len(shape) - 2)) for x in (left, right))
    return _plan(Gemm(core, one, other.T, 1.0, 0.0, None, limit), chosen)


def _plan(gemm: Gemm, chosen: str | Scheme | None) -> Plan:
    rejected = []
    if chosen is not None:
        name, scheme = chosen if isinstance(chosen, str) else "given", get_scheme(chosen)
    else:
        for name, scheme in candidates(*gemm.shape, gemm.engine):
            reason = reason_for_rejection(gemm, name, scheme)
            if reason is None:
                break
            rejected.append((name, reason))
    plan = make_plan(gemm.shape, gemm.engine, name, scheme, gemm.workspace, tuple(rejected))
    return plan if 0 in gemm.shape else _bounded(plan, gemm, guess=chosen is None)


def _bounded(plan: Plan, gemm: Gemm, guess: bool) -> Plan:
    """Return the plan with a bound that holds for these matrices, or warn that none does."""
    plain = plan.scheme.plain
    scheme = replace(plan.scheme, scaled_lines=False) if plain else plan.scheme
    if is_cupy(gemm.a):
        gemm = replace(gemm, a=gemm.a.get(), bt=gemm.bt.get())
    # A centred scheme is not centred where that would cancel.
    forms = {scheme, scheme if guess else replace(scheme, centred=False)}
    error = max(range_error(measured(gemm, form, guess=guess)) for form in forms)
    bound = plan.bound + error * (1 + AMPLIFICATION if scheme.centred else 1)
    if bound < 1:
        return replace(plan, bound=bound)
    words = "" if plain else f"numbers leave the range of {scheme.word} words, or "
    advice = "" if plain or scheme.scaled_lines else f"{_SCALED} scale rows and columns; "
    warnings.warn(
        f"no bound holds: {words}the product leaves the range of float32; "
        f"{advice}ozaki.accurate_dgemm multiplies in float64",
        stacklevel=5,
    )
    return replace(plan, bound=math.inf)


_SCALED = ", ".join(f'"{name}"' for name, s in SCHEMES.items() if s.scaled_lines and not s.plain)


def _native(core: Engine, chosen: str | Scheme | None, shape: tuple[int, ...], k: int) -> bool:
    """Return whether all products of a stack are the library's own in fp32."""
    if core.name not in ("host", "cublas"):
        return False
    (_, first), *_ = candidates(shape[-2], shape[-1], k, core)
    return (first if chosen is None else get_scheme(chosen)).word == "fp32"


def _limit(workspace: int | None, like: Array) -> int:
    return default_workspace(like) if workspace is None else workspace_bytes(workspace)


def _chosen(
    accuracy: str, scheme: str | Scheme | None, block: int | None, **fields: Any
) -> str | Scheme | None:
    """Return the scheme of a call, or None if it is to be chosen."""
    changes = {name: value for name, value in fields.items() if value is not None}
    if block is not None:
        changes["block"] = block or None
    if accuracy != "fp32":
        raise ValueError(f"accuracy must be 'fp32', got {accuracy!r}; for more take ozaki's products")
    if not changes:
        return scheme
    if scheme is None and fields["word"] in ("fp32", "fp64"):
        changes.setdefault("words", 1)
    return replace(Scheme() if scheme is None else get_scheme(scheme), **changes)


def _operands(a: object, b: object, trans_a: bool, trans_b: bool) -> tuple[Array, Array, tuple[int, ...]]:
    """Return both operands in float32, and the shape of the product."""
    left, right = _float32(a, "a"), _float32(b, "b")
    for name, x in (("a", left), ("b", right)):
        if x.ndim < 2:
            raise ValueError(f"{name} must have at least two axes, got shape {x.shape}")
    left = left.swapaxes(-1, -2) if transposition("trans_a", trans_a) else left
    right = right.swapaxes(-1, -2) if transposition("trans_b", trans_b) else right
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(f"the inner dimensions of a and b differ: {left.shape} by {right.shape}")
    try:
        leading = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        raise ValueError(
            f"the leading axes of a and b must broadcast: {left.shape} by {right.shape}"
        ) from None
    return left, right, (*leading, left.shape[-2], right.shape[-1])


def _matrix(x: Array, shape: tuple[int, ...], index: tuple[int, ...]) -> Array:
    """Return the matrix of a stack that broadcasting puts at `index` of the product's leading axes."""
    return namespace(x).broadcast_to(x, (*shape[:-2], *x.shape[-2:]))[index]


def _addend(c: object, shape: tuple[int, ...]) -> Array:
    if c is None:
        raise ValueError("c must be given when beta is not 0")
    addend = _float32(c, "c")
    try:
        return namespace(addend).broadcast_to(addend, shape)
    except ValueError:
        raise ValueError(f"c must broadcast to {shape}, got {addend.shape}") from None


def _float32(x: object, name: str) -> Array:
    """Return `x` as float32, which must hold every value of its dtype."""
    array = as_array(x, name)
    if array.dtype == np.float32:
        return array
    if array.dtype.kind == "c":
        raise TypeError(
            f"{name} is {array.dtype}; ozaki.accurate_cgemm and accurate_zgemm multiply complex numbers"
        )
    if array.dtype.name != "bfloat16" and np.promote_types(array.dtype, np.float32) != np.float32:
        raise TypeError(
            f"{name} is {array.dtype}, which float32 does not hold: ozaki.accurate_dgemm multiplies it, "
            f"or convert it with astype('float32')"
        )
    return array.astype(np.float32)
