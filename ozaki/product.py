"""What the public products share: their checks, the product itself, and alpha, beta, c and out."""

from __future__ import annotations

import operator
from dataclasses import replace
from numbers import Number
from typing import Any

import numpy as np

from multiword.engines import Engine, get_engine
from multiword.runtime.arrays import (
    Array,
    as_array,
    check_same_device,
    device_of,
    is_cupy,
    namespace,
    real_parts,
    to_float32,
    to_float64,
)
from multiword.runtime.memory import WorkspaceTooSmall, default_workspace
from ozaki.execution import captured
from ozaki.nonfinite import overwrite_nonfinite
from ozaki.operand import Operand, in_turn
from ozaki.plans import Options, carry_out, make_plan
from ozaki.scaling.scales import NORM_LIMITS
from ozaki.schemes import SCHEMES

WIDEST = 2200
"""No two finite float64 numbers are more bits apart than this."""


def result_dtype(x: Array, y: Array) -> np.dtype:
    """The smallest of the four dtypes of results that holds both."""
    names = {t.name for t in (x.dtype, y.dtype)}
    if names <= {"float16", "bfloat16", "float32"}:
        return np.dtype(np.float32)
    if names <= {"float16", "bfloat16", "float32", "complex64"}:
        return np.dtype(np.complex64)
    return np.dtype(np.complex128 if "c" in (x.dtype.kind, y.dtype.kind) else np.float64)


def as_matrix(name: str, x: Array, dtype: Any, trans: bool | str) -> Array:
    """Return op(X) as a matrix of the dtype: a view where nothing needs converting."""
    complex_result = np.dtype(dtype).kind == "c"
    if x.dtype.kind == "c" and not complex_result:
        raise TypeError(f"{name} must be real for a result of {np.dtype(dtype)}, got dtype {x.dtype}")
    if x.ndim != 2:
        raise ValueError(f"{name} must be a matrix, got an array of shape {x.shape}")
    if trans not in (False, True, "C"):
        raise ValueError(f"transposing {name} must be False, True or 'C', got {trans!r}")
    x = x if x.dtype == dtype else x.astype(dtype)
    x = x.T if trans else x
    return x.conj() if trans == "C" else x


def operands_of(
    a: Any, b: Any, dtype: Any, trans_a: bool | str, trans_b: bool | str
) -> tuple[Operand, Operand]:
    pair = []
    for name, side, x, trans in (("a", 0, a, trans_a), ("b", 1, b, trans_b)):
        if isinstance(x, Operand):
            if x.side != side or x.matrix.dtype != dtype or trans:
                sides = ("left", "right")
                raise ValueError(
                    f"{name} was prepared as the {sides[x.side]} factor in {x.matrix.dtype}; "
                    f"here it is the {sides[side]} one in {np.dtype(dtype)}, transposed: {trans}"
                )
            pair.append(x)
        else:
            pair.append(Operand(as_matrix(name, as_array(x, name), dtype, trans), side))
    left, right = pair
    check_same_device(a=left.matrix, b=right.matrix)
    if left.matrix.shape[1] != right.matrix.shape[0]:
        raise ValueError(f"inner dimensions differ: a is {left.matrix.shape}, b is {right.matrix.shape}")
    return left, right


def options_of(
    like: Array,
    accuracy: str | int,
    scheme: str,
    word: str | None,
    engine: str | Engine,
    workspace: int | None,
) -> Options:
    number = isinstance(accuracy, int | np.integer) and not isinstance(accuracy, bool)
    if not number and accuracy not in (*NORM_LIMITS, "exact"):
        known = ", ".join(repr(name) for name in NORM_LIMITS)
        raise ValueError(f"accuracy must be {known}, 'exact' or a number of bits, got {accuracy!r}")
    if number and not 1 <= int(accuracy) <= WIDEST:
        raise ValueError(f"accuracy in bits must be between 1 and {WIDEST}, got {accuracy}")
    if scheme not in ("auto", *SCHEMES):
        raise ValueError(f"unknown scheme {scheme!r}; known are auto, {', '.join(SCHEMES)}")
    limit = default_workspace(like) if workspace is None else operator.index(workspace)
    return Options(accuracy, scheme, word, get_engine(engine, like), limit)


