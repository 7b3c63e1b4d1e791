"""Compiled forms and CUDA kernels state which function they equal; comparisons follow from that.

`EQUALS` of a `*_numba.py` names, for each function that Python calls, a function of `ozaki.definition`. For
each of these one comparison runs through the library, on random, special and extreme arguments, and must
reach every form that states it. Kernels are compared on a GPU (`tests/gpu`); here what they state must be
there.
"""

import ast
from collections import defaultdict
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import ozaki
from multiword.engines.moduli import residue_system
from multiword.formats import FORMATS
from ozaki.certificate.counted import counted_scales
from ozaki.definition import decision, remainders, rounding, scales, statistics, sums
from ozaki.residues.split import residues
from ozaki.rounding.digits import round_digits
from ozaki.scaling.scales import norm_limit
from ozaki.scaling.statistics import row_statistics
from ozaki.sums.exact import groups
from tests.definition.test_products import DRAWN
from tests.definition.test_sums import TERMS, same
from tests.multiword.runtime.test_kernels_compile import KERNELS  # all of which it has declared
from tests.residues.test_reconstruct import residues_of

ROOT = Path(ozaki.__file__).parents[1]
FOLDERS = ("scaling", "certificate", "rounding", "residues", "sums")
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
    if "sums" in path.parts:
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
    "combine",
    "random_words",
    "lu_panel",
    "lower_leaf",
    "cholesky_leaf",
    "qr_panel",
    "qr_triangle",
}
"""Kernels of ozaki's that equal a form of their own module for arrays on the host."""


@pytest.mark.parametrize(
    ("module", "form"), [x for equal in STATED for x in STATED[equal] if ".sums." not in x[0]]
)
def test_forms_refuse_what_they_do_not_take(module, form):
    """Their signatures are explicit: other dtypes than those they name are no call at all."""
    pytest.importorskip("numba")
    function = getattr(import_module(module), form)
    variants = function.values() if isinstance(function, dict) else (function,)
    assert not isinstance(function, dict) or "float16" not in function
    for one in variants:
        (signature,) = one.signatures
        for other in (np.float16, np.complex128):
            with pytest.raises(TypeError):
                one(*[np.zeros((1,) * getattr(x, "ndim", 1), other) for x in signature])


@pytest.mark.parametrize(
    "form", [form for equal in STATED for module, form in STATED[equal] if ".sums." in module]
)
def test_loops_refuse_what_they_do_not_take(form):
    pytest.importorskip("numba")
    loops = import_module(LOOPS)
    one = loops.loop(getattr(loops, form), np.dtype(np.float64))
    (signature,) = one.signatures
    with pytest.raises(TypeError):
        one(*[np.zeros((1,) * getattr(x, "ndim", 1), np.complex128) for x in signature])


@pytest.fixture
def reached(monkeypatch):
    """The forms that are called from here on: (module, name)."""
    pytest.importorskip("numba")
    found, loops = set(), import_module(LOOPS)

    def recorded(key, function):
        def call(*arguments):
            found.add(key)
            return function(*arguments)

        if isinstance(function, dict):
            return {name: recorded(key, one) for name, one in function.items()}
        return call

    def loop(function, *arguments):
        found.add((function.__module__, function.__name__))
        return compiled_loop(function, *arguments)

    compiled_loop = loops.loop
    monkeypatch.setattr(loops, "loop", loop)
    for stated in STATED.values():
        for module, form in stated:
            if ".sums." not in module:
                owner = import_module(module)
                monkeypatch.setattr(owner, form, recorded((module, form), getattr(owner, form)))
    return found


def compare_statistics(rng, draw):
    for k in (1, 16, 300):
        x = draw(rng, rng.standard_normal((5, k)))
        found = row_statistics([x])
        for i, row in enumerate(x.tolist()):
            if (expected := statistics.statistics_of(row)) is not None:
                counts = tuple(found.counts[:, i].tolist())
                assert (found.exponent[i], found.total[i], found.square[i], counts) == expected
            else:
                assert found.square[i] == 0


