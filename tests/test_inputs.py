"""Every public function on every kind of input comes to what the table in `inputs` says."""

import re
import warnings
from typing import Any

import numpy as np
import pytest

import multiword
import ozaki
from tests import inputs_page
from tests.fuzz.draw import difference
from tests.input_kinds import KINDS
from tests.inputs import (
    FUNCTIONS,
    HALF_BY_NATURE,
    NO_ARRAYS,
    SAME,
    WIDE_INTEGERS,
    Outcome,
    expected,
    holds_dtype,
    made_input,
    plain_input,
    skipped,
)


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
    assert type(error).__name__ == outcome.result, error
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
        assert outcome.result == SAME, f"returned {got!r}"
        wanted = function.call(plain_input(function, kind))
    for one, other in zip(results_of(got), results_of(wanted), strict=True):
        assert type(one) is type(other)
        assert one == other if isinstance(other, str | bytes) else difference(one, other) is None


CELLS = [(f, k) for f in FUNCTIONS for k in KINDS if not skipped(f, k)]


@pytest.mark.parametrize(("function", "kind"), [pytest.param(f, k, id=f"{f} {k.name}") for f, k in CELLS])
def test_the_table_holds(function, kind):
    check_cell(function, kind)


@pytest.mark.parametrize("name", WIDE_INTEGERS)
def test_integers_beyond_doubles_are_exact_or_refused(name):
    outcome, call = WIDE_INTEGERS[name]
    if outcome == SAME:
        assert np.all(np.asarray(call()) == 1)
    else:
        with pytest.raises(TypeError, match="integers"):
            call()


def test_every_function_of_integers_has_its_wide_ones():
    taking = {f.name for f in FUNCTIONS if holds_dtype(f.holds, np.dtype(np.int64))}
    assert taking == set(WIDE_INTEGERS) | HALF_BY_NATURE


def test_every_public_function_of_arrays_is_in_the_table():
    public = {f"{package.__name__}.{name}" for package in (ozaki, multiword) for name in package.__all__}
    assert public == {f.name for f in FUNCTIONS} | NO_ARRAYS
    assert not {f.name for f in FUNCTIONS} & NO_ARRAYS


def test_the_page_is_what_the_table_says():
    assert inputs_page.PAGE.read_text() == inputs_page.page(), "run python -m tests.inputs_page"
