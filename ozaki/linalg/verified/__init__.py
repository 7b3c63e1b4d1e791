"""Linear algebra with proofs: every component of a result comes with a bound, rigorous on any machine."""

from ozaki.linalg.verified.definite import Definiteness, is_positive_definite
from ozaki.linalg.verified.det import Determinant, det
from ozaki.linalg.verified.lstsq import lstsq
from ozaki.linalg.verified.solution import NotProvedError, SingularError, Solution, Statistics
from ozaki.linalg.verified.solve import Certificate, certify, inv, solve

__all__ = [
    "Certificate",
    "Definiteness",
    "Determinant",
    "NotProvedError",
    "SingularError",
    "Solution",
    "Statistics",
    "certify",
    "det",
    "inv",
    "is_positive_definite",
    "lstsq",
    "solve",
]
