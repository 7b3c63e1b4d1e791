"""The policy for `out` on a GPU."""

import numpy as np
import pytest

from tests.test_out import CALLS, PRODUCTS, SUMS

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", CALLS)
def test_any_layout_is_filled_and_returned(cupy, name):
    expected = np.asarray(CALLS[name]())
    shape, dtype = expected.shape, expected.dtype
    for out in (
        cupy.empty(shape, dtype),
        cupy.empty(shape, dtype, order="F"),
        cupy.empty((*shape, 2), dtype)[..., 1],
        cupy.empty(shape, dtype)[..., ::-1] if shape else cupy.empty(shape, dtype),
    ):
        for _ in range(3):  # the third call of a product replays a graph
            out.fill(7)
            assert CALLS[name](out, cupy.asarray) is out
            assert np.array_equal(out.get(), expected)


@pytest.mark.parametrize("name", CALLS)
def test_what_cannot_hold_the_result_is_refused_and_untouched(cupy, name):
    expected = np.asarray(CALLS[name]())
    good = cupy.full(expected.shape, 7, expected.dtype)
    wide = cupy.full((*expected.shape, 2), 7, expected.dtype)
    for out, error in (
        (good.get(), TypeError),
        (good.get().tolist(), TypeError),
        (good.real.astype(cupy.int64), TypeError),
        (wide, ValueError),
        *([(cupy.broadcast_to(good[..., :1], expected.shape), ValueError)] if good.ndim else []),
    ):
        with pytest.raises(error, match="out"):
            CALLS[name](out, cupy.asarray)
    assert (good == 7).all()
    assert (wide == 7).all()
    if name in PRODUCTS:
        other = cupy.zeros(expected.shape, np.float64 if expected.dtype != np.float64 else np.float32)
        with pytest.raises(TypeError, match="out"):
            CALLS[name](other, cupy.asarray)


@pytest.mark.parametrize("name", SUMS)
def test_real_results_go_into_complex_arrays(cupy, name):
    expected = SUMS[name]()
    out = cupy.full(np.shape(expected), np.nan + 1j)
    assert SUMS[name](out, cupy.asarray) is out
    assert np.array_equal(out.get(), expected)
