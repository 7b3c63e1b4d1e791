"""The suites: which tests of which project run, and what stands in for its functions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Suite:
    """Tests of another project.

    project : the package that must be installed.
    replaced : a name in `plugin.REPLACEMENTS`.
    tests : modules, as `pytest --pyargs` takes them.
    chosen : an expression for `pytest -k`; "" chooses all.
    adopting : a package whose own modules see the replaced functions, too; "" where only the tests do.
    """

    project: str
    replaced: str
    tests: tuple[str, ...]
    chosen: str = ""
    adopting: str = ""


_OF_NUMPY = (
    *("numpy._core.tests.test_multiarray", "numpy._core.tests.test_numeric", "numpy._core.tests.test_einsum"),
    *("numpy._core.tests.test_ufunc", "numpy.lib.tests.test_nanfunctions"),
    *("numpy.lib.tests.test_function_base", "numpy.linalg.tests"),
)
_CHOSEN_OF_NUMPY = (
    "not huge and not large and not Deprecat and (linalg or einsum or nanfunctions or dot or Dot or matmul "
    "or Matmul or Inner or TestStats or StdVar or sum or vecdot or matvec or vecmat or TestNonarrayArgs "
    "or TestAverage or TestCov or TestCorrCoef)"
)

SUITES = {
    "numpy": Suite("numpy", "numpy", _OF_NUMPY, _CHOSEN_OF_NUMPY),
    "numpy-arrays": Suite("numpy", "arrays", _OF_NUMPY, _CHOSEN_OF_NUMPY),
    "scipy": Suite(
        "scipy",
        "scipy",
        (
            *("scipy.linalg.tests.test_basic", "scipy.linalg.tests.test_batch"),
            *("scipy.linalg.tests.test_decomp", "scipy.linalg.tests.test_decomp_lu"),
            "scipy.linalg.tests.test_decomp_cholesky",
        ),
        "TestSolve or TestSolveTriangular or TestInv or TestDet or TestLstsq or TestOverwrite or TestDTypes "
        "or TestBatch or TestEigh or TestSVD_GESDD or TestSVDVals or TestQR or TestLUFactor or TestLUSolve "
        "or TestCholesky",
    ),
    "torch": Suite("torch", "torch", ("benchmarks.suites.samples",)),
    "sklearn": Suite(
        "sklearn",
        "numpy",
        (
            *("sklearn.linear_model.tests.test_base", "sklearn.linear_model.tests.test_ridge"),
            *("sklearn.decomposition.tests.test_pca", "sklearn.covariance.tests.test_covariance"),
            *("sklearn.preprocessing.tests.test_data", "sklearn.metrics.tests.test_regression"),
        ),
        adopting="sklearn",
    ),
    "statsmodels": Suite(
        "statsmodels",
        "numpy",
        (
            "statsmodels.regression.tests.test_regression",
            "statsmodels.stats.tests.test_weightstats",
            "statsmodels.stats.tests.test_moment_helpers",
        ),
        adopting="statsmodels",
    ),
}
