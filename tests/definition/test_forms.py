"""Compiled forms and CUDA kernels state which function they equal; comparisons follow from that.

`EQUALS` of a `*_numba.py` names, for each function that Python calls, a function of `ozaki.definition`, and
its signature says which dtypes and shapes it takes. `comparisons` has what compares the library with each of
these functions, on random, special and extreme arguments, and must reach every form that states it.
"""

import ast
from collections import defaultdict
from contextlib import ExitStack
from functools import cache
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import ozaki
from multiword.runtime.compiled import numpy_forms
from tests.definition.comparisons import COMPARISONS, compare
from tests.multiword.runtime.test_kernels_compile import KERNELS  # all of which it has declared

ROOT = Path(ozaki.__file__).parents[1]
FOLDERS = ("scaling", "certificate", "rounding", "residues", "sums", "sparse")
SOURCES = [path for folder in FOLDERS for path in sorted((ROOT / "ozaki" / folder).rglob("*_numba.py"))]
LOOPS = "ozaki.sums.exact.loops_numba"


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def statements(path):
    """What a source states, by form; nothing is imported for it."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "EQUALS":
            return ast.literal_eval(node.value)
    return {}


def forms(path):
    """The functions of a source that Python calls: compiled ones that are not inner, and loops of sums."""
    functions = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    if "sums" in path.relative_to(ROOT).parts:
        loops = {function.__name__ for function in import_module(LOOPS).SIGNATURES}
        return {f.name for f in functions} & loops
    return {f.name for f in functions for d in f.decorator_list if _outer(d)}


def _outer(decorator):
    called = isinstance(decorator, ast.Call) and decorator.func.id in ("jit", "of_kinds")
    return called and not any(keyword.arg == "inner" for keyword in decorator.keywords)


STATED = defaultdict(list)
for source in SOURCES:
    for form, equal in statements(source).items():
        STATED[equal].append((module_of(source), form))
FORMS = [(*form, equal) for equal in STATED for form in STATED[equal]]


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_every_form_states_what_it_equals(path):
    pytest.importorskip("numba")
    assert statements(path).keys() == forms(path)


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_every_kernel_states_what_it_equals(kernel):
    """A function of the definition, unless the step has none: of models, leaves of factorizations, words."""
    module, _, name = kernel.equals.rpartition(".")
    assert callable(getattr(import_module(module), name))
    elsewhere = ("multiword.", "numpy.") if kernel.file.is_relative_to(ROOT / "multiword") else ()
    assert kernel.equals.startswith(("ozaki.definition.", *elsewhere)) or kernel.name in OF_THEIR_OWN


OF_THEIR_OWN = {
    "add_scaled",
    "bidiagonalize",
    "cholesky_leaf",
    "combine",
    "lower_leaf",
    "lu_panel",
    "qr_panel",
    "qr_triangle",
    "random_numbers",
    "rotate",
    "tridiagonalize",
}
"""Kernels of ozaki's that equal a form of their own module for arrays on the host."""


def variants(module, form):
    """The compiled functions of a form, by what tells them apart: the dtypes of their arrays."""
    if module.startswith("ozaki.sums."):
        loops = import_module(LOOPS)
        return {t: loops.loop(getattr(loops, form), np.dtype(t)) for t in _dtypes(loops, form)}
    function = getattr(import_module(module), form)
    return function if isinstance(function, dict) else {"": function}


def _dtypes(loops, form):
    """Those for which a loop has a signature of its own."""
    of = {}
    for dtype in ("float64", "float32"):
        x = [loops.Array(loops.from_dtype(np.dtype(dtype)), ndim, "C", readonly=True) for ndim in range(4)]
        of.setdefault(str(loops.SIGNATURES[getattr(loops, form)](x, x)), dtype)
    return of.values()


@cache
def reached(equal):
    """Compare with a function of the definition, and return what has been called: (module, form, variant)."""
    found, loops = set(), import_module(LOOPS)

    def recorded(key, function):
        def call(*arguments):
            found.add(key)
            return function(*arguments)

        return call

    def loop(function, dtype, *arguments):
        found.add((function.__module__, function.__name__, dtype.name))
        return compiled_loop(function, dtype, *arguments)

    compiled_loop = loops.loop
    with ExitStack() as patches:
        patches.enter_context(patch.object(loops, "loop", loop))
        for module, form in STATED[equal]:
            if not module.startswith("ozaki.sums."):
                function, every = getattr(import_module(module), form), variants(module, form)
                calls = {variant: recorded((module, form, variant), one) for variant, one in every.items()}
                calls = calls if isinstance(function, dict) else calls[""]
                patches.enter_context(patch.object(import_module(module), form, calls))
        with numpy_forms():  # at whose end loops that have been asked for are asked for again
            pass
        compare(equal)
    return found


@pytest.mark.whole
@pytest.mark.parametrize(("module", "form", "equal"), FORMS)
@pytest.mark.filterwarnings("ignore")
def test_a_form_has_the_bits_of_the_definition_and_takes_nothing_else(module, form, equal):
    """Its signature is explicit: other dtypes than those that it names are no call at all."""
    pytest.importorskip("numba")
    page, function = equal.split(".")
    assert callable(getattr(import_module(f"ozaki.definition.{page}"), function))
    assert {(module, form, variant) for variant in variants(module, form)} <= reached(equal)
    for one in variants(module, form).values():
        one.ready()
        (signature,) = one.signatures
        for other in (np.float16, np.complex128):
            with pytest.raises(TypeError):
                one(*[np.zeros((1,) * getattr(x, "ndim", 1), other) for x in signature])


@pytest.mark.whole
@pytest.mark.parametrize("equal", sorted(COMPARISONS.keys() - STATED.keys()))
@pytest.mark.filterwarnings("ignore")
def test_what_no_compiled_form_states(equal):
    compare(equal)


@pytest.mark.gpu
@pytest.mark.parametrize("equal", [x for x in COMPARISONS if any(c.on_a_gpu for c in COMPARISONS[x])])
@pytest.mark.filterwarnings("ignore")
def test_kernels_have_the_bits_of_the_definition(equal):
    cupy = pytest.importorskip("cupy")
    assert any(kernel.equals == f"ozaki.definition.{equal}" for kernel in KERNELS.values()) or equal in STATED
    compare(equal, cupy.asarray, on_a_gpu=True)
