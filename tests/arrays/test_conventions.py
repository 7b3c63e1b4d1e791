"""What others rely on in `ozaki.array`: whose bits it has, `out`, exceptions, warnings, tables."""

import pickle
import re
import reprlib

import numpy as np
import pytest

import ozaki

M = np.random.default_rng(0).standard_normal((4, 4))
X, STRICT = ozaki.array(M), ozaki.array(M, strict=True)
REFUSED = "has no bits that are the same on every machine"


def strict_row():
    return ozaki.array(np.zeros(4), strict=True)


FOREIGN = {
    "m.dot(s)": lambda: M.dot(STRICT),
    "m.dot(v)": lambda: M.dot(STRICT[0]),
    "ndarray.dot(m, s)": lambda: np.ndarray.dot(M, STRICT),
    "ndarray.dot(s, m)": lambda: np.ndarray.dot(STRICT, M),
    "m.mean(out=s)": lambda: M.mean(0, out=strict_row()),
    "m.mean(out=s[0])": lambda: M.mean(0, out=STRICT.copy()[0]),
    "m.var(out=s)": lambda: M.var(0, out=strict_row()),
    "m.std(out=s)": lambda: M.std(0, out=strict_row()),
    "np.logaddexp2(m, m, out=s)": lambda: np.logaddexp2(M, M, out=STRICT.copy()),
    "m.prod(out=s)": lambda: M.prod(0, out=strict_row()),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_strict_arrays_carry_nobody_elses_bits(name):
    for _ in range(2):
        with pytest.raises(TypeError, match=REFUSED):
            FOREIGN[name]()


def test_what_numpy_asks_nobody_about_is_what_the_page_says():
    """No protocol, priority or finalizer is asked that tells these from a copy: the page names them."""
    x = np.array([[1e16, 1.0, -1e16, 3.0]] * 4)
    s, out = ozaki.array(x, strict=True), ozaki.array(np.zeros((4, 4)), strict=True)
    assert x.dot(np.ones((4, 4)), out=out) is out
    assert out.tobytes() == np.ndarray.dot(s, ozaki.array(np.ones((4, 4)), strict=True)).tobytes()
    for ours in (np.dot(s, np.ones((4, 4))), s.dot(np.ones((4, 4))), np.dot(x, np.ones((4, 4)), out=out)):
        assert ours.tobytes() == ozaki.matmul(x, np.ones((4, 4))).tobytes()


@pytest.mark.parametrize("function", [np.sum, np.mean, np.var, np.std, np.cumsum])
def test_functions_of_plain_arrays_into_strict_ones_are_ours(function):
    x = np.array([[1e16, 1.0, -1e16, 3.0]] * 4).T
    out = strict_row() if function is not np.cumsum else ozaki.array(np.zeros((4, 4)), strict=True)
    assert function(x, axis=0, out=out) is out
    assert out.tobytes() == getattr(ozaki, function.__name__)(x, axis=0).tobytes()
    assert x.sum(0, out=strict_row()).tobytes() == ozaki.sum(x, axis=0).tobytes()


def test_arrays_that_ask_for_priorities_are_made_as_before():
    for _ in range(3):
        assert type(np.concatenate([M, STRICT])) is type(np.vstack([STRICT, M])) is ozaki.array
        assert STRICT.__array_priority__ > 0
        assert STRICT[[0, 1]].copy().T.strict
    assert np.eye(2, dtype=int).dot(ozaki.array(np.eye(2, dtype=int), strict=True)).tolist() == [
        [1, 0],
        [0, 1],
    ]


GIVEN = {
    "clip": lambda: (np.clip(X, 0, 1, out=(o := np.empty((4, 4)))), o),
    "take": lambda: (np.take(X, [0, 1], out=(o := np.empty(2))), o),
    "argmax": lambda: (np.argmax(X, axis=0, out=(o := np.empty(4, int))), o),
    "median": lambda: (np.median(X, axis=0, out=(o := np.empty(4))), o),
    "percentile": lambda: (np.percentile(X, 50, axis=0, out=(o := np.empty(4))), o),
    "multi_dot": lambda: (np.linalg.multi_dot([X, X, X], out=(o := np.empty((4, 4)))), o),
    "sum": lambda: (np.sum(X, axis=0, out=(o := np.empty(4))), o),
    "einsum": lambda: (np.einsum("ij->i", X, out=(o := np.empty(4))), o),
    "sum by position": lambda: (np.sum(X, 0, None, (o := np.empty(4))), o),
    "of ours": lambda: (np.clip(X, 0, 1, out=(o := ozaki.array(np.empty((4, 4))))), o),
}


@pytest.mark.parametrize("name", GIVEN)
def test_out_is_returned_as_it_was_given(name):
    result, out = GIVEN[name]()
    assert result is out


def test_an_ellipsis_as_out_asks_for_an_array():
    for function in (np.sum, np.mean, np.nansum, np.var):
        result = function(X, out=...)
        assert (type(result), result.shape, result) == (ozaki.array, (), function(X))


@pytest.mark.parametrize("function", [np.sum, np.mean])
def test_reductions_cast_to_integers_of_out_as_numpys_do(function):
    ours, native = function(X, axis=0, out=np.zeros(4, int)), function(M, axis=0, out=np.zeros(4, int))
    assert ours.tolist() == native.tolist()


@pytest.mark.parametrize("out", [[1], "x", 0.0])
def test_out_that_is_no_array_is_named(out):
    with pytest.raises(TypeError, match="out must be None or an array"):
        np.sum(X, out=out)


def test_representations():
    assert reprlib.repr(X).startswith("array([[")
    assert repr(X) == repr(M)
    assert pickle.loads(pickle.dumps(STRICT)).strict


@pytest.mark.parametrize(
    "function", [np.sum, np.mean, np.var, np.cumsum, np.nansum, np.linalg.norm, np.average]
)
def test_an_axis_that_is_not_there_is_an_index_error_too(function):
    with pytest.raises(np.exceptions.AxisError):
        function(X, axis=5)
    with pytest.raises(IndexError):
        getattr(ozaki, function.__name__)(M, axis=5)


def test_what_numpy_refuses_is_refused():
    with pytest.raises(ValueError, match="valid range"):
        np.einsum(X, [0, 70], [0, 70])
    with pytest.raises(ValueError, match="simultaneously"):
        np.var(X, ddof=1, correction=0)
    assert np.einsum(X, [0, 1], [1, 0]).tolist() == M.T.tolist()


PATHS = {}, 1, "x", ["einsum_path", (0, 5)], ["einsum_path", (0,)], ["a", (0, 1)], (1, 2, 3), [(0, 1)]


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_paths_that_are_none_raise_what_numpys_do(path):
    """And in `ozaki.einsum`, too, no tensor is returned that is not the product."""
    with pytest.raises(Exception) as native:
        np.einsum("i,i,i->", M[0], M[1], M[2], optimize=path)
    with pytest.raises(native.type, match=re.escape(str(native.value))):
        np.einsum("i,i,i->", X[0], X[1], X[2], optimize=path)
    with pytest.raises(ValueError, match="optimize must be a path"):
        ozaki.einsum("i,i,i->", M[0], M[1], M[2], optimize=path)


@pytest.mark.parametrize("casting", ["no", "equiv", "safe", "same_kind", "unsafe", None])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "c16"])
@pytest.mark.parametrize("name", ["matmul", "vecdot", "exp"])
def test_casts_into_out_are_allowed_and_refused_as_numpys(name, dtype, casting):
    function, options = getattr(np, name), {} if casting is None else {"casting": casting}
    outs = [np.zeros(4 if name == "vecdot" else (4, 4), dtype) for _ in range(2)]

    def call(x, out):
        return function(*((x,) if name == "exp" else (x, M)), out=out, **options)

    try:
        expected = call(M, outs[0])
    except TypeError as error:
        with pytest.raises(TypeError, match=re.escape(str(error))):
            call(X, outs[1])
        assert not outs[1].any()
    else:
        assert call(X, outs[1]) is outs[1]
        assert np.allclose(outs[1], expected)


