"""Executor "definition": the product as it is defined, in Python's integers (`ozaki.definition.products`)."""

from __future__ import annotations

import math

from multiword.runtime.arrays import Array
from ozaki.definition import products
from ozaki.execution.contract import DONE, Executor, Outcome
from ozaki.product.pair import Pair, Signature


class Definition(Executor):
    """Integers and fractions of Python: milliseconds for each element."""

    name = "definition"
    about = "the definition, a page of Python's integers: never by itself (CPU)"

    @staticmethod
    def refuses(signature: Signature) -> str | None:
        if signature.on_gpu:
            return "it computes on a CPU"
        return "it takes no stacks" if signature.stack > 1 else None

    @property
    def cost(self) -> float:
        return math.inf

    def run(self, pair: Pair, out: Array) -> Outcome:
        request = pair.request
        target = None if request.target is None else request.target.name
        out[...] = products.product(pair.a.matrix, pair.b.matrix, request.accuracy, target)
        return DONE
