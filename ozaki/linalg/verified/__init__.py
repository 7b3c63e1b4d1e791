"""Linear algebra with proofs: every component of a result comes with a bound, rigorous on any machine."""

# ruff: noqa: F401  # what is public says so where it is defined; the imports are for editors, and for `__all__`

from multiword.public import public_names
from ozaki.linalg.verified.definite import Definiteness, is_positive_definite
from ozaki.linalg.verified.determinants import Determinant, det
from ozaki.linalg.verified.hermitian import eigh
from ozaki.linalg.verified.least_squares import lstsq
from ozaki.linalg.verified.singular_values import svdvals
from ozaki.linalg.verified.systems import Certificate, certify, inv, solve
from ozaki.linalg.verified.tools.eigenvalues import Enclosures
from ozaki.linalg.verified.tools.solution import NotProvedError, SingularError, Solution, Statistics

__all__ = public_names(__name__)


def __dir__() -> list[str]:
    """The public names."""
    return list(__all__)
