"""What all methods begin with: SciPy's arguments, and the system that they make."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial, wraps
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from multiword.runtime.arrays import (
    Array,
    as_array,
    conjugated,
    is_cupy,
    namespace,
    on_device_of_arrays,
)
from multiword.runtime.graphs import refuse_captures
from multiword.runtime.readback import all_finite
from ozaki.api import matmul
from ozaki.public import is_dask, is_sparse
from ozaki.sparse.linalg.vectors import norm
from ozaki.sparse.matrices import Matrix
from ozaki.sparse.products import in_rows, product_with_vector

Map = Callable[[Array], Array]
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

    matvec: Map
    precondition: Map
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
        b = finite_vector(b, "b")
        n, a = b.size, operator_of(A, "A", b.dtype)
        if a.shape != (n, n):
            raise ValueError(f"A must be square and fit b, of {n} numbers, got shape {a.shape}")
        m = _identity(b) if M is None else operator_of(M, "M", b.dtype)
        if m.shape != (n, n):
            raise ValueError(f"M must have A's shape, {a.shape}, got {m.shape}")
        x = namespace(b).zeros(n) if x0 is None else as_array(x0, "x0").reshape(-1)
        if x.size != n:
            raise ValueError(f"x0 must have {n} numbers, got {x.size}")
        dtype = np.result_type(np.float64, x.dtype, a.dtype, b.dtype, m.dtype)
        b, x = (namespace(b).array(v, dtype) for v in (b, x))
        size, limit = norm(b), 10 * n if maxiter is None else maxiter
        if size == 0:  # whose solution is known
            x, x0 = 0 * b, None
        tolerance = max(float(atol), float(rtol) * size)
        products = a.into(dtype).matvec, m.into(dtype).matvec
        told = callback or (lambda x: None)
        return cls(*products, b, x, tolerance, limit, told, progress, given=x0 is not None)

    def residual(self) -> Array:
        """Return b − Ax."""
        return self.b - self.matvec(self.x) if self.given else self.b.copy()

    def told(self, iteration: int, size: float) -> None:
        """Tell who wants to know the norm of the residual."""
        tell(self.progress, iteration, size, self.tolerance)


def tell(progress: Progress, iteration: int, size: float, tolerance: float) -> None:
    """Print the norm of a residual, or call the function that wants to know it."""
    if callable(progress):
        progress(iteration, size, tolerance)
    elif progress:
        print(f"{iteration:6d}  residual {size:.3e}, wanted {tolerance:.3e}", file=sys.stderr)


def finite_vector(b: Any, name: str) -> Array:
    """Return an (n,) or (n, 1) array of finite numbers as a vector."""
    b = as_array(b, name)
    if b.shape not in ((b.size,), (b.size, 1)):
        raise ValueError(f"{name} must be a vector, got shape {b.shape}")
    if is_cupy(b):
        refuse_captures("Krylov methods")  # which wait for the device
    if not all_finite(b):
        raise ValueError(f"{name} must be finite")
    return b.reshape(-1)


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


class Operator(NamedTuple):
    """A matrix, or what stands for one: shape, dtype, and the products of it and its adjoint with vectors."""

    shape: tuple[int, int]
    dtype: np.dtype
    matvec: Map
    rmatvec: Map

    def into(self, dtype: np.dtype) -> Operator:
        """Return the operator whose products are vectors of a dtype."""
        products = (partial(_applied, product, dtype) for product in (self.matvec, self.rmatvec))
        return Operator(self.shape, self.dtype, *products)


def _applied(product: Map, dtype: np.dtype, x: Array) -> Array:
    y = product(x)
    return y if y.ndim == 1 and y.dtype == dtype else y.reshape(-1).astype(dtype, copy=False)


def operator_of(a: Any, name: str, like: np.dtype) -> Operator:
    """Return the operator of a matrix, or of a `LinearOperator`, of a dtype like another's if it has none.

    Products with matrices, sparse or dense, in memory or in Dask's chunks, are correctly rounded; those of an
    operator are its own.
    """
    if hasattr(a, "matvec"):
        kind = np.dtype(a.dtype if a.dtype is not None else like)
        return Operator(tuple(a.shape), kind, a.matvec, getattr(a, "rmatvec", _no_adjoint))
    if is_sparse(a):
        return _of_sparse(Matrix.of(a, name))
    a = a if is_dask(a) else as_array(a, name)
    if a.ndim != 2:
        raise ValueError(f"{name} must be a matrix, got shape {a.shape}")
    if is_dask(a):
        return Operator(tuple(a.shape), a.dtype, partial(_in_chunks, a), partial(_in_chunks, a, adjoint=True))
    forward = partial(matmul, a, accuracy="exact")
    return Operator(tuple(a.shape), a.dtype, forward, partial(matmul, a.conj().T, accuracy="exact"))


def _of_sparse(matrix: Matrix) -> Operator:
    """Return the operator of a sparse matrix, whose entries are brought into rows once for all products."""

    def product(rows: Callable[[], Matrix], x: Array) -> Array:
        return product_with_vector(rows(), x)

    forward, adjoint = cache(partial(in_rows, matrix)), cache(partial(in_rows, matrix.H))
    return Operator(matrix.shape, matrix.dtype, partial(product, forward), partial(product, adjoint))


def _in_chunks(a: Any, x: Array, adjoint: bool = False) -> Array:
    """Return Ax, or A*x as conj(conj(x)ᵀA), of a Dask array: correctly rounded, and computed."""
    if adjoint:
        return conjugated(matmul(conjugated(x), a, accuracy="exact").compute())
    product: Array = matmul(a, x, accuracy="exact").compute()
    return product


def _identity(b: Array) -> Operator:
    """Return the operator whose products are the vectors themselves: no method writes into a vector."""
    return Operator((b.size, b.size), b.dtype, lambda x: x, lambda x: x)


def _no_adjoint(x: Array) -> Array:
    raise TypeError("A must have rmatvec, the product of its adjoint with a vector")
