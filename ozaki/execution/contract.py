"""The contract of executors: each of them is one way to run a product, of which `executors` is the table."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np

from multiword.engines.host import Host
from multiword.runtime.arrays import Array
from ozaki.product.pair import Pair, Signature
from ozaki.scaling.statistics import NONFINITE, ZERO
from ozaki.tuning import LARGEST_IN_A_STACK, LARGEST_IN_A_STACK_ON_DEVICE


class Done:
    """The outcome of an executor that has written the product."""


DONE = Done()


class Declined(NamedTuple):
    """The outcome of an executor that leaves a product to the next one, whatever it has written.

    Attributes
    ----------
    pair : the factors with all that has been measured of them, or A·D and D⁻¹·B, to be multiplied instead.
    why : in words.
    left : which products of a stack are left, rising; None if all are.
    singly : whether these are to be run one by one.
    """

    pair: Pair
    why: str
    left: np.ndarray | None = None
    singly: bool = False


UNLEVEL = "there is an Inf or NaN, or the inner dimension may be graded, or integers are too wide"
UNCOUNTED = "the counting bound leaves some products undecided"
UNROUNDED = "a sum is too near the middle of two numbers to be rounded"
EXTREME = "there is an Inf or NaN, or a row of extreme size"
NO_ROOM = "the workspace is too small"
"""Why executors decline."""


FURTHEST = 900
"""Exponents of rows that are not extreme, at most: nothing overflows, and nothing underflows that counts."""

MUCH = 1e9
"""The cost of executors that take what no other one has taken."""


Outcome = Done | Declined


class Executor(ABC):
    """One way to run the products of one signature.

    A subclass is such a way, and an instance of it all that is computed once for a signature.

    Attributes
    ----------
    name : by which it is shown, and forced.
    about : what it does, and where, in a line.
    silent : whether NumPy has nothing to warn of where it runs: then nobody need tell NumPy to ignore it.
    """

    name: ClassVar[str]
    about: ClassVar[str]

    def __init__(self, signature: Signature) -> None:
        self.signature, self.silent = signature, signature.on_gpu

    @staticmethod
    @abstractmethod
    def refuses(signature: Signature) -> str | None:
        """Return why it cannot run such products, or None: it may be slow, and may decline some numbers."""

    @property
    def cost(self) -> float:
        """Seconds that a product takes, of which the least is tried first; Inf where it never pays.

        0 where it was measured to be faster than whatever comes after it in the table.
        """
        return 0.0

    def declines(self, pair: Pair) -> str | None:
        """Return why it leaves a single product to others, as far as that shows beforehand, or None.

        The pair has its `bits`, if its accuracy is certified and it is on a CPU.
        """
        return None

    @abstractmethod
    def run(self, pair: Pair, out: Array) -> Outcome:
        """Write the product, or the (s, m, n) products of a stack, to `out`, contiguous memory.

        Numbers are of each of the four dtypes, wherever `refuses` says nothing else, Inf and NaN are among
        them, and results may overflow: they are rounded to the request's target, to Inf if need be. What
        numbers do not allow is declined.
        """


def no_compiled_code(signature: Signature) -> str | None:
    """Return why code compiled for CPUs does not take such products, or None."""
    request = signature.request
    if signature.on_gpu:
        return "it computes on a CPU"
    if not (isinstance(request.engine, Host) and request.engine.name == Host.name):
        return f"engine {request.engine.name!r} multiplies by itself"
    if request.scheme != "auto" or request.word is not None:
        return "a scheme or a word is asked for by name"
    return None if signature.compiled else "numba does not compile"


def beyond(pair: Pair, most: int) -> str | None:
    """Return why code for level factors, and integers wider by up to `most` bits, declines, or None."""
    if pair.request.certified:
        assert pair.bits is not None
        return None if 0 <= pair.bits <= most else UNLEVEL
    exponents = (x.statistics.exponent for x in (pair.a, pair.b))
    return UNLEVEL if any((x == NONFINITE).any() for x in exponents) else None


def is_extreme(pair: Pair) -> bool:
    """Return whether there is an Inf or NaN, or a row of extreme size."""
    exponents = np.concatenate([x.statistics.exponent for x in (pair.a, pair.b)])
    return bool((np.abs(exponents[exponents != ZERO]) > FURTHEST).any())


def goes_together(signature: Signature) -> bool:
    """Return whether this is one product, or a stack of products too small to keep a device busy alone."""
    most = LARGEST_IN_A_STACK_ON_DEVICE if signature.on_gpu else LARGEST_IN_A_STACK
    return signature.stack == 1 or math.prod(signature.shape) <= most
