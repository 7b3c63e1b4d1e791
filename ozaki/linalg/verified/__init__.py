"""Linear algebra with proofs: every component of a result comes with a bound, rigorous on any machine."""

from ozaki.linalg.verified.definite import Definiteness, is_positive_definite
from ozaki.linalg.verified.det import Determinant, det
from ozaki.linalg.verified.eigenvalues import Enclosures
from ozaki.linalg.verified.eigh import eigh
from ozaki.linalg.verified.lstsq import lstsq
from ozaki.linalg.verified.solution import NotProvedError, SingularError, Solution, Statistics
from ozaki.linalg.verified.solve import Certificate, certify, inv, solve
from ozaki.linalg.verified.svdvals import svdvals

__all__ = [
    "Certificate",
    "Definiteness",
    "Determinant",
    "Enclosures",
    "NotProvedError",
    "SingularError",
    "Solution",
    "Statistics",
    "certify",
    "det",
    "eigh",
    "inv",
    "is_positive_definite",
    "lstsq",
    "solve",
    "svdvals",
]
