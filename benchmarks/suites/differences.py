"""Tests of others that fail with this library and pass without: why each of them does.

A pattern of `fnmatch` names tests, from their file on; the first that fits counts. A reason that begins with
"defect:" tells of one of this library; any other says what is meant to differ.
"""

from __future__ import annotations

_LONGDOUBLE = "ours refuses numbers wider than float64; SciPy rounds them to float64 without a word"
_NUMBERS = (
    "ours refuses strings, dates and objects; SciPy converts them to float64, or says otherwise why not"
)
_OVERWRITE = "ours never writes into its arguments here; SciPy's options permit it to"
_WARNING = "ours raises for singular matrices and, as NumPy, does not warn of those that are nearly so"
_KINDS = "ours refuses kinds of array that it does not know; SciPy calls their `__array__`"
_DETERMINANT = "ours has its argument's dtype, as NumPy's; SciPy's of float32 is float64"

DIFFERENCES: dict[str, dict[str, str]] = {
    "scipy": {
        "test_basic::TestSolve::test_scalar_a_and_1D_b": "ours refuses a number as matrix, as NumPy does",
        "test_basic::TestSolve::test_ill_condition_warning*": _WARNING,
        "test_basic::TestSolve::test_overwrite_args*": _OVERWRITE,
        "test_basic::TestInv::test_overwrite_a*": _OVERWRITE,
        "test_basic::TestInv::test_dtypes*longdouble*": _LONGDOUBLE,
        "test_basic::TestInv::test_ill_cond": _WARNING,
        "test_basic::TestDet::test_1x1_all_singleton_dims": _DETERMINANT,
        "test_basic::TestDet::test_1by1_stacked_input_output": _DETERMINANT,
        "test_basic::TestDet::test_sample_compatible_dtype_input*": _DETERMINANT,
        "test_basic::TestDet::test_incompatible_dtype_input": "ours raises the same TypeError in other words",
        "test_basic::TestDet::test_empty_edge_cases": "ours raises the same error in other words",
        "test_basic::TestDet::test_overwrite_a": _OVERWRITE,
        "test_basic::TestLstsq::test_*longdouble*": _LONGDOUBLE,
        "test_basic::TestLstsq::test_simple_*": _LONGDOUBLE,
        "test_basic::TestLstsq::test_random_*overdet": _LONGDOUBLE,
        "test_basic::TestLstsq::test_check_finite": _LONGDOUBLE,
        "test_basic::TestOverwrite::*": _KINDS,
        "test_basic::TestSolveCirculant::test_singular": "ours refuses least squares that are not of full rank",
        "test_basic::TestDTypes::test_*[[]*[gG]*": _LONGDOUBLE,
        "test_basic::TestDTypes::*": _NUMBERS,
    },
    "torch": {
        "samples::test_samples[[]baddbmm-*64]": "single precision rounds the native sums of products and "
        "additions in turn, ours once; ours is the nearer to that of double precision",
    },
}
