"""Products by some of the executors alone."""

import numpy as np

from ozaki.execution import in_floats, thin
from ozaki.execution.contract import Done
from ozaki.execution.executors import chosen
from ozaki.execution.in_floats import Floats
from ozaki.execution.step_by_step import new_result
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair

COMPILED = "floats", "bytes"
"""Those that take all steps in compiled code."""


def by(names, a, b, request):
    """Return a product by executors of these names, or None, and the names of those that have declined."""
    pair, declined = Pair.of(Factor(a, 0), Factor(b, 1), request), []
    out = new_result(pair)
    with np.errstate(all="ignore"):
        for executor in chosen.__wrapped__(pair.signature):  # another test may have changed what is preferred
            if executor.name in names:
                outcome = executor.run(pair, out)
                if isinstance(outcome, Done):
                    return out, declined
                declined.append(executor.name)
                pair = outcome.pair
    return None, declined


def noted(monkeypatch, executor):
    """Return a list that says of each product from now on whether this executor computed it."""
    taken, run = [], executor.run

    def note(self, pair, out):
        outcome = run(self, pair, out)
        taken.append(isinstance(outcome, Done))
        return outcome

    monkeypatch.setattr(executor, "run", note)
    return taken


def preferred(monkeypatch, executor):
    """Have an executor asked first for whatever it can run."""
    monkeypatch.setattr(executor, "cost", -1.0)
    monkeypatch.setattr("ozaki.execution.executors.chosen", chosen.__wrapped__)


def row_by_row(monkeypatch):
    """Have single products multiplied in two floats where their rows lie, whatever their size."""
    preferred(monkeypatch, Floats)
    monkeypatch.setattr(in_floats, "_pays_by_rows", lambda *_: True)
    monkeypatch.setattr(thin, "LARGEST_TO_DECIDE", 0)
