"""How a product is run: the table of executors, which of them a product takes, and alpha·R + beta·C in `out`.

An executor may decline a product when it has looked at the numbers. The next one then begins with all that
has been measured, and the last, `Steps`, takes everything.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, as_array, check_out, check_same_device, in_place_of, namespace
from multiword.runtime.floats import is_default
from multiword.runtime.memory import delivered, result_in
from multiword.runtime.options import check_choice, exactly, scalar
from multiword.runtime.scoped import Scoped, Within
from ozaki.combine import combine
from ozaki.execution.by_definition import Definition
from ozaki.execution.contract import Declined, Done, Executor, Outcome
from ozaki.execution.graph import Graph
from ozaki.execution.groups import Groups
from ozaki.execution.in_bytes import Bytes
from ozaki.execution.in_floats import Floats
from ozaki.execution.step_by_step import Steps, new_result
from ozaki.product.factor import Factor
from ozaki.product.order import exclusive_use
from ozaki.product.pair import Pair, Signature
from ozaki.product.request import Request, forced
from ozaki.public import public

EXECUTORS: tuple[type[Executor], ...] = (
    Floats,
    Bytes,
    Graph,
    Groups,
    Steps,
    Definition,
)
"""All ways to run a product, or a stack of products. Among equal costs the first is tried first."""


NAMES = tuple(executor.name for executor in EXECUTORS)


noted: Scoped[list[Pair] | None] = Scoped(None)
"""Where it is noted which products are run, if somebody asks (`ozaki.execution.repeated`)."""


@lru_cache(1024)
def chosen(signature: Signature) -> tuple[Executor, ...]:
    """Return the executors that such products are given to, the fastest first, or the one that is asked for.

    Those of a stack whose products are to be run one by one are none.
    """
    if (name := signature.request.executor) is not None:
        check_choice("executor", name, NAMES)
        return _only(next(x for x in EXECUTORS if x.name == name), signature)
    able = [executor(signature) for executor in EXECUTORS if executor.refuses(signature) is None]
    return tuple(sorted((x for x in able if x.cost < math.inf), key=lambda x: x.cost))


def _only(executor: type[Executor], signature: Signature) -> tuple[Executor, ...]:
    """Return the executor for such products, or nothing of a stack that it does not take together."""
    why = executor.refuses(signature)
    if why is None:
        return (executor(signature),)
    if signature.stack > 1:
        return ()
    m, k, n = signature.shape
    raise ValueError(f"executor {executor.name!r} cannot take this {m} x {k} x {n} product: {why}")


def foreseen(pair: Pair) -> tuple[str, dict[str, str]]:
    """Return the name of the executor that takes a product, and why each of the others does not.

    Whether a sum can be rounded for certain does not show before it is there: then the next one takes over.
    """
    signature, taken, others = pair.signature, "", dict[str, str]()
    for kind in EXECUTORS:
        if signature.request.executor is not None:
            others[kind.name] = f"{signature.request.executor!r} is asked for"
        elif (why := kind.refuses(signature)) is not None:
            others[kind.name] = why
        elif kind(signature).cost == math.inf:
            others[kind.name] = "it takes longer for products like this"
    for able in chosen(signature):
        if taken:
            others[able.name] = f"{taken!r} takes less time"
        elif (why := able.declines(pair)) is not None:
            others[able.name] = why
        else:
            taken = able.name
            others.pop(taken, None)
    return taken, others


def run(pair: Pair, out: Array, declined: tuple[type[Executor], ...] = ()) -> None:
    """Write the product, or those of a stack, to `out`; whoever has `declined` is not asked again.

    `Steps`, the last, takes every single product: the loop ends only for one that is asked for by name.
    """
    if noted.value is not None:
        noted.value.append(pair)
    for executor in chosen(pair.signature):
        if type(executor) in declined:
            continue
        outcome = _outcome_of(executor, pair, out)
        if isinstance(outcome, Done):
            return
        declined = *declined, type(executor)
        if finished(outcome, pair, out, declined):
            return
        pair, why = outcome.pair, outcome.why  # nothing is measured twice
    if pair.stack == 1:  # whoever is asked for by name has declined: `Steps` takes every product
        raise ValueError(f"executor {pair.request.executor!r} leaves this product to others: {why}")
    for i in range(pair.stack):  # none of them takes the stack
        out[i] = product(pair.one(i))


def run_again(pair: Pair, signature: Signature, out: Array) -> None:
    """Do what `run` does, for a single product of a known signature that no executor was named for."""
    first = chosen(signature)[0]
    outcome, declined = _outcome_of(first, pair, out), (type(first),)
    if isinstance(outcome, Declined) and not finished(outcome, pair, out, declined):
        run(outcome.pair, out, declined)


def _outcome_of(executor: Executor, pair: Pair, out: Array) -> Outcome:
    if executor.silent:
        return executor.run(pair, out)
    with np.errstate(all="ignore"):
        return executor.run(pair, out)


def finished(outcome: Declined, pair: Pair, out: Array, declined: tuple[type[Executor], ...]) -> bool:
    """Write what an executor has declined in part, or in favour of A·D and D⁻¹·B; return whether it has."""
    if outcome.pair.equilibrated and not pair.equilibrated:
        run(outcome.pair, out)  # A·D and D⁻¹·B are another product: everybody is asked
        return True
    if outcome.left is None:
        return False
    out[outcome.left] = _rest(outcome, declined)
    return True


@public("Plans and prepared operands")
def executor(name: str | None) -> Within[str | None]:
    """Return a context in which one executor runs every product of this thread, or none is named again.

    For debugging, tests and measurements: the bits are the same. `ozaki.plan` shows which executor a product
    takes by itself; the environment variable OZAKI_EXECUTOR names one for a whole process.

    Parameters
    ----------
    name : "floats", "bytes", "graph", "groups", "steps", "definition", or None.
        Products of a stack that it does not take together are run one by one.

    Returns
    -------
    A context manager. Inside, a product that the executor cannot take, or declines when it has seen the
    numbers, raises ValueError, which says why.

    Raises
    ------
    ValueError : an unknown name.

    References
    ----------
    None: it chooses among implementations of one definition.

    >>> import numpy as np, ozaki
    >>> a = np.random.default_rng(0).standard_normal((50, 50))
    >>> with ozaki.executor("steps"):
    ...     c = ozaki.matmul(a, a)
    >>> bool((c == ozaki.matmul(a, a)).all())
    True
    """
    if name is not None:
        check_choice("executor", name, NAMES)
    return forced.within(name)


def product(pair: Pair) -> Array:
    """Return the product in a new array, or the (s, m, n) products of a stack."""
    if pair.empty:
        return namespace(pair.a.matrix).zeros(pair.result_shape, pair.a.matrix.dtype)
    out = new_result(pair)
    run(pair, out)
    return out


def _rest(outcome: Declined, declined: tuple[type[Executor], ...]) -> Array:
    """Return the products of a stack that an executor has left to others."""
    rest = outcome.pair.part(outcome.left)
    like = rest.a.matrix
    out = namespace(like).empty((rest.stack, rest.shape[0], rest.shape[2]), like.dtype)
    if outcome.singly or rest.stack == 1:
        for i in range(rest.stack):
            out[i] = product(rest.one(i))
    else:
        run(rest, out, declined)
    return out


def multiply(
    a: Factor, b: Factor, alpha: complex, beta: complex | None, c: Any, request: Request, out: Array | None
) -> Array:
    """Return alpha·R + beta·C, every step rounded once; in `out`, where a GPU may compute it at once."""
    return multiply_pair(Pair.of(a, b, request), alpha, beta, c, out)


def multiply_pair(pair: Pair, alpha: complex, beta: complex | None, c: Any, out: Array | None) -> Array:
    """Return what `multiply` does, of factors whose relation is known."""
    a, b, like, shape = pair.a, pair.b, pair.a.matrix, (pair.a.rows, pair.b.rows)
    addend = None
    if not (type(alpha) is float and alpha == 1.0 and beta is c is None):  # seldom
        if beta is None and c is not None:
            raise ValueError("c is given, but not its factor: add beta=1.0, or another number")
        alpha, given = scalar("alpha", alpha, like.dtype), 0.0 if beta is None else beta
        beta = scalar("beta", given, like.dtype)
        read = given != 0  # where it is rounded to 0, too
        addend = _addend(c, like, shape) if read else None
    if out is not None:
        check_out(out, like, shape, like.dtype)
    if not a.on_gpu and is_default():  # nearly always, on a CPU
        return _combined(pair, alpha, addend, beta, out)
    operands = (like, b.matrix) if addend is None else (like, b.matrix, addend)
    with in_place_of(like), exclusive_use(a.order, b.order), result_in(out, *operands):
        return _combined(pair, alpha, addend, beta, out)


def _combined(pair: Pair, alpha: Any, addend: Array | None, beta: Any, out: Array | None) -> Array:
    result = product(pair)
    combine(result, alpha, addend, beta)
    return delivered(result, out)


def _addend(c: Any, like: Array, shape: tuple[int, int]) -> Array:
    if c is None:
        raise ValueError("c must be given when beta is not 0")
    c = as_array(c, "c")
    check_same_device(a=like, c=c)
    if c.shape != shape:
        raise ValueError(f"c must be of shape {shape}, got {c.shape}")
    return exactly("c", c, like.dtype)
