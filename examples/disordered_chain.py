"""A disordered chain: spectra, a sparse matrix, a fit and jackknife errors, however the work is dealt out.

    python examples/disordered_chain.py

Electrons on chains whose sites have random energies (Anderson, "Absence of diffusion in certain random
lattices", 1958). The lowest energies of 48 chains are averaged for three strengths of disorder; the jackknife
(Quenouille, 1956) gives the errors of the means from means that leave one chain out, and least squares a line
through them. Then the lowest energy of one longer chain, a sparse matrix. The program is run by one worker,
and by three who take the chains in another order; with this library, and with NumPy and SciPy alone.
It takes three seconds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse.linalg
from scipy.sparse import csr_array, diags_array

import ozaki
import ozaki.sparse.linalg
from ozaki.linalg import verified
from ozaki.random import Generator

SITES, CHAINS, LONG, STRENGTHS = 40, 48, 150, np.array([1.0, 2.0, 3.0])


class Results(NamedTuple):
    """Means of the lowest energies with their errors, a line through them, and a long chain's energy."""

    means: np.ndarray
    errors: np.ndarray
    line: np.ndarray
    energy: np.ndarray


def hamiltonian(site_energies: np.ndarray) -> csr_array:
    """The matrix of a chain: the energies of its sites, and hopping between neighbours."""
    hopping = np.full(site_energies.size - 1, -1.0)
    return diags_array([hopping, site_energies, hopping], offsets=[-1, 0, 1]).tocsr()


class Ozaki:
    """What the program takes of this library. A number follows from the seed and its place."""

    mean, eigvalsh = staticmethod(ozaki.mean), staticmethod(ozaki.linalg.eigvalsh)
    eigsh = staticmethod(ozaki.sparse.linalg.eigsh)

    @staticmethod
    def uniform(chain: int, count: int) -> np.ndarray:
        return Generator(seed=7).random(count, first=chain * count)

    @staticmethod
    def fitted(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return verified.lstsq(x, y).value


class Native:
    """The same of NumPy and SciPy; a chain has a seed of its own."""

    mean, eigvalsh = staticmethod(np.mean), staticmethod(np.linalg.eigvalsh)
    eigsh = staticmethod(scipy.sparse.linalg.eigsh)

    @staticmethod
    def uniform(chain: int, count: int) -> np.ndarray:
        return np.random.default_rng([7, chain]).random(count)

    @staticmethod
    def fitted(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.linalg.lstsq(x, y)[0]


def program(library: Any, workers: int) -> Results:
    """The physics, with one library: its chains dealt to some workers, who begin at opposite ends."""
    order = np.arange(CHAINS) if workers == 1 else np.arange(CHAINS)[::-1]
    chains = np.concatenate([order[i::workers] for i in range(workers)])
    uniform = np.stack([library.uniform(chain, SITES) for chain in chains])
    energies = np.empty((len(STRENGTHS), CHAINS))
    for row, strength in zip(energies, STRENGTHS, strict=True):
        stack = np.stack([hamiltonian(strength * (u - 0.5)).toarray() for u in uniform])
        row[:] = library.eigvalsh(stack)[:, 0]
    means = library.mean(energies, axis=1)
    left_out = np.stack([library.mean(np.delete(energies, i, axis=1), axis=1) for i in range(CHAINS)], axis=1)
    squares = (left_out - library.mean(left_out, axis=1)[:, None]) ** 2
    errors = np.sqrt((CHAINS - 1) * library.mean(squares, axis=1))
    line = library.fitted(np.column_stack([np.ones(len(STRENGTHS)), STRENGTHS]), means)
    long = hamiltonian(library.uniform(CHAINS, LONG) - 0.5)
    energy = library.eigsh(long, k=1, which="SA", return_eigenvectors=False)
    return Results(means, errors, line, energy)


def main() -> None:
    """Print what one worker finds, and in what three find other bits."""
    for name, library in (("ozaki", Ozaki), ("NumPy and SciPy", Native)):
        one, three = program(library, 1), program(library, 3)
        print(f"{name}:")
        for strength, mean, error in zip(STRENGTHS, one.means, one.errors, strict=True):
            print(f"  disorder {strength:.0f}: lowest energy {mean:.6f} ± {error:.6f}")
        print(f"  line {one.line[0]:.6f} {one.line[1]:+.6f}·W; a long chain: {one.energy[0]:.9f}")
        for what, mine, theirs in zip(Results._fields, one, three, strict=True):
            print(f"  {what} of one worker and of three, the same bits: {mine.tobytes() == theirs.tobytes()}")


if __name__ == "__main__":
    main()
