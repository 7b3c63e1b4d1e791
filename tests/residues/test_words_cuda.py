"""Both words of a number in one kernel, without a GPU: the texts have the bits of the forms for the host.

`tests/gpu/test_two_words.py` compares them on one.
"""

from fractions import Fraction

import numpy as np
import pytest

from multiword.engines import get_engine
from multiword.engines.moduli import residue_system
from multiword.formats import FORMATS
from multiword.runtime.arrays import real_parts
from ozaki.definition.rounding import nearest
from ozaki.residues.scheme import Residues
from ozaki.residues.sums import residues_of_sums
from ozaki.scaling.statistics import NONFINITE_ROW
from ozaki.schemes import ProductSpecification
from tests.oracle import images_of

RNG = np.random.default_rng(35)


@pytest.fixture(autouse=True)
def _numbers_do_not_depend_on_other_tests(monkeypatch):
    monkeypatch.setattr("tests.residues.test_words_cuda.RNG", np.random.default_rng(35))


def scales(rows):
    """Of rows, one of which is not finite."""
    scale = RNG.integers(-40, 60, rows).astype(np.int32)
    scale[rows // 2] = NONFINITE_ROW
    return scale


def words(shape, bits, scale):
    """High and low words of wide exponents, whose integers have so many bits; some are zeros or subnormal."""
    exponent = RNG.integers(-70, bits, shape) - np.where(scale == NONFINITE_ROW, 0, scale)[:, None]
    high = np.ldexp(RNG.uniform(-1, 1, shape), exponent)
    low = RNG.uniform(-1, 1, shape) * np.spacing(high) / 2
    high[RNG.random(shape) < 0.1] = 0
    low[RNG.random(shape) < 0.1] = 0
    low[:, -1] = 5e-324
    high[shape[0] // 2, 0] = np.inf
    return high, low


@pytest.mark.parametrize(
    ("shape", "width", "parts", "turned", "weighted"),
    [
        ((35, 70), 110, 1, True, True),
        pytest.param((37, 70), 110, 1, False, False, marks=pytest.mark.slow),
        pytest.param((5, 33), 62, 1, False, True, marks=pytest.mark.slow),
        pytest.param((9, 21), 64, 2, True, False, marks=pytest.mark.slow),
        pytest.param((3, 300), 160, 2, False, True, marks=pytest.mark.slow),
    ],
)
def test_residues_of_sums(emulated, compiled, shape, width, parts, turned, weighted):
    scale = scales(shape[0])
    high, low = zip(*(words(shape, width, scale) for _ in range(parts)), strict=True)
    system = residue_system("int8", min(330.0, 2.0 * width), shape[1], parts)
    for padding in (1, 16):
        options = system, padding, weighted, width + 1
        with np.errstate(all="ignore"):
            expected = residues_of_sums(high, low, scale, *options)
        there = [
            [emulated.asarray(x.T.copy()).T if turned else emulated.asarray(x) for x in w]
            for w in (high, low)
        ]
        found = residues_of_sums(*there, emulated.asarray(scale), *options)
        assert np.array_equal(found, expected)
    assert set(compiled.launched) == {"split_sums"}


def integers(shape, bits, precision):
    """Integers of any length, and those whose words are ties, or next to one, or leave nothing."""
    found = [0, 1, -1, 3 << bits - 3]
    half = 1 << precision
    for shift in (0, 7, 34, precision, bits - 2 * precision - 4, bits - precision - 3):
        for high in (half + 1, 2 * half - 1, half, half + 2):  # after whose last bit a word ends
            if 0 <= shift < bits - precision - 2:
                found += [(high << shift) + d for d in (-1, 0, 1)]
                found += [(high << shift) + d * (half + 1) for d in (-1, 1) if half < 1 << shift]
    found += [int(x) << int(s) for x, s in zip(*RNG.integers(1, bits - 62, (2, 60)), strict=True)]
    found += [
        int.from_bytes(RNG.bytes(bits // 8), "little") >> int(s) for s in RNG.integers(0, bits - 9, 200)
    ]
    assert all(abs(x) < 1 << bits for x in found)
    numbers = np.empty(2 * len(found), object)
    numbers[:] = found + [-x for x in found]
    return RNG.choice(numbers, shape)


def rounded_words(value, exponent, target):
    """Both words of an integer times a power of two, the second 0 where the first is infinite."""
    exact = Fraction(value) * Fraction(2) ** exponent
    high = nearest(exact, target)
    return high, nearest(exact - Fraction(high), target) if np.isfinite(high) else 0.0


@pytest.mark.parametrize(
    ("word", "bits", "products", "dtype"),
    [
        ("int8", 217, "int8", "float64"),
        pytest.param("int8", 217, "int32", "float64", marks=pytest.mark.slow),
        pytest.param("int8", 320, "int8", "float64", marks=pytest.mark.slow),
        pytest.param("int8", 140, "int8", "complex128", marks=pytest.mark.slow),
        pytest.param("int8", 217, "int32", "complex128", marks=pytest.mark.slow),
        pytest.param("int8", 120, "int32", "complex64", marks=pytest.mark.slow),
        pytest.param("fp64", 217, "float64", "float64", marks=pytest.mark.slow),
        pytest.param("fp64", 700, "float64", "complex128", marks=pytest.mark.slow),
    ],
)
def test_both_words_of_integers(emulated, compiled, word, bits, products, dtype):
    m, n, parts = 6, 39, 1 + dtype.startswith("complex")
    target = FORMATS["fp32" if dtype == "complex64" else "fp64"]
    scheme = Residues(
        ProductSpecification((m, 100, n), 1, parts, (bits // 2, bits // 2), bits + 0.5, target),
        word,
        get_engine("host"),
    )
    assert scheme.word.name == word
    values = [integers((m, n), bits, target.precision) for _ in range(parts)]
    y = np.zeros((scheme.system.images, len(scheme.system.moduli), m + 2, n + 9), products)
    moduli = np.array(scheme.system.moduli)[:, None, None]
    y[:, :, :m, :n] = (images_of(values[0], values[-1], scheme.system) + moduli // 2) % moduli - moduli // 2
    largest = target.emax - bits
    rows = np.array([0, 70, -largest - 30, bits - target.emin - 20, bits - target.emin + 70, -40], np.int32)
    columns = RNG.integers(-20, 20, n).astype(np.int32)
    found = [emulated.cupy.empty((m, n), dtype) for _ in range(2)]
    scheme.round_words(emulated.asarray(y), (emulated.asarray(rows), emulated.asarray(columns)), found)
    on_host = [np.empty((m, n), dtype) for _ in range(2)]
    with np.errstate(all="ignore"):
        scheme.round_words(y.astype(scheme.word.result), (rows, columns), on_host)
    parts_of_words = zip(*map(real_parts, found), *map(real_parts, on_host), strict=True)
    for part, (*words, high, low) in zip(values, parts_of_words, strict=True):
        exponents = -(rows[:, None] + columns).astype(int)
        exact = [rounded_words(x, int(e), target) for x, e in zip(part.flat, exponents.flat, strict=True)]
        for ours, expected in zip(words, zip(*exact, strict=True), strict=True):
            assert ours.tobytes() == np.array(expected, ours.dtype).tobytes()
        assert not np.isfinite(high).all()
        assert (high.tobytes(), low.tobytes()) == tuple(x.tobytes() for x in words)
