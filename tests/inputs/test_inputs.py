"""Every public function on every kind of input comes to what the table in `inputs` says."""

import re
import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import multiword
import multiword.probe
import ozaki
from tests.docs.reference import with_records
from tests.fuzz.draw import difference
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
    missing,
    plain_input,
    skipped,
)
from tests.inputs import page as inputs_page
from tests.inputs.classes import cells_of_classes
from tests.inputs.extras import PACKAGES, missing_package, public_names
from tests.precision import double_precision_in_jax


@pytest.fixture(autouse=True)
def double_precision():
    """Computations of ours come back to JAX in other threads."""
    if "jax" not in PACKAGES.values() or not find_spec("jax"):
        yield
        return
    with double_precision_in_jax():
        yield


def results_of(x: Any) -> list:
    """A result as arrays, strings and bytes."""
    if isinstance(x, list | tuple):
        return [part for each in x for part in results_of(each)]
    if isinstance(x, ozaki.Plan | multiword.Plan):
        return [repr(x)]
    if hasattr(x, "slices"):
        return [*x.slices, *x.exponents, str(x.bits)]
    if hasattr(x, "compute"):
        return [x.compute(scheduler="synchronous")]
    if hasattr(x, "detach"):
        return [x.detach().resolve_conj().resolve_neg().numpy()]
    return [np.asarray(x)] if isinstance(x, float | int | complex) else [x]


def check_error(error: Exception, outcome: Outcome) -> None:
    assert outcome.result in [kind.__name__ for kind in type(error).__mro__], (
        error
    )  # AxisError is a ValueError
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
        wanted = function.call(function.plain(plain_input(function, kind)))
    for one, other in zip(results_of(got), results_of(wanted), strict=True):
        assert type(one) is type(other) or kind.package
        assert one == other if isinstance(other, str | bytes) else difference(one, other) is None


CELLS = cells_of_classes()


@pytest.mark.whole
@pytest.mark.parametrize(("function", "kind"), [pytest.param(f, k, id=f"{f} {k.name}") for f, k in CELLS])
def test_the_table_holds(function, kind):
    """In a cell of each class of functions and kinds."""
    if package := missing(function, kind):
        pytest.skip(f"needs {package}")
    check_cell(function, kind)


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS, ids=str)
def test_the_whole_table_holds(function):
    """Every kind that the installed packages can make."""
    wrong = {}
    for kind in function.kinds:
        if skipped(function, kind) or missing(function, kind):
            continue
        try:
            check_cell(function, kind)
        except Exception as error:
            wrong[kind.name] = error
    assert not wrong


def test_classes_have_every_function_and_every_kind():
    assert {str(function) for function, _ in CELLS} == set(map(str, FUNCTIONS))
    assert {kind for _, kind in CELLS} == {kind for function in FUNCTIONS for kind in function.kinds}


@pytest.mark.parametrize("name", WIDE_INTEGERS)
def test_integers_beyond_doubles_are_exact_or_refused(name):
    outcome, call = WIDE_INTEGERS[name]
    if package := missing_package(name):
        pytest.skip(f"needs {package}")
    if outcome == SAME:
        assert np.all(np.asarray(call()) == 1)
    else:
        with pytest.raises(TypeError, match="integers"):
            np.asarray(call())  # what is lazy is refused when it is computed


def test_every_function_of_integers_has_its_wide_ones():
    taking = {f.name for f in FUNCTIONS if holds_dtype(f.holds, np.dtype(np.int64))}
    assert taking == set(WIDE_INTEGERS) | HALF_BY_NATURE


WITHIN_MULTIWORD = {"multiword.probe": multiword.probe, "multiword.batched": multiword.batched}
MODULES = (
    *(
        "ozaki",
        "ozaki.linalg",
        "ozaki.linalg.verified",
        "ozaki.mpi",
        "ozaki.random",
        "ozaki.sparse",
        "ozaki.sparse.linalg",
        "ozaki.dask.flox",
        "ozaki.cupy",
        "multiword",
    ),
    *WITHIN_MULTIWORD,
    *PACKAGES,
)


def is_alias(module: str, name: str) -> bool:
    """Whether `multiword` has the same under that name."""
    own = getattr(WITHIN_MULTIWORD.get(module), name, None)
    return own is not None and own is getattr(multiword, name, None)


def test_every_public_function_of_arrays_is_in_the_table():
    """Installed or not: names of `ozaki.torch` and the like are read from their source."""
    public = {
        f"{module}.{name}"
        for module in MODULES
        for name in public_names(module)
        if not is_alias(module, name)
    }
    assert public == {f.name for f in FUNCTIONS} | NO_ARRAYS
    assert not {f.name for f in FUNCTIONS} & NO_ARRAYS


def test_these_modules_are_the_public_ones():
    """Those of the reference and of the development page."""
    root = inputs_page.PAGE.parent
    reference = "".join(with_records(path.read_text()) for path in (root / "reference").glob("*.md"))
    assert {name.rpartition(".")[0] for name in re.findall(r"^::: (\S+)$", reference, re.M)} == set(MODULES)
    said = (root / "development.md").read_text().split("Public names are those in")[1].split("CUDA is in")[0]
    assert set(re.findall(r"`([\w.]+)`", said)) - {"__init__.py"} == set(MODULES)


def test_the_page_is_what_the_table_says():
    assert inputs_page.PAGE.read_text() == inputs_page.page(), "run python -m tests.inputs.page"
