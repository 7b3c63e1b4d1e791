"""Elementary functions are correctly rounded, and the same numbers by every road to them."""

import json
from fractions import Fraction
from math import inf, nan
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ozaki
from multiword.rounding import round_to
from multiword.runtime import sources
from multiword.runtime.compiled import numpy_forms
from ozaki.elementary.api import apply
from ozaki.elementary.evaluate import _interpreted, _run, by_integers
from ozaki.elementary.record import FUNCTIONS
from ozaki.elementary.rounding import beside_text, by_text, decided, rounded
from tests.elementary.references import REFERENCES, mp, nearest
from tests.exhaustive import SAMPLE, compare

RESULTS = Path(__file__).parents[2] / "benchmarks/results/elementary_h200.json"
ON_A_GPU = {entry["function"]: entry for entry in json.loads(RESULTS.read_text())["results"]}
NAMES = sorted(name for name, f in FUNCTIONS.items() if f.arguments == 1)
LOOPS = "ozaki.elementary.loops_numba"


def ordinary(name, n, seed=0):
    """Arguments of a function's ordinary range, from tiny to large."""
    rng = np.random.default_rng(seed)
    low, high = max(FUNCTIONS[name].low, -700), min(FUNCTIONS[name].high, 700)
    x = np.concatenate(
        [
            rng.uniform(max(low, -30), min(high, 30), n),
            np.exp2(rng.uniform(-45, 9.4, n)) * rng.choice([-1, 1], n),
            1 + rng.choice([-1, 1], n) * np.exp2(rng.uniform(-52, -1, n)),
        ]
    )
    return x[(x >= low) & (x <= high)]


@pytest.mark.parametrize("of_single", [False, True])
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_what_a_gpu_leaves_out_of_texts_stands_beside_them(name, of_single):
    """By the first text, or beside it, or by the longer text, or undecided: the same as all in one."""
    function, rng = FUNCTIONS[name], np.random.default_rng(3)
    ends = [float(x) for x in (function.low, function.high) if abs(x) < inf]
    x = np.array(
        [*SPECIAL, *ends, *np.nextafter(ends, -inf), *np.nextafter(ends, inf), *rng.uniform(-9, 9, 50)]
    )
    arguments = [z.ravel() for z in np.meshgrid(*[x] * function.arguments)]
    if of_single:
        with np.errstate(over="ignore"):
            arguments = [a.astype(np.float32).astype(np.float64) for a in arguments]
    with np.errstate(all="ignore"):
        value, doubt = by_text(function, of_single, False, *arguments)
        other, beside = beside_text(function, of_single, np.full(value.shape, 7.25), *arguments)
        longer, still = by_text(function, of_single, True, *arguments)
        (first, open_), (last, left) = (rounded(function, of_single, x, *arguments) for x in (False, True))
        expected, left = np.where(open_, last, first), open_ & left
        ours = np.where(beside, other, np.where(doubt, longer, value))
        ours, expected = (y.astype(np.float32 if of_single else np.float64) for y in (ours, expected))
    missing = np.logical_or.reduce([np.isnan(a) for a in arguments])
    outside = (arguments[0] < function.low) | (arguments[0] > function.high) | missing
    assert not (outside & ~beside).any()
    assert (other[~beside] == 7.25).all()
    assert ((doubt & still & ~beside) == left).all()
    assert ours[~left].tobytes() == expected[~left].tobytes()


def test_compiled_functions_are_kept_for_their_texts(monkeypatch):
    """A change of a function's module changes what numba's files are stamped with."""
    source, before = sources._source, sources.digest_of([LOOPS])
    for changed in {function.text.__module__ for function in FUNCTIONS.values()}:
        with monkeypatch.context() as patch:
            other = {changed: source(changed) + "# changed"}
            patch.setattr(sources, "_source", lambda name, other=other: other.get(name) or source(name))
            assert sources.digest_of([LOOPS]) != before


def bits(x):
    return np.ascontiguousarray(x).view(f"u{x.itemsize}")


