"""Restricted Hartree–Fock for a chain of hydrogen atoms in STO-3G, on CuPy alone.

A program as others write it, which knows nothing of this project. Integrals: Szabo and Ostlund, Modern
Quantum Chemistry, appendix A; energies in hartree, distances in bohr.
"""

import cupy as cp
from cupyx.scipy.special import erf

EXPONENTS = cp.array([3.42525091, 0.62391373, 0.16885540])
WEIGHTS = cp.array([0.15432897, 0.53532814, 0.44463454])


def boys(t):
    """F₀(t) = ½ √(π/t) erf(√t)."""
    safe = cp.maximum(t, 1e-12)
    return cp.where(t < 1e-12, 1.0, 0.5 * cp.sqrt(cp.pi / safe) * erf(cp.sqrt(safe)))


def integrals(z):
    """Overlap S, core Hamiltonian H and repulsion (ab|cd) of 1s functions at positions z of a line."""
    n = len(z)
    a = cp.tile(EXPONENTS, n)
    at = cp.repeat(z, 3)
    contraction = cp.zeros((n, 3 * n))
    for i in range(n):
        contraction[i, 3 * i : 3 * i + 3] = WEIGHTS * (2 * EXPONENTS / cp.pi) ** 0.75
    p = a[:, None] + a
    mu = a[:, None] * a / p
    squared = (at[:, None] - at) ** 2
    centre = (a[:, None] * at[:, None] + a * at) / p
    s = (cp.pi / p) ** 1.5 * cp.exp(-mu * squared)
    kinetic = mu * (3 - 2 * mu * squared) * s
    attraction = sum(-2 * cp.pi / p * cp.exp(-mu * squared) * boys(p * (centre - x) ** 2) for x in z)
    q = p.ravel()
    weight = (cp.exp(-mu * squared) / p).ravel()
    total = q[:, None] + q
    reduced = q[:, None] * q / total
    distance = (centre.ravel()[:, None] - centre.ravel()) ** 2
    repulsion = 2 * cp.pi**2.5 * weight[:, None] * weight / cp.sqrt(total) * boys(reduced * distance)
    pairs = cp.einsum("ia,jb->ijab", contraction, contraction).reshape(n * n, 9 * n * n)
    repulsion = (pairs @ repulsion @ pairs.T).reshape(n, n, n, n)
    return (
        contraction @ s @ contraction.T,
        contraction @ (kinetic + attraction) @ contraction.T,
        repulsion,
    )


def energy(atoms, spacing, iterations=60):
    """The total energy of a chain with an even number of atoms."""
    z = spacing * cp.arange(atoms, dtype=float)
    overlap, core, repulsion = integrals(z)
    values, vectors = cp.linalg.eigh(overlap)
    x = cp.dot(vectors, cp.diag(values**-0.5)).dot(vectors.T)
    density = cp.zeros_like(core)
    for _ in range(iterations):
        coulomb = cp.tensordot(repulsion, density, 2)
        exchange = cp.einsum("acbd,cd->ab", repulsion, density)
        fock = core + coulomb - 0.5 * exchange
        _, orbitals = cp.linalg.eigh(x.T @ fock @ x)
        occupied = (x @ orbitals)[:, : atoms // 2]
        density = 0.5 * density + cp.matmul(occupied, occupied.T)
    nuclei = sum(1 / float(z[j] - z[i]) for i in range(atoms) for j in range(i + 1, atoms))
    return 0.5 * float(cp.vdot(density, core + fock)) + nuclei


if __name__ == "__main__":
    print(f"{energy(6, 1.8):.12f}")