def compare_counting(rng, draw):
    for k in (1, 16, 60):
        a, b = (draw(rng, rng.standard_normal((3, k))) for _ in range(2))
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            continue
        found = row_statistics([np.concatenate([a, b])])
        sums_ = found.exponent, found.total, found.square, found.counts
        limit = scales.limit_of("fp64", k)
        sides = tuple(decision.Side.of(x.tolist(), limit) for x in (a, b))
        scale, _, (bits,) = counted_scales(sums_, k, 1, 3, "fp64")
        tolerance = min(k / 2, 12 * k**0.5) * FORMATS["fp64"].unit_roundoff
        expected = decision.bits_for(decision.counting_error(sides, limit), tolerance, limit)
        assert bits == (expected if expected <= decision.WIDENED_BY_COUNTING else -1)
        assert (scale - max(bits, 0)).tolist() == sides[0].scales + sides[1].scales


def compare_pairwise(rng, draw):
    from ozaki.certificate.counting import _operand_host
    from ozaki.certificate.magnitudes import LARGEST, _split_host
    from ozaki.certificate.pairwise import _raise_host

    for k in (2, 16, 60):
        limit, statistics_, bounds, magnitudes = scales.limit_of("fp64", k), [], [], []
        a, b = (draw(rng, rng.standard_normal((3, k))) for _ in range(2))
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            continue
        sides = tuple(decision.Side.of(x.tolist(), limit) for x in (a, b))
        for x, side in zip((a, b), sides, strict=True):
            statistics_.append(row_statistics([x]))
            *_, rows = _operand_host(
                statistics_[-1], np.array(side.scales, np.int32), norm_limit(FORMATS["fp64"], k).bits // 2, 1
            )
            bounds.append(rows)
            cut = np.zeros((3, k), np.float32)
            _split_host([x], rows.truncation_scale, cut, k)
            assert cut.max() <= LARGEST
            magnitudes.append(cut.astype(np.float64))
        largest = np.zeros(2)
        with np.errstate(all="ignore"):
            _raise_host((magnitudes[0] @ magnitudes[1].T)[None, None], tuple(bounds), k, largest)
        assert largest[0] == decision.pairwise_error(sides, 1, limit)


