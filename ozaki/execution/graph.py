"""Executor "graph": products on a GPU that come again, replayed as CUDA graphs (`captured`, `cache`)."""

from __future__ import annotations

import math

from multiword.engines import reduces_residues
from multiword.engines.cublas import Cublas
from multiword.runtime.arrays import Array
from ozaki.execution.cache import captured_product, may_have_graph
from ozaki.execution.contract import NO_ROOM, Declined, Executor, Outcome, goes_together
from ozaki.product.pair import Pair, Signature


class Graph(Executor):
    """Products of one signature that are replayed."""

    name = "graph"
    about = "a CUDA graph of all steps, from the second such call on (GPU)"

    @staticmethod
    def refuses(signature: Signature) -> str | None:
        if not signature.on_gpu:
            return "it computes on a GPU"
        if not isinstance(signature.request.engine, Cublas):
            return f"engine {signature.request.engine.name!r} multiplies by itself"
        return None if signature.request.of_norms else "what it launches would depend on the numbers"

    def __init__(self, signature: Signature) -> None:
        super().__init__(signature)
        # Half of the panels would be launched one by one.
        self._halves = reduces_residues(signature.request.engine, "int8", signature.shape)

    @property
    def cost(self) -> float:
        return 0.0 if goes_together(self.signature) else math.inf

    def declines(self, pair: Pair) -> str | None:
        return None if may_have_graph(pair) else "it has no graph, or none before the second such call"

    def run(self, pair: Pair, out: Array) -> Outcome:
        halved = pair if self._halves else pair._replace(symmetric=False)
        captured = captured_product(halved, at_once=pair.request.executor is not None)
        if captured is None:
            return Declined(pair, "it has no graph, or none yet")
        try:
            outcome = captured.run(halved, out.reshape(-1, out.shape[-1]))
        except MemoryError:
            return Declined(pair, NO_ROOM)
        if isinstance(outcome, Declined) and outcome.pair is halved:
            return outcome._replace(pair=pair)
        return outcome
