"""The request of a product: its accuracy, scheme, word, engine and workspace."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from multiword.engines import Engine
from multiword.formats import FORMATS, Format
from multiword.runtime.scoped import Scoped
from ozaki.definition.scales import NORM_LIMITS

TARGETS = {np.dtype(t): FORMATS[name] for name, types in (("fp64", "dD"), ("fp32", "fF")) for t in types}
"""The format that results of each dtype are rounded to."""

SCHEMES = ("residues", "slices")
"""The schemes that a request may name."""

CERTIFIED = tuple(NORM_LIMITS)
"""Accuracies that a certificate proves from the data."""

NORMWISE = "normwise"
"""The accuracy whose integers depend on their own row alone: nothing is read back from a device."""


forced: Scoped[str | None] = Scoped(os.environ.get("OZAKI_EXECUTOR") or None)
"""The executor that this thread's products are to be run by."""


class Request(NamedTuple):
    """The request of a product: what its caller asked for, and nothing about the data.

    Attributes
    ----------
    accuracy : "fp64" or "fp32", "normwise", "exact", or a number of bits.
    scheme, word : as named by the caller; "auto" and None leave the choice to the library.
    engine : where the products run.
    workspace : bytes.
    executor : the name of the executor that is to run the product; None for the fastest.
    """

    accuracy: str | int
    scheme: str
    word: str | None
    engine: Engine
    workspace: int
    executor: str | None = None

    @property
    def certified(self) -> bool:
        """Whether the accuracy is an error, for which the data decide how wide the integers are."""
        return self.accuracy in CERTIFIED

    @property
    def of_norms(self) -> bool:
        """Whether each row has the scale of its norm, perhaps widened."""
        return self.certified or self.accuracy == NORMWISE

    @property
    def limits(self) -> Format:
        """The format below whose norm limit magnitudes are counted."""
        return FORMATS[str(self.accuracy) if self.certified else "fp64"]

    def norm_format(self, target: Format) -> Format:
        """The format whose norm limit rows fill, for results in the target: for "normwise" that itself."""
        return target if self.accuracy == NORMWISE else self.limits