def compare_rounding(rng, _):
    for name in ("fp64", "fp32"):
        for length, base in ((1, 30), (2, 30), (3, 60), (9, 32)):
            digits = rng.integers(-(1 << base), 1 << base, (length, 50))
            digits[: length // 2, ::3] = 0
            digits[:, 0] = 0
            for exponent in (0, -1074, -1120, 900, int(rng.integers(-300, 300))):
                with np.errstate(all="ignore"):
                    found = round_digits(digits, base, exponent, FORMATS[name]).astype(FORMATS[name].dtype)
                for column, value in zip(digits.T.tolist(), found, strict=True):
                    whole = sum(x << (base * i) for i, x in enumerate(column))
                    assert value == rounding.nearest(whole * Fraction(2) ** exponent, FORMATS[name])


def compare_split(rng, draw):
    system = residue_system("fp64", 100, 16)
    x = draw(rng, rng.standard_normal((4, 16)))
    x = x[np.isfinite(x).all(axis=1)]
    if not len(x):
        return
    limit = [0 if not row.any() else 40 - int(np.frexp(np.abs(row).max())[1]) for row in x]
    found = residues([x], np.array(limit, np.int32), system, 1, False, 40)[0]
    for t, p in enumerate(system.moduli):
        for i, row in enumerate(x.tolist()):
            for h, value in enumerate(row):
                integer = round(Fraction(value) * Fraction(2) ** limit[i])
                assert (int(found[t, i, h]) - remainders.symmetric_residue(integer, p)) % p == 0
                assert 2 * abs(found[t, i, h]) <= p


def compare_reconstruction(rng, _):
    from ozaki.residues.reconstruct import reconstruct

    system = residue_system("fp64", 100, 16)
    values = [
        int(v) << int(s) for v, s in zip(rng.integers(-9, 10, 60), rng.integers(0, 95, 60), strict=True)
    ]
    values += [(2**53 + 1 << 40) + d for d in (-1, 0, 1)]
    out, images = np.empty((1, len(values))), residues_of(values, system)
    scale = np.zeros(1, np.int32), np.zeros(len(values), np.int32)
    reconstruct(images, system, scale, FORMATS["fp64"], out)
    for value, got in zip(values, out[0], strict=True):
        whole = remainders.reconstructed([value % p for p in system.moduli], system.moduli)
        assert got == rounding.nearest(Fraction(whole))


def compare_sums(rng, draw):
    for n in (3, 40, 9000):
        x = draw(rng, n)
        assert same(ozaki.sum(x), sums.rounded_sum(x.tolist()))
        for axis in (0, 1):
            rows = np.stack([x, x[::-1]], axis=1 - axis)
            assert all(same(v, sums.rounded_sum(x.tolist())) for v in ozaki.sum(rows, axis=axis))
        total = ozaki.ExactSum()
        total.add(x)
        assert same(total.round(), sums.rounded_sum(x.tolist()))
        columns = ozaki.ExactSum(shape=(2,))
        columns.add(np.stack([x, x[::-1]], axis=1))
        assert all(same(v, sums.rounded_sum(x.tolist())) for v in columns.round())
    x = draw(rng, 60)
    for i, value in enumerate(ozaki.cumsum(x)):
        assert same(value, sums.rounded_sum(x[: i + 1].tolist()))
    labels = rng.integers(0, 5, len(x))
    with patch.object(groups, "GROUP_TERMS", 1):  # words are carried before every addition
        total = ozaki.ExactSum(shape=(5,))
        for part in (slice(0, 30), slice(30, 60)):
            total.add_groups(x[part], labels[part])
        for found in (ozaki.group_sum(x, labels, num_groups=5), total.round()):
            for g, value in enumerate(found):
                assert same(value, sums.rounded_sum(x[labels == g].tolist()))


def compare_dots(rng, draw):
    for n in (3, 40, 9000):
        x, y = draw(rng, n), TERMS["normal"](rng, n)
        assert same(ozaki.dot(x, y), sums.rounded_dot(x.tolist(), y.tolist()))
        assert same(ozaki.dot(x, x), sums.rounded_dot(x.tolist(), x.tolist()))
    csr_array = pytest.importorskip("scipy.sparse").csr_array
    for n in (3, 40):
        rows, x = np.stack([draw(rng, n) for _ in range(3)]), TERMS["normal"](rng, n)
        matrix = csr_array((rows.ravel(), np.tile(np.arange(n), 3), n * np.arange(4)))  # with its zeros
        expected = [sums.rounded_dot(row.tolist(), x.tolist()) + 0.0 for row in rows]
        for found in (ozaki.matmul(matrix, x), ozaki.matmul(x, matrix.T.tocoo())):
            assert np.array_equal(found, expected, equal_nan=True)


def compare_norms(rng, draw):
    for n in (3, 40, 3000):
        x = draw(rng, n)
        assert same(ozaki.norm(x), sums.rounded_norm(x.tolist()))
        assert same(ozaki.norm(np.stack([x, x]), axis=1)[1], sums.rounded_norm(x.tolist()))


COMPARISONS = {
    "statistics.statistics_of": (compare_statistics, DRAWN),
    "decision.counting_error": (compare_counting, DRAWN),
    "decision.pairwise_error": (compare_pairwise, DRAWN),
    "rounding.nearest": (compare_rounding, DRAWN),
    "remainders.symmetric_residue": (compare_split, DRAWN),
    "remainders.reconstructed": (compare_reconstruction, DRAWN),
    "sums.rounded_sum": (compare_sums, TERMS),
    "sums.rounded_dot": (compare_dots, TERMS),
    "sums.rounded_norm": (compare_norms, TERMS),
}


@pytest.mark.parametrize("equal", STATED)
@pytest.mark.filterwarnings("ignore")
def test_forms_have_the_bits_of_the_definition(equal, reached):
    page, function = equal.split(".")
    assert callable(getattr(import_module(f"ozaki.definition.{page}"), function))
    compare, kinds = COMPARISONS[equal]
    for kind, draw in kinds.items():
        compare(np.random.default_rng(len(kind)), draw)
    assert set(STATED[equal]) <= reached, set(STATED[equal]) - reached
