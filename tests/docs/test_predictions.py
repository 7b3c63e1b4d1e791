"""The page on other GPUs: made of the results that there are, and near the measurements."""

import itertools
import math
import re

import ml_dtypes

from benchmarks.predictions import (
    FP8_MODULI,
    FP8_PAIRS,
    FP8_PRODUCTS,
    GPUS,
    H200,
    INT8_MODULI,
    INT8_PRODUCTS,
    PAGE,
    measured,
    page,
    predicted,
)


def test_the_page_is_made_of_the_results():
    assert PAGE.read_text() == page(), "run python -m benchmarks.predictions"


def test_predictions_are_near_the_measurements():
    for n, result in measured().items():
        assert abs(predicted(H200, n) / result["ours"]["teraflops"] - 1) < 0.2


def test_a_product_cannot_be_faster_than_its_words():
    for gpu in GPUS:
        for n in (2048, 8192, 1 << 20):
            assert predicted(gpu, n) < gpu.int8 / INT8_PRODUCTS
            assert predicted(gpu, n, fp8=True) <= gpu.fp8 / FP8_PRODUCTS


def test_residues_in_fp8_words():
    """What the page says of them: all residues have words, and these moduli are enough."""
    words = {x for x in range(-32, 33) if float(ml_dtypes.float8_e4m3fn(x)) == x}
    assert len(words) == 49
    for q in FP8_MODULI:
        assert {x % q for x in words} == set(range(q)), q
    for q, s in FP8_PAIRS.items():
        pairs = [(h, low) for h in words for low in words if h + low in words]
        assert {(s * h + low) % q for h, low in pairs} == set(range(q)), q
        for h, low in pairs[::17]:
            for other, last in pairs[::101]:
                high, bottom, both = h * other, low * last, (h + low) * (other + last)
                value = s * s * high + s * (both - high - bottom) + bottom
                assert value == (s * h + low) * (s * other + last)
    moduli = (*FP8_MODULI, *FP8_PAIRS)
    assert all(math.gcd(p, q) == 1 for p, q in itertools.combinations(moduli, 2))
    assert math.prod(moduli) > math.prod(INT8_MODULI)
    assert (INT8_PRODUCTS, FP8_PRODUCTS) == (14, 28)


def test_rates_elsewhere_are_those_of_the_table():
    """On the page "Is this for me?"."""
    text = (PAGE.parent / "is-this-for-me.md").read_text()
    said = re.findall(r'"([\w ]+)": \(([\d.]+), ([\d.]+)\)', text)
    known = {gpu.name.split(",")[0]: (gpu.int8, gpu.fp64) for gpu in GPUS}
    assert len(said) >= 5
    for name, int8, fp64 in said:
        assert (float(int8), float(fp64)) == known[name]