def test_einsum_casts_operands_and_results_as_it_is_told():
    assert np.einsum("ij->j", X, out=(o := np.zeros(4, int)), casting="unsafe") is o
    assert o.tolist() == np.sum(M, axis=0).astype(int).tolist()
    for options in ({"dtype": "f4"}, {"dtype": "f4", "casting": "no"}, {"dtype": "i4"}):
        with pytest.raises(TypeError, match=r"could not be cast|Cannot cast"):
            np.einsum("ij->j", X, **options)
    assert np.einsum("ij,jk", X, X, order="F").flags.f_contiguous
    assert np.einsum("ij->ji", X, dtype="f4", casting="same_kind").dtype == np.float32


@pytest.mark.parametrize("function", [np.nanmean, np.nanvar, np.nanstd])
@pytest.mark.parametrize("dtype", [bool, int, object])
def test_what_skips_nan_is_written_into_inexact_arrays_alone(function, dtype):
    for x in (M, X):
        with pytest.raises(TypeError, match="out must be inexact"):
            function(x, axis=0, out=np.zeros(4, dtype))


def test_norms_are_over_one_axis_or_two():
    for x in (np.ones((2, 2, 2)), ozaki.array(np.ones((2, 2, 2)))):
        with pytest.raises(ValueError, match="Improper number of dimensions"):
            np.linalg.norm(x, axis=(0, 1, 2))
        assert np.linalg.norm(x) == np.sqrt(8)


