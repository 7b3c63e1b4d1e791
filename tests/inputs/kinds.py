"""Kinds of input: arrays of every layout and dtype, scalars, and what is no plain array."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from tests.fuzz.arrays import place
from tests.oracle import BFLOAT16


@dataclass(frozen=True)
class Kind:
    """A kind of input.

    Attributes
    ----------
    make : the input made of a plain array.
    plain : the plain array that it stands for.
    refused : a pattern of the TypeError's message, for what no function takes, or few do.
    package : whose arrays they are, for those that some functions take. Where it is not installed, `make`
        gives a stub, which tells how a function refuses them.
    """

    name: str
    make: Callable[[np.ndarray], Any]
    plain: Callable[[np.ndarray], np.ndarray] = np.array
    refused: str = ""
    package: str = ""


class Stub:
    """An object of another library, which NumPy would make an array of without a word."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array if dtype is None else self.array.astype(dtype)


def stub(module: str, name: str, **members: Any) -> Callable[[np.ndarray], Any]:
    """A class of that name in that module."""
    return type(name, (Stub,), {"__module__": module, **members})


def of_pandas(x: np.ndarray) -> Any:
    """A series or a data frame, by the number of dimensions."""
    name = "Series" if x.ndim == 1 else "DataFrame"
    return stub(f"pandas.core.{name.lower()}", name, to_numpy=lambda self: self.array)(x)


def lying(layout: str) -> Callable[[np.ndarray], np.ndarray]:
    """The same numbers in another layout."""
    return partial(place, layout=layout)


def masked(x: np.ndarray) -> np.ndarray:
    mask = np.zeros(x.shape, bool)
    mask.reshape(-1)[0] = True
    return np.ma.array(x, mask=mask)


def of_objects(convert: Callable[[float], Any]) -> Callable[[np.ndarray], np.ndarray]:
    def make(x: np.ndarray) -> np.ndarray:
        result = np.empty(x.shape, object)
        result.reshape(-1)[:] = [convert(float(v)) for v in x.ravel()]
        return result

    return make


def cast(dtype: Any) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: x.astype(dtype)


def first(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1)[0]


_DEVICE = {"__dlpack_device__": lambda self: (1, 0), "__dlpack__": lambda self, **_: self.array.__dlpack__()}


def of_dask(x: np.ndarray) -> Any:
    """A Dask array of chunks of one row, or element."""
    if not find_spec("dask"):
        members = {"__dask_graph__": lambda self: {}, "compute": lambda self: self.array}
        return stub("dask.array.core", "Array", **members)(x)
    import dask.array as da

    return da.from_array(x, chunks=(1, *x.shape[1:]) if x.ndim else ())


def of_torch(x: np.ndarray) -> Any:
    """A PyTorch tensor in the array's memory."""
    if not find_spec("torch"):
        return stub("torch", "Tensor", **_DEVICE)(x)
    import torch

    return torch.from_numpy(x)


def of_jax(x: np.ndarray) -> Any:
    """A JAX array; of float64, where JAX has been told to keep it."""
    if not find_spec("jax"):
        return stub("jaxlib._jax", "ArrayImpl", **_DEVICE)(x)
    import jax.numpy as jnp

    return jnp.asarray(x)


def like(x: np.ndarray, other: Any) -> Any:
    """An array of the kind of another one, where that is PyTorch's or JAX's: products do not mix kinds."""
    package = type(other).__module__.partition(".")[0]
    return of_torch(x) if package == "torch" else of_jax(x) if package == "jaxlib" else x


LAYOUTS = (
    Kind("C order", np.array),
    Kind("Fortran order", lying("F")),
    Kind("strided", lying("strided")),
    Kind("reversed", lying("reversed")),
    Kind("broadcast", lying("broadcast"), lambda x: np.broadcast_to(x[:1], x.shape).copy()),
    Kind("byte-swapped", lying("byteswapped")),
    Kind("unaligned", lying("unaligned")),
    Kind("read-only", lying("readonly")),
    Kind("memoryview", lambda x: memoryview(x) if x.dtype != BFLOAT16 else x),
    Kind("masked array without masked elements", np.ma.array),
)
EMPTY = Kind("empty array", lambda x: x[:0].copy(), lambda x: x[:0].copy())
LISTS = Kind("list of floats", lambda x: x.astype(float).tolist(), cast(float))
SCALARS = (
    Kind("0-d array", lambda x: np.array(first(x)), lambda x: np.array(first(x))),
    Kind("Python float", lambda x: 2.5, lambda x: np.array(2.5)),
    Kind("Python int", lambda x: 3, lambda x: np.array(3)),
    Kind("NumPy scalar", lambda x: first(x), lambda x: np.array(first(x))),
)
DTYPES = (
    Kind("float64", cast(np.float64), cast(np.float64)),
    Kind("float16", cast(np.float16), cast(np.float16)),
    Kind("bfloat16", cast(BFLOAT16), cast(BFLOAT16)),
    Kind("int8", cast(np.int8), cast(np.int8)),
    Kind("int32", cast(np.int32), cast(np.int32)),
    Kind("bool", cast(bool), cast(bool)),
    Kind("complex", lambda x: x * (1 + 2j), lambda x: x * (1 + 2j)),
)
REFUSED = (
    Kind("longdouble", cast(np.longdouble), refused="longdouble|float128"),
    Kind("array of objects", of_objects(float), refused="object"),
    Kind("array of Decimal", of_objects(Decimal), refused="object|Decimal"),
    Kind("array of Fraction", of_objects(Fraction), refused="object|Fraction"),
    Kind("Decimal", lambda x: Decimal(3), refused="object|Decimal"),
    Kind("strings", lambda x: x.astype(float).astype(str), refused="<U|str"),
    Kind("dates", lambda x: x.astype(np.int64).astype("M8[s]"), refused="datetime|M8"),
    Kind(
        "structured array",
        lambda x: np.zeros(x.shape, [("re", "f8"), ("im", "f8")]),
        refused="re|struct|void",
    ),
    Kind("None", lambda x: None, refused="None|object"),
    Kind("masked array with masked elements", masked, refused="mask"),
    Kind(
        "scipy.sparse matrix",
        stub("scipy.sparse._csr", "csr_matrix", nnz=3, toarray=lambda self: self.array),
        refused="sparse|csr",
    ),
    Kind("pandas Series or DataFrame", of_pandas, refused="pandas|DataFrame|Series"),
    Kind(
        "xarray DataArray",
        stub(
            *("xarray.core.dataarray", "DataArray"),
            dims=("x", "y"),
            to_numpy=lambda self: self.array,
            __dask_graph__=lambda self: None,
        ),
        refused="labels would be lost",
    ),
)
OF_PACKAGES = (
    Kind("Dask array", of_dask, refused="[Dd]ask|lazy|compute", package="dask"),
    Kind("PyTorch tensor", of_torch, refused="torch.*from_dlpack", package="torch"),
    Kind("JAX array", of_jax, refused="jax.*from_dlpack", package="jax"),
)

KINDS = (*LAYOUTS, EMPTY, LISTS, *SCALARS, *DTYPES, *REFUSED, *OF_PACKAGES)
