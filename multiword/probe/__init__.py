"""Probes: the arithmetic of an engine, from the results of chosen products.

`python -m multiword.probe` prints a report on the GPU, if there is one, and on the models. `tests` are
those of Fasi, Higham, Mikaitis and Pranesh (2021), on the inner products of `products`; `order` finds
the order of summation (Xie et al., FPRev, 2025); `findings` and `report` say what came out.
"""

# ruff: noqa: F401  # what is public says so where it is defined; the imports are for editors, and for `__all__`

from multiword.engines.generations import Blocking
from multiword.probe.findings import Findings
from multiword.probe.order import infer_blocking, subtree_sizes
from multiword.probe.report import print_report, save_report, survey
from multiword.probe.tests import probe
from multiword.public import public_names

__all__ = sorted((*public_names(__name__), "Blocking"))


def __dir__() -> list[str]:
    """The public names."""
    return list(__all__)
