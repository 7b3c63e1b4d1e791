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

_OUT = "ours takes any `out` that can hold the result, where `np.dot` wants its own dtype, order or alignment"
_HALF = "matrix products and einsum of half precision are float32 with ours, or rounded once"
_CAST = "ours refuses to write floats into integers, which NumPy does with `optimize` alone"

_OF_NUMPY = {
    "test_linalg::TestMatrixPower::test_power_is_two*": _HALF,
    "test_linalg::test_unsupported_commontype": "ours takes half precision, NumPy refuses it",
    "test_multiarray::TestDot::test_dot_3args_errors": _OUT,
    "test_multiarray::TestMatmul*::test_result_types": _HALF,
    "test_einsum::TestEinsum::test_einsum_sums_float16": _HALF,
    "test_einsum::TestEinsum::test_different_paths[[]e]": _HALF,
    "test_einsum::TestEinsum::test_einsum_0d_out": _CAST,
    "test_ufunc::test_ufunc_types*": _HALF,
}

DIFFERENCES: dict[str, dict[str, str]] = {
    "numpy": _OF_NUMPY
    | {
        "test_multiarray::TestMethods::test_dot_out_mem_overlap": _OUT,
        "test_linalg::TestSolve::test_0_size*": "other subclasses of NumPy's array are not kept beside ours",
    },
    "numpy-arrays": _OF_NUMPY
    | {
        "test_linalg::TestSolve::test_0_size*": "other subclasses of NumPy's array are not kept beside ours",
        "test_ufunc::test_ufunc_noncontiguous*": "products of half precision are float32 with ours; the "
        "fields of records beside them are NumPy's, in half precision",
        "test_nanfunctions::test__nan_mask*": "the test expects a plain array in one comparison",
        "test_multiarray::TestDot::test_dot_3args": "products of random numbers, plain arrays, are native; "
        "with an `out` of ours it is ours, and has other last bits",
        "test_einsum::TestEinsum::test_einsum_views": "a view of ours has the memory, not the array, as base",
    },
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
        "test_*::TestOverwrite::*": _KINDS,
        "test_batch::TestBatch::test_lstsq*": "ours takes one matrix, as NumPy's does, no stack",
        "test_decomp::TestQR::test_lwork": "ours has no workspace, so that none is too small",
        "test_decomp::TestEigh::test_wrong_inputs": "ours has no LAPACK driver to choose",
        "test_decomp::TestSVD_GESDD::test_degenerate": "ours has no LAPACK driver to choose",
        "test_decomp::TestEigh::test_eigh_of_sparse": "ours raises TypeError for sparse matrices",
        "test_decomp_lu::TestLUFactor::test_hrectangular": "rounding: an element that is 0 in exact "
        "arithmetic, -1e-15 with ours and -2e-15 with SciPy's `lu`, is compared relatively",
        "test_basic::TestDTypes::test_*[[]*[gG]*": _LONGDOUBLE,
        "test_basic::TestDTypes::*": _NUMBERS,
    },
    "torch": {},
    "sklearn": {
        "test_data::test_standard_scaler_numerical_stability": "the test expects a warning of "
        "rounding errors in means, of which ours have none"
    },
    "statsmodels": {},
}
