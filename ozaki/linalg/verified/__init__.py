"""Linear algebra with proofs: every component of a result comes with a bound, rigorous on any machine."""

from ozaki.linalg.verified.solution import NotProvedError, SingularError, Solution, Statistics
from ozaki.linalg.verified.solve import Certificate, certify, inv, solve

__all__ = [
    "Certificate",
    "NotProvedError",
    "SingularError",
    "Solution",
    "Statistics",
    "certify",
    "inv",
    "solve",
]
