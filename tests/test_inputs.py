"""Every public function on every kind of input comes to what the table in `inputs` says."""

import re
import warnings
from typing import Any

import numpy as np
import pytest

import multiword
import ozaki
from tests.fuzz.draw import difference
from tests.input_kinds import KINDS
from tests.inputs import (
    FUNCTIONS,
    NO_ARRAYS,
    SAME,
    SELF_OR_REFUSED,
    WIDE_INTEGERS,
    Outcome,
    expected,
    made_input,
    markdown,
    plain_input,
    skipped,
)

FAILING: list[tuple[str, str]] = [
    (
        "Dask array; Decimal; None; PyTorch tensor; array of Decimal; array of Fraction; array of objects; "
        "complex; dates; longdouble; masked array with masked elements; pandas Series or DataFrame; "
        "scipy.sparse matrix; strings; structured array; xarray DataArray",
        "multiword.join(words) multiword.underflow_counts(x)",
    ),
    (
        "Python float; Python int; bool; float64; int32; int8; list of floats; masked array, nothing masked; "
        "memoryview",
        "multiword.join(words)",
    ),
    ("bfloat16; float16", "ozaki.prepare(x)"),
    ("int64 beyond 2**53", "ozaki.mukunoki_dgemm"),
]
"""What is not yet as the table says: kinds of input, and the functions concerned ("*" all, but for those
after a "-"). Mend it, and it has to go from here."""


def results_of(x: Any) -> list:
    """A result as arrays, strings and bytes."""
    if isinstance(x, list | tuple):
        return [part for each in x for part in results_of(each)]
    if isinstance(x, ozaki.Plan | multiword.Plan):
        return [repr(x)]
    if hasattr(x, "slices"):
        return [*x.slices, *x.exponents, str(x.bits)]
    return [np.asarray(x)] if isinstance(x, float | int | complex) else [x]


def check_error(error: Exception, outcome: Outcome) -> None:
    wanted = "TypeError" if outcome.result == SELF_OR_REFUSED else outcome.result
    assert type(error).__name__ == wanted, error
    assert re.search(outcome.message, str(error)), f"{error} does not say {outcome.message}"


def check_cell(function, kind) -> None:
    outcome = expected(function, kind)
    given = made_input(function, kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            got = function.call(given)
        except (TypeError, ValueError) as error:
            check_error(error, outcome)
            return
        if outcome.result == SELF_OR_REFUSED:
            assert not any(isinstance(x, np.ndarray | np.generic) for x in results_of(got))
            return
        assert outcome.result == SAME, f"returned {got!r}"
        wanted = function.call(plain_input(function, kind))
    for one, other in zip(results_of(got), results_of(wanted), strict=True):
        assert type(one) is type(other)
        assert one == other if isinstance(other, str | bytes) else difference(one, other) is None


CELLS = [(f, k) for f in FUNCTIONS for k in KINDS if not skipped(f, k)]


def listed(kinds: str, functions: str) -> set[tuple[str, str]]:
    """The cells of one entry of FAILING."""
    cells = set()
    for kind in kinds.split("; "):
        names = functions.split()
        if names[0] == "*":
            names = [str(f) for f, k in CELLS if k.name == kind and f"-{f}" not in names]
        cells |= {(kind, name) for name in names}
    return cells


KNOWN = set().union(*(listed(*entry) for entry in FAILING))


def mark(kind: str, function: str) -> list:
    return [pytest.mark.xfail(strict=True)] * ((kind, function) in KNOWN)


@pytest.mark.parametrize(
    ("function", "kind"),
    [pytest.param(f, k, id=f"{f} {k.name}", marks=mark(k.name, str(f))) for f, k in CELLS],
)
def test_the_table_holds(function, kind):
    check_cell(function, kind)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=mark("int64 beyond 2**53", n)) for n in WIDE_INTEGERS],
)
def test_integers_beyond_doubles_are_exact_or_refused(name):
    try:
        got = WIDE_INTEGERS[name]()
    except TypeError:
        return
    assert np.all(np.asarray(got) == 1), got


def test_every_public_function_of_arrays_is_in_the_table():
    public = {f"{package.__name__}.{name}" for package in (ozaki, multiword) for name in package.__all__}
    assert public == {f.name for f in FUNCTIONS} | NO_ARRAYS
    assert not {f.name for f in FUNCTIONS} & NO_ARRAYS


def test_the_list_of_failures_names_cells():
    cells = {(k.name, str(f)) for f, k in CELLS} | {("int64 beyond 2**53", name) for name in WIDE_INTEGERS}
    assert cells >= KNOWN
    assert sum(len(listed(*entry)) for entry in FAILING) == len(KNOWN)


def test_the_table_as_markdown():
    text = markdown()
    assert all(f"`{f}`" in text for f in FUNCTIONS)
    assert all(f"| {k.name} |" in text for k in KINDS)
