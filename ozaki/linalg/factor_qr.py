"""QR factorization by halves of the columns: Q = I - V·T·Vᴴ, compactly.

Elmroth and Gustavson, Applying recursion to serial and parallel QR factorization; Schreiber and Van Loan, A
storage-efficient WY representation. The leaves are defined in `panels`, the updates are products of
"normwise" accuracy, relative to the norms of columns: every bit is a function of A.
"""

from __future__ import annotations

from typing import NamedTuple

from multiword.runtime.arrays import Array, backwards, is_cupy, namespace
from ozaki.linalg.arithmetic import LEAF, exponents_of, larger_parts, times_powers
from ozaki.linalg.panels import qr_panel, split
from ozaki.linalg.products import normwise
from ozaki.linalg.small import calls


class Reflections(NamedTuple):
    """Q = I - V·T·Vᴴ, of (m, n) V and (n, n) upper triangular T."""

    v: Array
    t: Array

    def apply(self, c: Array, adjoint: bool = False) -> Array:
        """Return QC, or QᴴC."""
        t = self.t.conj().T if adjoint else self.t
        return c - normwise(self.v, normwise(t, normwise(self.v.conj().T, c)))

    def signs(self) -> Array:
        """Return which reflections only turn a sign, of real numbers with zeros below: LAPACK makes none."""
        xp, t = namespace(self.v), self.t.diagonal()
        return backwards(xp.tril(self.v, -1) == 0, 0).all(axis=0) & (t == 2)


def scaled_columns(a: Array) -> tuple[Array, Array]:
    """Return A·2**-e, whose columns have their largest numbers between 1/2 and 1, and the exponents e.

    The squares of such numbers neither overflow nor underflow; else no bit is changed by that. Columns of
    zeros stay as they are.
    """
    largest = backwards(larger_parts(a), 0).max(axis=0) if len(a) else namespace(a).zeros(a.shape[1])
    exponents = exponents_of(largest)
    return times_powers(a, -exponents), exponents


def factored(a: Array, complete: bool, vectors: bool) -> tuple[Array | None, Array]:
    """Return Q and R of a matrix or a stack of small ones; no Q if it is not asked for."""
    m, n = a.shape[-2:]
    k = min(m, n)
    rows = m if complete else k
    if a.ndim == 3:
        return calls.qr(a, rows, vectors)
    xp = namespace(a)
    r, exponents = scaled_columns(a)
    reflections = factorize(r[:, :k])
    if n > k:
        r[:, k:] = reflections.apply(r[:, k:], adjoint=True)
    r = times_powers(xp.triu(r[:rows]), exponents)
    turned = reflections.signs()
    r[:k] = xp.where(turned[:, None], 0.0 - r[:k], r[:k])
    if not vectors:
        return None, r
    q = reflections.apply(xp.eye(m, rows, dtype=a.dtype))
    q[:, :k] = xp.where(turned, 0.0 - q[:, :k], q[:, :k])
    return q, r


def projected(a: Array, b: Array) -> tuple[Array, Array, Array, Array]:
    """Return R of A·2**-e = QR, and e, and the first rows of Qᴴ·(B·2**-f), and f; both are `scaled_columns`.

    A has at least as many rows as columns.
    """
    n = a.shape[1]
    if calls.takes(a, b, most=calls.SMALL_ALONE if is_cupy(a) else calls.SMALL):
        r, c, exponents = (x[0] for x in calls.projected(a[None], b[None]))
        return r, exponents[:n], c[:n], exponents[n:]
    r, exponents = scaled_columns(a)
    c, of_b = scaled_columns(b)
    c = factorize(r).apply(c, adjoint=True)
    return namespace(a).triu(r[:n]), exponents, c[:n].copy(), of_b


def factorize(a: Array) -> Reflections:
    """Replace A, (m, n) with m >= n, by R; return Q.

    Q₁ᴴA = [R₁₁ R₁₂; 0 A₂₂],   Q₂ᴴA₂₂ = R₂₂,   T₁₂ = -T₁₁·(V₁ᴴV₂)·T₂₂
    """
    xp, (_, n) = namespace(a), a.shape
    if n <= LEAF:
        columns = a.T.copy(order="C")
        y, t = qr_panel(columns)
        a[...] = columns.T
        return Reflections(y.T, t)
    h = split(n)
    first = factorize(a[:, :h])
    a[:, h:] = first.apply(a[:, h:], adjoint=True)
    second = factorize(a[h:, h:])
    v, t = xp.zeros(a.shape, a.dtype), xp.zeros((n, n), a.dtype)
    v[:, :h], v[h:, h:] = first.v, second.v
    t[:h, :h], t[h:, h:] = first.t, second.t
    t[:h, h:] = -normwise(first.t, normwise(normwise(first.v[h:].conj().T, second.v), second.t))
    return Reflections(v, t)
