"""Executor "steps": the steps of a product one after the other, in panels where memory is short.

It takes every single product, and is what all others are compared with.
"""

from __future__ import annotations

from multiword.runtime.arrays import Array
from multiword.runtime.memory import ResultTooLarge, check_room, empty_result, in_less_memory
from ozaki.execution.cache import forget
from ozaki.execution.contract import DONE, MUCH, Done, Executor
from ozaki.product import steps
from ozaki.product.cost import warn_of_cost
from ozaki.product.pair import Pair, Signature
from ozaki.product.scale import scale, scaled_by_counting


class Steps(Executor):
    """The steps of `ozaki.product.steps`."""

    name = "steps"
    about = "scale, certificate, split, multiply, reconstruct, one after the other, in panels if need be"

    @staticmethod
    def refuses(signature: Signature) -> str | None:
        return None if signature.stack == 1 else "the products of a stack are run one by one"

    @property
    def cost(self) -> float:
        return MUCH

    def run(self, pair: Pair, out: Array) -> Done:
        request = pair.request

        def work(workspace: int) -> None:
            smaller = workspace < request.workspace
            step_by_step(
                pair._replace(request=request._replace(workspace=workspace)) if smaller else pair, out
            )

        in_less_memory(work, request.workspace, lambda: _give_back(pair))
        return DONE


def step_by_step(pair: Pair, out: Array) -> None:
    """Write RN(AB) to the request's accuracy to `out`."""
    scaled = None if pair.bits == -1 else scaled_by_counting(pair)
    if scaled is None:
        pair, scaled, _ = scale(pair)
        if isinstance(pair.request.accuracy, str):
            warn_of_cost(scaled.scheme, steps.norm_scheme(pair), pair.request.accuracy)
    steps.execute(pair, scaled, out)
    if scaled.nonfinite:
        steps.overwrite_nonfinite(pair.a.parts, pair.b.parts, scaled.scales, out)


def new_result(pair: Pair) -> Array:
    """Return memory for the result of a pair."""
    like, shape = pair.a.matrix, pair.result_shape
    try:
        return empty_result(like, shape, like.dtype)
    except ResultTooLarge:
        check_room(like, shape, like.dtype)  # raises what no memory of ours would help
        _give_back(pair)
        return empty_result(like, shape, like.dtype)


def _give_back(pair: Pair) -> None:
    """Give back the memory of all graphs, and of the words of both factors."""
    forget()
    pair.a.forget_split()
    pair.b.forget_split()
