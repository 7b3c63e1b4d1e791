"""Bounds: the papers' formulas, and measured errors below them."""

import math

import numpy as np
import pytest

from multiword import SCHEMES, BoundRow, Scheme, TensorCore, bound_table, error_bound, matmul
from tests.matrices import errors, normal, unit

U = 2.0**-24


def gamma(n, u=U):
    return n * u / (1 - n * u)


@pytest.mark.parametrize(("word", "u"), [("fp16", 2.0**-11), ("bf16", 2.0**-8), ("tf32", 2.0**-11)])
@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 100, 2**20])
def test_theorem_2_1(word, u, p, k):
    scheme = Scheme(word, p, scaled_lines=False)
    first_order = (p + 1) * u**p + gamma(k + p * p - 1)
    bound = error_bound(k, scheme)
    # O(u_high·u_low + u_low^(p+1)) is what the theorem leaves open; k additions stand before it.
    assert abs(bound - first_order) <= 3 * k * U * u + p * p * U + 10 * (k * U) ** 2


@pytest.mark.parametrize("k", [4096, 2**20])
@pytest.mark.parametrize("b", [128, 1024])
def test_fabsum_bounds(k, b):
    v1 = error_bound(k, Scheme(block=b, scaled_lines=False))
    v2 = error_bound(k, Scheme(block=b, scaled_lines=False, accumulate="fp64"))
    cross = 2 * 2.0**-11 * gamma(k)
    assert v1 == pytest.approx(3 * 2.0**-22 + (b + k / b + 2) * U + cross, rel=1e-2)
    assert v2 == pytest.approx(3 * 2.0**-22 + (b + 1) * U + cross, rel=1e-2)
    assert error_bound(k, Scheme(block=b, blocked="all")) < error_bound(k, Scheme(block=b))


def test_probabilistic_bounds():
    for k in (64, 4096):
        bound = error_bound(k, "fp32", kind="probabilistic")
        assert bound == pytest.approx(math.sqrt(k) * U, rel=1e-2)
        surer = error_bound(k, "fp32", kind="probabilistic", confidence=4)
        assert surer == pytest.approx(4 * bound, rel=1e-2)
    # Truncated sums do not gain: only those outside the tensor core, to nearest, do.
    assert error_bound(2**16, kind="probabilistic", generation="H200") > 0.9 * error_bound(
        2**16, generation="H200"
    )


def test_table_2_1():
    rows = {row.name: row for row in bound_table()}
    assert rows["fp16"] == BoundRow("fp16", "fp16", 1, 2 * 2.0**-11)
    assert rows["double-fp16"].conversion == 0
    assert rows["bf16"].conversion == 2 * 2.0**-8
    assert rows["double-bf16"].conversion == 3 * 2.0**-16
    assert rows["triple-bf16"].conversion == 0
    assert rows["bf16"](1000) == 2.0**-7 + 1000 * U


def test_wrong_arguments():
    for arguments in (
        {"k": -1},
        {"k": 1, "scheme": "none"},
        {"k": 1, "kind": "best"},
        {"k": 1, "generation": "H42"},
        {"k": 1, "scheme": "triple-bf16", "generation": "V100"},
    ):
        with pytest.raises(ValueError):
            error_bound(**arguments)
    assert error_bound(2**30, "fp32") == math.inf


@pytest.mark.parametrize("chip", ["V100", "A100", "H200"])
@pytest.mark.parametrize("draw", [normal, unit])
def test_measured_errors_of_the_model_stay_below(chip, draw):
    rng = np.random.default_rng(1)
    for k in (3, 500, 4100):
        a, b = draw(rng, (8, k)), draw(rng, (k, 8))
        for name, scheme in SCHEMES.items():
            core = TensorCore(chip)
            if scheme.plain or scheme.word not in core.generation.widths or not scheme.scaled_words:
                continue
            worst, _ = errors(matmul(a, b, scheme=name, engine=core), a, b)
            assert worst <= error_bound(k, name, generation=chip)
