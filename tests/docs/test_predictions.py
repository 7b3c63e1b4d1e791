"""The page on other GPUs: made of the results that there are, and near the measurements."""

import re

from benchmarks.predictions import FP8_PRODUCTS, GPUS, H200, INT8_PRODUCTS, PAGE, measured, page, predicted


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


def test_residues_in_two_fp8_words():
    """What the page says of them."""
    words = {(h, low) for h in range(-8, 9) for low in range(-8, 9)}
    assert {17 * h + low for h, low in words} >= set(range(-128, 129))
    for h, low in words:
        for other, last in ((8, -8), (-7, 3), (5, 8)):
            high, bottom, both = h * other, low * last, (h + low) * (other + last)
            assert 289 * high + 17 * (both - high - bottom) + bottom == (17 * h + low) * (17 * other + last)
            assert max(abs(high), abs(bottom), abs(both)) <= 256


def test_rates_elsewhere_are_those_of_the_table():
    """On the page "Is this for me?"."""
    text = (PAGE.parent / "is-this-for-me.md").read_text()
    said = re.findall(r'"([\w ]+)": \(([\d.]+), ([\d.]+)\)', text)
    known = {gpu.name.split(",")[0]: (gpu.int8, gpu.fp64) for gpu in GPUS}
    assert len(said) >= 5
    for name, int8, fp64 in said:
        assert (float(int8), float(fp64)) == known[name]