@pytest.mark.parametrize("name", NAMES)
def test_float64_against_mpmath(name):
    x = ordinary(name, 60)
    with mp.workprec(400):
        exact = [nearest(REFERENCES[name].exact(mp.mpf(float(v))), np.float64) for v in x]
    assert (bits(apply(name, x)) == bits(np.array(exact))).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_of_all_float32(name):
    tally = compare(name, np, SAMPLE)
    assert tally.total > 4000
    assert tally.wrong == 0
    if "sample" in ON_A_GPU.get(name, ()):
        assert f"{tally.mixed:016x}" == ON_A_GPU[name]["sample"]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_numpy_runs_a_text_with_the_bits_of_the_compiled_loop(name, last):
    for dtype in (np.float32, np.float64):
        x = np.concatenate([ordinary(name, 80, seed=1), SPECIAL]).astype(dtype)
        outs, doubts = [np.empty_like(x) for _ in range(2)], [np.empty(len(x), np.uint8) for _ in range(2)]
        for run, out, doubt in zip((_run, _interpreted), outs, doubts, strict=True):
            run(name, dtype == np.float32, last)(x, out, doubt)
        assert (bits(outs[0]) == bits(outs[1])).all()
        assert (doubts[0] == doubts[1]).all()


SPECIAL = np.array(
    [0.0, -0.0, inf, -inf, nan, 1.0, -1.0, 5e-324, -5e-324, 2.0**-1022, 1.7e308, -1.7e308, 0.5]
)


@pytest.mark.parametrize("name", [n for n in NAMES if hasattr(np, n)])
def test_special_values_are_numpys(name):
    with np.errstate(all="ignore"):
        theirs = getattr(np, name)(SPECIAL)
    ours = apply(name, SPECIAL)
    fixed = np.isnan(theirs) | np.isinf(theirs) | (theirs == 0)
    assert (bits(ours[fixed]) == bits(np.where(np.isnan(theirs), nan, theirs)[fixed])).all()
    assert not (np.isnan(ours[~fixed]) | np.isinf(ours[~fixed])).any()


OTHERS = {
    "exp10": [(inf, inf), (-inf, 0.0), (0.0, 1.0), (2.0, 100.0), (400.0, inf), (-400.0, 0.0)],
    "rsqrt": [(0.0, inf), (-0.0, -inf), (inf, 0.0), (-1.0, nan), (4.0, 0.5)],
    "sinpi": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (3.0, 0.0),
        (-3.0, -0.0),
        (0.5, 1.0),
        (1e300, 0.0),
        (-1e300, -0.0),
        (inf, nan),
    ],
    "cospi": [
        (0.5, 0.0),
        (1.5, 0.0),
        (-0.5, 0.0),
        (1.0, -1.0),
        (2.0**53 - 1, -1.0),
        (1e300, 1.0),
        (-inf, nan),
    ],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (7.0, 1.0)],
    "erfc": [(0.0, 1.0), (inf, 0.0), (-inf, 2.0), (30.0, 0.0)],
    "sigmoid": [(0.0, 0.5), (inf, 1.0), (-inf, 0.0), (-800.0, 0.0)],
    "logit": [(0.0, -inf), (1.0, inf), (0.5, 0.0), (-0.1, nan), (1.1, nan)],
    "softplus": [(inf, inf), (-inf, 0.0), (800.0, 800.0)],
    "silu": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -0.0), (800.0, 800.0)],
    "gelu": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -0.0), (100.0, 100.0)],
    "gelu_tanh": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -0.0), (100.0, 100.0)],
    "mish": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -0.0), (800.0, 800.0)],
    "elu": [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -1.0), (3.0, 3.0)],
}
"""Special values of functions that NumPy lacks."""


def test_functions_that_numpy_lacks_have_special_values_here():
    assert {name for name in NAMES if not hasattr(np, name)} == set(OTHERS), "write them to OTHERS"


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_special_values_of_functions_that_numpy_has_not(name):
    x, expected = np.array([*OTHERS[name], (nan, nan)]).T
    assert (bits(apply(name, x)) == bits(expected)).all()
    same = x.astype(np.float32) == x
    short = apply(name, x[same].astype(np.float32))
    assert (bits(short) == bits(expected[same].astype(np.float32))).all()


HARD = {
    "exp": ["0x1.f5fa5e3a7b6b2p-1", "-0x1.8172a0e02f90ep-2"],
    "log": ["0x1.62a88613629b6p+678", "0x1.ac50b409c8aeep+15"],
    "sin": ["0x1.921fb54442d18p+1", "0x1.6ac5b262ca1ffp+849", "0x1.fffffffffffffp+1023"],
    "cos": ["0x1.921fb54442d18p+0", "0x1.6ac5b262ca1ffp+849"],
    "tan": ["0x1.921fb54442d18p+0", "0x1.6ac5b262ca1ffp+849"],
    "exp10": ["0x1.7p+4", "0x1.cp+3"],
}
"""Next to a midpoint or a zero: x = 6381956970095103·2**797 is the float64 nearest to a multiple of π/2, and
10**23 is half way between two numbers."""