def test_powers_of_strict_arrays_that_are_rounded_once():
    assert (STRICT**2.0).tobytes() == (STRICT**2).tobytes() == np.square(M).tobytes()
    assert (abs(STRICT) ** 0.5).tobytes() == np.sqrt(abs(M)).tobytes()
    assert (STRICT**-1.0).tobytes() == (1 / M).tobytes()
    assert (abs(STRICT) ** 2.5).tobytes() == ozaki.pow(abs(M), 2.5).tobytes()
    with pytest.raises(TypeError, match=r"take ozaki\.group_sum"):
        np.bincount([0, 1, 1, 0], weights=STRICT[0])


@pytest.mark.parametrize(
    ("function", "x", "said"),
    [
        (np.mean, [], "Mean of empty slice"),
        (np.nanmean, [np.nan], "Mean of empty slice"),
        (np.nanmin, [np.nan], "All-NaN slice"),
        (np.nanmax, [np.nan], "All-NaN slice"),
        (np.var, [], "Degrees of freedom"),
        (np.nanvar, [np.nan], r"Degrees of freedom <= 0 for slice\."),
        (np.std, [], "Degrees of freedom"),
        (np.sum, [1e308, 1e308], "overflow encountered in reduce"),
        (np.sum, [np.inf, -np.inf], "invalid value encountered in reduce"),
    ],
)
def test_warnings_are_numpys(function, x, said):
    for of in (np.array, ozaki.array):
        with pytest.warns(RuntimeWarning, match=said):
            function(of(x))


@pytest.mark.filterwarnings("error")
def test_errstate_is_honoured_and_nothing_is_said_of_ordinary_results():
    large = ozaki.array([[1e308, 1e308]])
    products = (
        *(np.matmul, np.dot, np.vecdot, np.matvec, np.inner),
        *(lambda x, y: np.tensordot(x, y, 1), lambda x, y: x @ y),
    )
    calls = [lambda f=f: f(large, np.array([10.0, 1.0])) for f in products]
    for call in (lambda: large.sum(), lambda: np.cumsum(large), *calls):
        with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
            call()
    with np.errstate(all="ignore"):
        assert large.sum() == np.inf
    np.nansum(ozaki.array([np.nan])), np.var(X, ddof=1), np.mean(ozaki.array([np.nan, 1.0])), X @ X


@pytest.mark.parametrize("of", ["pandas", "xarray", "range"])
def test_tables_and_ranges_beside_an_array(of):
    if of == "pandas":
        pandas = pytest.importorskip("pandas")
        vector, matrix = pandas.Series([1.0, 2, 3, 4]), pandas.DataFrame(M)
    elif of == "xarray":
        xarray = pytest.importorskip("xarray")
        vector, matrix = xarray.DataArray([1.0, 2, 3, 4]), xarray.DataArray(M)
    else:
        vector, matrix = range(1, 5), M
    v, m = np.asarray(vector), np.asarray(matrix)
    for x in (X, STRICT):
        assert np.dot(x, vector).tobytes() == np.dot(x, v).tobytes()
        assert np.inner(x, matrix).tobytes() == np.inner(x, m).tobytes()
        assert np.tensordot(x, vector, 1).tobytes() == np.tensordot(x, v, 1).tobytes()
        assert np.einsum("ij,j->i", x, vector).tobytes() == np.einsum("ij,j->i", x, v).tobytes()
        assert np.linalg.solve(x, vector).tobytes() == np.linalg.solve(x, v).tobytes()
        assert np.linalg.lstsq(x, vector)[0].tobytes() == np.linalg.lstsq(x, v)[0].tobytes()
        assert np.average(x, axis=0, weights=vector).tobytes() == np.average(x, axis=0, weights=v).tobytes()


@pytest.mark.parametrize(
    ("module", "attributes", "said"),
    [
        ("polars.series", ("to_numpy",), r"pass x\.to_numpy\(\)$"),
        ("pyarrow.lib", ("to_numpy", "__array__"), r"pass x\.to_numpy\(\)$"),
        ("dask.dataframe", ("to_dask_array", "__dask_graph__"), r"x\.to_dask_array\(lengths=True\)"),
        ("pandas", ("codes", "__array__"), r"categorical; pass x\.codes"),
        ("pandas", ("to_numpy", "cat"), r"categorical; pass x\.cat\.codes"),
        ("pandas", ("to_numpy",), "labels would be lost"),
    ],
)
def test_what_helps_is_named(module, attributes, said):
    x = type("Foreign", (), {"__module__": module, **dict.fromkeys(attributes)})()
    with pytest.raises(TypeError, match=said):
        ozaki.sum(x)
    with pytest.raises(TypeError, match=said):  # "operand 0" is no expression
        ozaki.einsum("i->", x)
