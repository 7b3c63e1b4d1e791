"""The request of a product: its accuracy, scheme, word, engine and workspace."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from multiword.engines import Engine
from multiword.formats import FORMATS, Format
from multiword.runtime.scoped import Scoped

TARGETS = {np.dtype(t): FORMATS[name] for name, types in (("fp64", "dD"), ("fp32", "fF")) for t in types}
"""The format that results of each dtype are rounded to."""

SCHEMES = ("residues", "slices")
"""The schemes that a request may name."""

CERTIFIED = "fp64", "fp32"
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
    target : the format that results are rounded to, of numbers of their dtype; None for that of the dtype.
    """

    accuracy: str | int
    scheme: str
    word: str | None
    engine: Engine
    workspace: int
    executor: str | None = None
    target: Format | None = None

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

    def target_of(self, dtype: np.dtype) -> Format:
        """The format that results of a dtype are rounded to."""
        return TARGETS[dtype] if self.target is None else self.target

    def norm_format(self, dtype: np.dtype) -> Format:
        """The format whose norm limit rows fill, for results of a dtype: for "normwise" their target."""
        return self.target_of(dtype) if self.accuracy == NORMWISE else self.limits