@pytest.mark.parametrize("name", sorted(HARD))
def test_hard_arguments(name):
    x = np.array([float.fromhex(h) for h in HARD[name]])
    with mp.workprec(3000):
        exact = [nearest(REFERENCES[name].exact(mp.mpf(float(v))), np.float64) for v in x]
    assert (bits(apply(name, x)) == bits(np.array(exact))).all()


def test_ten_to_the_23_is_a_tie():
    assert 10**23 not in (int(1e23), int(np.nextafter(1e23, inf)))
    assert apply("exp10", 23.0) == 1e23
    assert int(np.nextafter(1e23, inf)) - 10**23 == 10**23 - int(1e23)


@pytest.mark.parametrize("name", ["exp", "sigmoid", "erfc", "silu", "gelu", "sinh"])
def test_subnormal_results(name):
    edge = {"exp": -744, "sigmoid": -744, "erfc": 26.6, "silu": -750, "gelu": -38.4, "sinh": 1e-310}[name]
    x = edge * (1 + np.random.default_rng(3).uniform(-0.001, 0.001, 100))
    with mp.workprec(400):
        exact = [nearest(REFERENCES[name].exact(mp.mpf(float(v))), np.float64) for v in x]
    ours = apply(name, x)
    assert (np.abs(ours) < 2.0**-1022).all()
    assert (ours != 0).any()
    assert (bits(ours) == bits(np.array(exact))).all()


@pytest.mark.parametrize("name", NAMES)
def test_what_integers_decide_is_what_texts_do(name):
    x = ordinary(name, 10, seed=4)
    x = x[[not any(np.asarray(c(v)) for c, _ in FUNCTIONS[name].special) for v in x]]
    assert [decided(FUNCTIONS[name], x.dtype, float(v)) for v in x] == apply(name, x).tolist()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", NAMES)
def test_all_halves_are_rounded_once(name, dtype):
    """Rounding the float64 value again is as good as rounding once, unless that is half way."""
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    ours, wide = apply(name, x), apply(name, x.astype(np.float64))
    assert ours.dtype == dtype
    finite = np.isfinite(wide) & np.isfinite(ours.astype(np.float64))
    gap = np.abs(np.spacing(np.where(finite, ours, 0).astype(dtype)).astype(np.float64)) / 2
    halfway = np.flatnonzero(finite & (np.abs(ours.astype(np.float64) - wide) == gap) & (wide != 0))
    for i in halfway:
        value = REFERENCES[name].exact(mp.mpf(float(x[i])))
        assert nearest(value, dtype) == ours[i], (name, x[i])


