"""What all methods begin with: SciPy's arguments, and the system that they make."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, as_array, namespace, on_device_of_arrays
from ozaki.api import matmul
from ozaki.public import is_sparse
from ozaki.sparse.linalg.vectors import norm

Operator = Callable[[Array], Array]
Progress = bool | Callable[[int, float, float], None]


@dataclass
class System:
    """A linear system Ax = b with all that a method needs to solve it.

    Attributes
    ----------
    matvec : the function that returns Ax for a vector x of b's dtype.
    precondition : the function that returns Mr for a residual r.
    b : the right side, a vector of float64 or complex128.
    x : the first guess, a vector like b. `gmres` replaces it after each cycle.
    tolerance : the norm of a residual at which the iteration ends, max(rtol·‖b‖, atol).
    limit : the largest number of iterations.
    callback : a function that is called with x after each iteration; it may do nothing.
    progress : as in `cg`.
    given : False where x is known to be zero, so that b is the residual.
    """

    matvec: Operator
    precondition: Operator
    b: Array
    x: Array
    tolerance: float
    limit: int
    callback: Callable[[Array], Any]
    progress: Progress
    given: bool

    @classmethod
    def of(
        cls,
        A: Any,
        b: Any,
        x0: Any,
        rtol: float,
        atol: float,
        maxiter: int | None,
        M: Any,
        callback: Callable[[Array], Any] | None,
        progress: Progress = False,
    ) -> System:
        """Return the system of a method's arguments. ValueError for shapes that do not fit, Inf and NaN."""
        b = as_array(b, "b")
        n = b.size
        if b.shape not in ((n,), (n, 1)):
            raise ValueError(f"b must be a vector, got shape {b.shape}")
        b = b.reshape(-1)
        shape, kind, matvec = operator_of(A, "A", b.dtype)
        if shape != (n, n):
            raise ValueError(f"A must be square and fit b, of {n} numbers, got shape {shape}")
        kinds = [kind, b.dtype]
        precondition: Operator = np.copy if isinstance(b, np.ndarray) else (lambda r: r.copy())
        if M is not None:
            of_m, kind, precondition = operator_of(M, "M", b.dtype)
            if of_m != (n, n):
                raise ValueError(f"M must have A's shape, {shape}, got {of_m}")
            kinds.append(kind)
        x = namespace(b).zeros(n) if x0 is None else as_array(x0, "x0").reshape(-1)
        if x.size != n:
            raise ValueError(f"x0 must have {n} numbers, got {x.size}")
        dtype = np.result_type(np.float64, x.dtype, *kinds)
        b, x = (namespace(b).array(v, dtype) for v in (b, x))
        if not bool(namespace(b).isfinite(b).all()):
            raise ValueError("b must be finite")
        size, limit = norm(b), 10 * n if maxiter is None else maxiter
        if size == 0:  # whose solution is known
            x, x0 = 0 * b, None
        tolerance = max(float(atol), float(rtol) * size)
        apply = partial(_applied, dtype=dtype)
        products = partial(apply, matvec), partial(apply, precondition)
        told = callback or (lambda x: None)
        return cls(*products, b, x, tolerance, limit, told, progress, given=x0 is not None)

    def residual(self) -> Array:
        """Return b − Ax."""
        return self.b - self.matvec(self.x) if self.given else self.b.copy()

    def told(self, iteration: int, size: float) -> None:
        """Tell who wants to know the norm of the residual."""
        if callable(self.progress):
            self.progress(iteration, size, self.tolerance)
        elif self.progress:
            print(f"{iteration:6d}  residual {size:.3e}, wanted {self.tolerance:.3e}", file=sys.stderr)


def _applied(operator: Operator, x: Array, dtype: np.dtype) -> Array:
    y = operator(x)
    return y.reshape(-1).astype(dtype, copy=False)


def krylov_method(iterate: Callable[..., tuple[Array, int]]) -> Callable[..., tuple[Array, int]]:
    """Return the public function of a method, with SciPy's arguments: `iterate` gets the system they make.

    Keyword arguments of `iterate` become the public function's, beside those that all methods have.
    """

    def solve(
        A: Any,
        b: Any,
        x0: Any = None,
        *,
        rtol: float = 1e-5,
        atol: float = 0.0,
        maxiter: int | None = None,
        M: Any = None,
        callback: Callable[[Array], Any] | None = None,
        progress: Progress = False,
        **own: Any,
    ) -> tuple[Array, int]:
        return iterate(System.of(A, b, x0, rtol, atol, maxiter, M, callback, progress), **own)

    shared = [p for p in signature(solve).parameters.values() if p.kind is not p.VAR_KEYWORD]
    own = list(signature(iterate).parameters.values())[1:]
    public = wraps(iterate)(solve)
    public.__signature__ = signature(iterate).replace(parameters=[*shared, *own])  # type: ignore[attr-defined]
    return on_device_of_arrays(public)


def operator_of(a: Any, name: str, like: np.dtype) -> tuple[tuple[int, int], np.dtype, Operator]:
    """Return the shape, dtype and product with vectors of a matrix or of a `LinearOperator`.

    Products with matrices, sparse or dense, are correctly rounded; an operator's are its own.
    """
    if hasattr(a, "matvec"):
        return tuple(a.shape), np.dtype(a.dtype if a.dtype is not None else like), a.matvec
    if not is_sparse(a):
        a = as_array(a, name)
        if a.ndim != 2:
            raise ValueError(f"{name} must be a matrix, got shape {a.shape}")
    return tuple(a.shape), a.dtype, lambda x: matmul(a, x, accuracy="exact")