def gemm(
    a: Operand, b: Operand, alpha: complex, beta: complex, c: Any, options: Options, out: Array | None
) -> Array:
    """The body that every face shares."""
    dtype, shape = a.matrix.dtype, (a.rows, b.rows)
    alpha, beta = _scalar("alpha", alpha, dtype), _scalar("beta", beta, dtype)
    if beta != 0:
        if c is None:
            raise ValueError("c must be given when beta is not 0")
        c = as_array(c, "c")
        if c.dtype.kind == "c" and dtype.kind != "c":
            raise TypeError(f"c must be real for a result of {dtype}, got dtype {c.dtype}")
        check_same_device(a=a.matrix, c=c)
        if c.shape != shape:
            raise ValueError(f"c must be of shape {shape}, got {c.shape}")
    if out is not None:
        if not (is_cupy(out) or isinstance(out, np.ndarray)):
            raise TypeError(f"out must be an array to write to, got {type(out).__name__}")
        check_same_device(a=a.matrix, out=out)
        if out.shape != shape or out.dtype != dtype:
            raise ValueError(f"out must be {dtype} of shape {shape}, got {out.dtype} of {out.shape}")
    with device_of(a.matrix), in_turn(a, b), np.errstate(all="ignore"):
        result = _product(a, b, options)
        if alpha != 1:
            _scale(result, alpha)
        if beta != 0:
            addend = c.astype(dtype, copy=True)
            _scale(addend, beta)
            for part, more in zip(real_parts(result), real_parts(addend), strict=True):
                part[...] = _rounded(to_float64(part) + to_float64(more), part)
        if out is None:
            return result
        out[...] = result
        return out


def _scalar(name: str, x: Any, dtype: Any) -> Any:
    """A factor in the dtype of the result."""
    if type(x) is float:  # nearly always
        return dtype.type(x)
    kind = np.asarray(x).dtype.kind if isinstance(x, Number | np.generic) else ""
    if not kind or kind not in "biufc":
        raise TypeError(f"{name} must be a number, got {x!r}")
    if kind == "c" and dtype.kind != "c":
        raise TypeError(f"{name} must be real for a result of {dtype}, got {x!r}")
    return dtype.type(x)


def _rounded(x: Array, like: Array) -> Array:
    """`x`, in float64, rounded to the dtype of `like`.

    Products of two fp32 numbers are exact in fp64, and sums rounded to fp64 first round to fp32
    as they would at once: so these steps are fp32's own, and the same on every device.
    """
    return to_float32(x) if like.dtype == np.float32 else x


def _scale(x: Array, factor: Any) -> None:
    """x *= factor, every real product and sum rounded once; no engine's complex product is used."""
    parts = [to_float64(part) for part in real_parts(x)]
    if len(parts) == 1:
        x[...] = _rounded(float(factor) * parts[0], x)
        return
    by_real, by_imag = (
        [to_float64(_rounded(float(f) * part, x.real)) for part in parts] for f in (factor.real, factor.imag)
    )
    x.real[...] = _rounded(by_real[0] - by_imag[1], x.real)
    x.imag[...] = _rounded(by_real[1] + by_imag[0], x.real)


def _product(a: Operand, b: Operand, options: Options) -> Array:
    """The product itself, in a new array; on a GPU short of memory, in ever smaller panels."""
    xp = namespace(a.matrix)
    if a.empty or b.empty:
        return xp.zeros((a.rows, b.rows), a.matrix.dtype)
    while True:
        limit = options.workspace
        try:
            out = captured.product(a, b, options)
            return _planned_product(a, b, options) if out is None else out
        except WorkspaceTooSmall:
            raise
        except MemoryError:  # CuPy's is one, too
            # What was promised is not there: smaller panels, until not even one is.
            if limit <= 0:
                raise
            captured.forget()
            a.forget_split()
            b.forget_split()
            options = replace(options, workspace=limit // 2)


def _planned_product(a: Operand, b: Operand, options: Options) -> Array:
    plan = make_plan(a, b, options, computed=True)
    out = namespace(a.matrix).empty((a.rows, b.rows), a.matrix.dtype)
    carry_out(plan, a, b, options, out)
    if plan.nonfinite:
        overwrite_nonfinite(a.double_parts, b.double_parts, plan.scales, out)
    return out