def test_layouts_out_and_where():
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        x = rng.standard_normal((30, 40)).astype(dtype)
        expected = ozaki.exp(x.ravel()).reshape(x.shape)
        for view in (x, np.asfortranarray(x), x[::-1, ::3], x.T, np.broadcast_to(x[:1], x.shape), x[5, 3]):
            assert (
                (ozaki.exp(view) == [ozaki.exp(v) for v in view.ravel()]).all()
                if view.ndim == 0
                else ((ozaki.exp(view) == ozaki.exp(view.ravel()).reshape(view.shape)).all())
            )
        out = np.empty_like(x)
        assert ozaki.exp(x, out) is out
        assert (out == expected).all()
        strided = np.zeros((60, 40), dtype)
        assert (ozaki.exp(x, out=strided[::2]) == expected).all()
        assert (strided[1::2] == 0).all()
        itself = x.copy()
        ozaki.exp(itself, out=itself)
        assert (itself == expected).all()
        shifted = np.concatenate([x.ravel(), [0]]).astype(dtype)
        ozaki.exp(shifted[:-1], out=shifted[1:])
        assert (shifted[1:] == expected.ravel()).all()
        mask = x > 0
        kept = np.full_like(x, 7)
        ozaki.exp(x, out=kept, where=mask)
        assert (kept == np.where(mask, expected, 7)).all()
        assert (ozaki.exp(x, where=mask) == np.where(mask, expected, 0)).all()
    assert ozaki.exp(np.empty((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("count", [2, 2000, 1 << 16])
def test_undecided_arguments_in_place(count):
    """More of them than integers decide, and in every block; of few numbers, too."""
    x = np.tile([-744.5, 1.0], count // 2)
    expected = ozaki.exp(np.array([-744.5, 1.0]))
    out = np.empty_like(x)
    for target in (out, x):
        assert ozaki.exp(x, out=target) is target
        assert (target.reshape(-1, 2) == expected).all()


@pytest.mark.parametrize(
    ("processor", "told", "quick"),
    [
        ("GenuineIntel", "Not affected\n", True),
        ("GenuineIntel", "Mitigation: Microcode\n", False),
        ("GenuineIntel", None, False),
        ("AuthenticAMD", "Not affected\n", False),
    ],
)
def test_gathers_are_taken_where_they_are_quick(processor, told, quick, tmp_path, monkeypatch):
    jit = pytest.importorskip("multiword.runtime.jit")
    for name, text in (("_PROCESSOR", f"vendor_id\t: {processor}\n"), ("_DOWNFALL", told)):
        monkeypatch.setattr(jit, name, tmp_path / name)
        if text is not None:
            (tmp_path / name).write_text(text)
    jit.gathers_are_quick.cache_clear()
    try:
        assert jit.gathers_are_quick() is quick
    finally:
        jit.gathers_are_quick.cache_clear()


def test_dtypes():
    assert isinstance(ozaki.exp(1), np.float64)
    assert ozaki.exp([1, 2]).dtype == np.float64
    assert ozaki.exp(np.float32(1)).dtype == np.float32
    assert ozaki.exp(True) == ozaki.exp(1.0)
    assert ozaki.exp(np.array([1.0], ">f8")) == ozaki.exp(1.0)
    for bad in (np.longdouble(1), np.array([None]), "1", 2**53 + 1):
        with pytest.raises(TypeError):
            ozaki.exp(bad)
    with pytest.raises(TypeError, match="out must be float64"):
        ozaki.exp(1.0, out=np.empty((), np.float32))
    with pytest.raises(ValueError, match="shape"):
        ozaki.exp(1.0, out=np.empty(3))
    with pytest.raises(TypeError, match="boolean"):
        ozaki.exp(1.0, where=1)
    with pytest.raises(ValueError, match="approximate"):
        ozaki.gelu(1.0, approximate="quick")


def test_without_a_compiler():
    x = ordinary("exp", 50)
    with numpy_forms():
        there = ozaki.exp(x)
    assert (bits(there) == bits(ozaki.exp(x))).all()


def test_every_public_function_has_a_reference():
    assert sorted(REFERENCES) == NAMES
    not_public = ("exp_minus", "gelu_tanh", "exp_cos", "exp_sin", "log_abs")
    assert sorted([*ozaki.elementary.NAMES, *not_public]) == sorted(FUNCTIONS)


def test_ranges_outside_of_which_is_nan_are_symmetric():
    assert all(f.low == -f.high for f in FUNCTIONS.values() if f.nan_outside)


def test_nearest_is_checked_against_fractions():
    rng = np.random.default_rng(5)
    for x in rng.standard_normal(100):
        t = mp.mpf(float(x)) / 3
        exact = Fraction(int(t.man)) * Fraction(2) ** int(t.exp) * (-1 if t < 0 else 1)
        assert nearest(t, np.float64) == float(exact)
        assert round_to(np.float64(exact), "fp32") == nearest(t, np.float32)


@pytest.mark.parametrize("name", [f.name for f in FUNCTIONS.values() if f.arguments == 1])
def test_the_longer_text_rounds_subnormal_results_as_integers_do(name):
    """Of either sign, up to the smallest normal number, and halfway between two of them."""
    function, rng = FUNCTIONS[name], np.random.default_rng(9)
    tiny = np.ldexp(np.concatenate([rng.integers(1, 2**52, 60), np.arange(1, 30)]).astype(float), -1074)
    x = np.concatenate([tiny, -tiny, rng.uniform(-745, -700, 30)])
    x = x[(x >= function.low) & (x <= function.high)]
    with np.errstate(all="ignore"):
        found, undecided = rounded(function, False, True, x)
    expected = by_integers(name, x.dtype, [x])
    known = ~undecided & ~np.isnan(expected)
    assert np.array_equal(found[known].view(np.int64), expected[known].view(np.int64))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [f.name for f in FUNCTIONS.values() if f.halved])
def test_no_argument_near_0_is_left_to_integers(name, dtype):
    """x/2 + c·x² is nearer to the upper float wherever x/2 is half way: for every second subnormal number."""
    function, rng = FUNCTIONS[name], np.random.default_rng(10)
    smallest = np.finfo(dtype).smallest_subnormal
    units = np.concatenate([np.arange(1, 50), rng.integers(1, int(np.finfo(dtype).tiny / smallest), 200)])
    x = (units * smallest).astype(dtype)
    x = np.concatenate([x, -x, x * dtype(2.0**20)])
    found, undecided = rounded(function, dtype == np.float32, False, x.astype(np.float64))
    assert not undecided.any()
    expected = by_integers(name, x.dtype, [x])
    assert found.astype(dtype).tobytes() == expected.tobytes()
