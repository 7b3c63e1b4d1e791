"""Spectra with clusters of equal values, which rounding errors can keep from converging."""

from typing import Any

import numpy as np

import ozaki.linalg
from multiword.runtime.compiled import numpy_forms
from tests.fuzz.draw import Draw, check, check_same


def _levels(rng: Any, n: int, groups: int) -> np.ndarray:
    """Dummies of a variable with so many levels, in turn or at random."""
    return np.eye(groups)[np.arange(n) % groups if rng.random() < 0.5 else rng.integers(0, groups, n)]


def _edges(rng: Any, n: int) -> np.ndarray:
    """The ends of a graph's edges: of paths, cycles, stars, complete ones, copies of one, or at random."""
    kind, i = int(rng.integers(5)), np.arange(n)
    if kind == 4:
        return rng.integers(0, n, (2, int(rng.integers(1, 3 * n + 1))))
    if kind == 3 and n > 1:
        return np.stack(np.triu_indices(n, 1))
    parts = rng.integers(1, 4)
    size = -(-n // parts)
    start = i // size * size
    to = [(i + 1 - start) % size + start, np.where(i + 1 - start < size, i + 1, i), start][kind % 3]
    return np.stack([i, np.minimum(to, n - 1)])


def _incidence(rng: Any, n: int) -> np.ndarray:
    """A row for each edge, 1 and -1 (or 1) at its ends."""
    one, other = _edges(rng, n)
    a = np.zeros((len(one), n))
    np.add.at(a, (np.arange(len(one)), one), 1)
    np.add.at(a, (np.arange(len(one)), other), -1 if rng.random() < 0.7 else 1)
    return a


def _adjacency(rng: Any, n: int) -> np.ndarray:
    a = np.zeros((n, n))
    one, other = _edges(rng, n)
    a[one, other] = a[other, one] = 1
    return a


def _laplacian(rng: Any, n: int) -> np.ndarray:
    a = _incidence(rng, n)
    return a.T @ a


def _hadamard(rng: Any, n: int) -> np.ndarray:
    a = np.ones((1, 1))
    while len(a) < n:
        a = np.block([[a, a], [a, -a]])
    return a[:, : int(rng.integers(1, len(a) + 1))] if rng.random() < 0.5 else a


def _circulant(rng: Any, n: int) -> np.ndarray:
    i = np.arange(n)
    row = rng.integers(-2, 3, n) * (rng.random(n) < rng.choice([0.2, 1.0]))
    return row[(i - i[:, None]) % n].astype(float)


def _of_few_values(rng: Any, n: int) -> np.ndarray:
    """Orthogonal matrices times few different numbers."""
    p, q = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return p * rng.choice([1.0, 1.0, 2.0, 1 + 2.0**-50, 0.0], n) @ (q.T if rng.random() < 0.5 else p.T)


def _fourier(rng: Any, n: int) -> np.ndarray:
    i = np.arange(n)
    return np.exp(2j * np.pi / n * (i[:, None] * i % n))


KINDS = {
    "dummies": lambda rng, n: np.c_[np.ones(n), _levels(rng, n, int(rng.integers(2, 12)))[:, 1:]],
    "all dummies": lambda rng, n: np.c_[np.ones(n), _levels(rng, n, int(rng.integers(2, 12)))],
    "two ways": lambda rng, n: np.c_[
        _levels(rng, n, int(rng.integers(2, 9))), _levels(rng, n, int(rng.integers(2, 9)))[:, 1:]
    ],
    "incidence": _incidence,
    "adjacency": _adjacency,
    "Laplacian": _laplacian,
    "Hadamard": _hadamard,
    "circulant": _circulant,
    "centering": lambda rng, n: np.eye(n) - 1 / n,
    "Kronecker": lambda rng, n: np.kron(np.eye(-(-n // 4)), rng.integers(-2, 3, (4, 4))),
    "few values": _of_few_values,
    "Fourier": _fourier,
}


def clustered(draw: Draw) -> np.ndarray:
    """A matrix with clusters of equal singular values, its rows and columns permuted, times a number."""
    rng = draw.rng
    a = KINDS[draw.pick("kind", *KINDS)](rng, draw.size("n", 1, 70 if draw.chance(0.05) else 16))
    if draw.chance(0.5):
        a = a[rng.permutation(len(a))]
    if draw.chance(0.3):
        a = a[:, rng.permutation(a.shape[1])]
    if draw.chance(0.3):
        a = a * rng.choice([1 / 3, 1e-7, np.pi, 1 - 0.5j, 1j])
    return np.ascontiguousarray(a.T if draw.chance(0.3) else a)


def spectra(draw: Draw) -> None:
    """svd, svdvals and eigh converge, with errors of LAPACK's size; compiled and NumPy's forms agree."""
    a = clustered(draw)
    check_triplets(a)
    exponent = draw.size("exponent", -900, 900)
    values, scaled = ozaki.linalg.svdvals(a), ozaki.linalg.svdvals(a * 2.0**exponent)
    normal = np.minimum(values, scaled) >= 2.0**-1022  # others have lost bits
    check_same("svdvals: scale", scaled[normal], values[normal] * 2.0**exponent)
    m, n = a.shape
    hermitian = {
        "sum": lambda: (a + a.conj().T) / 2 if m == n else a.conj().T @ a,
        "gram": lambda: a.conj().T @ a,
        "Golub and Kahan's": lambda: np.block([[np.zeros((m, m)), a], [a.conj().T, np.zeros((n, n))]]),
    }[draw.pick("Hermitian", "sum", "gram", "Golub and Kahan's")]()
    check_pairs((hermitian + hermitian.conj().T) / 2)
    if draw.chance(0.02):
        with numpy_forms():
            again = ozaki.linalg.svd(a)
        for part, (got, expected) in enumerate(zip(ozaki.linalg.svd(a), again, strict=True)):
            check_same(f"svd: NumPy's form, {part}", got, expected)


def check_triplets(a: np.ndarray) -> None:
    """A = USVᴴ with orthonormal U and V, and S as LAPACK's; of a matrix, or of each of a stack."""
    (u, s, vh), unit = ozaki.linalg.svd(a, full_matrices=False), (max(a.shape[-2:]) + 8) * 2.0**-52
    norm = np.linalg.matrix_norm(a)
    for x in (u, vh.conj().mT):
        check("svd: orthonormal", (_from_orthonormal(x) <= 2 * unit).all(), f"{a!r}")
    residual = np.linalg.matrix_norm((u * s[..., None, :]) @ vh - a)
    check("svd: residual", (residual <= unit * norm).all(), f"{a!r}")
    check("svd: values", (abs(s - np.linalg.svd(a)[1]).max(axis=-1) <= unit * norm).all(), f"{a!r}")
    check_same("svdvals", ozaki.linalg.svdvals(a), s)


def check_pairs(h: np.ndarray) -> None:
    """H = XΛXᴴ with an orthonormal X, and Λ as LAPACK's; of a matrix, or of each of a stack."""
    (values, x), unit, norm = ozaki.linalg.eigh(h), (h.shape[-1] + 8) * 2.0**-52, np.linalg.matrix_norm(h)
    check("eigh: orthonormal", (_from_orthonormal(x) <= 2 * unit).all(), f"{h!r}")
    residual = np.linalg.matrix_norm(h @ x - x * values[..., None, :])
    check("eigh: residual", (residual <= unit * norm).all(), f"{h!r}")
    errors = abs(values - np.linalg.eigvalsh(h)).max(axis=-1)
    check("eigh: values", (errors <= unit * norm).all(), f"{h!r}")


def _from_orthonormal(x: np.ndarray) -> np.ndarray:
    return abs(x.conj().mT @ x - np.eye(x.shape[-1])).max(axis=(-2, -1))


CHECKS = {"linalg: clusters": spectra}
