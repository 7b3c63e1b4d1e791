"""The array arguments of the public functions of `ozaki.dask`, `ozaki.torch` and `ozaki.jax`, as data.

Nothing here imports Dask, PyTorch or JAX before a call: the table, and the page made of it, are the same
without them.
"""

import ast
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ozaki.public import PUBLIC, forms_in
from ozaki.sums.table import REDUCTIONS
from tests.inputs.kinds import KINDS, Kind, cast, first, lying, of_dask, of_jax, of_torch
from tests.inputs.tables import ELEMENTARY, EYE, MATRIX, OF_TWO, Function, held
from tests.reductions import ONE_ARRAY

ROOT = Path(__file__).parents[2]
PACKAGES = {"ozaki.dask": "dask", "ozaki.torch": "torch", "ozaki.jax": "jax"}
"""The package that each of these modules needs."""


FORMS = tuple(n for n, r in PUBLIC.items() if r.heading in ("Elementary functions", "Functions of rows"))
"""The functions of which `ozaki.torch` and `ozaki.jax` have forms with derivatives. They check arguments
alike: see `tests/torch/test_elementary.py` and `tests/jax/test_elementary.py`."""


def public_names(module: str) -> list[str]:
    """The `__all__` of a module, read without importing it where it needs other packages, and what records
    say of forms of functions of `ozaki`."""
    if module not in (*PACKAGES, "ozaki.dask.flox", "ozaki.cupy"):
        return import_module(module).__all__
    path = ROOT / module.replace(".", "/")
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    (names,) = (
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
    )
    lists = [node for node in ast.walk(names) if isinstance(node, ast.List)]
    written = [n.value for node in lists for n in node.elts if isinstance(n, ast.Constant)]
    return written + (forms_in(PACKAGES[module]) if module in PACKAGES else [])


def missing_package(name: str) -> str | None:
    """The package that a function needs and that is not installed."""
    package = PACKAGES.get(name.rpartition(".")[0])
    return package if package and not find_spec(package) else None


def function_of(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that is imported at its call."""
    return lambda *arguments, **options: getattr(import_module(module), name)(*arguments, **options)


def _reductions(module: str, names: Iterable[str], **options: Any) -> list[Function]:
    return [Function(f"{module}.{name}", "x", function_of(module, name), **options) for name in names]


def _differentiable(module: str) -> list[str]:
    """The reductions of one array that a module has with derivatives."""
    return [name for name in REDUCTIONS if PUBLIC[name].arrays == ("x",) and module in PUBLIC[name].instead]


def _dots(module: str, name: str, axis: int | None = None, **options: Any) -> list[Function]:
    """Of a vector, or the last axis, with itself."""
    dot = function_of(module, name)
    return [
        Function(f"{module}.{name}", "x", lambda x: dot(x, x) if axis is None else dot(x, x, axis), **options)
    ]


def _twice(function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda x: function(x, x)


def _by_group(function: Callable[..., Any], arrays: int = 1) -> Callable[[Any], Any]:
    return lambda x: function(*[x] * arrays, np.arange(len(MATRIX[0])) % 2, 2)


def _products(module: str, eye: Callable[[Any], Any], **options: Any) -> list[Function]:
    matmul = function_of(module, "matmul")
    return [
        Function(f"{module}.matmul", "a", lambda x: matmul(x, eye(x)), **options),
        Function(f"{module}.matmul", "b", lambda x: matmul(eye(x), x), **options),
    ]


def _eye_of_dtype(x: Any) -> np.ndarray:
    """Of x's dtype, where that is one of JAX's products, which mix no dtypes."""
    name = getattr(getattr(x, "dtype", None), "name", "")
    return EYE.astype(name if name in ("float32", "complex64", "complex128") else np.float64)


def _tensor_eye(x: Any) -> Any:
    import torch

    known = isinstance(x, torch.Tensor) and x.dtype in (torch.float32, torch.complex64, torch.complex128)
    return torch.eye(3, dtype=x.dtype if known else torch.float64)


def _of_tensor(change: Callable[[Any], Any], convert: Callable = np.array) -> Callable[[np.ndarray], Any]:
    """A tensor of the converted array, changed."""
    return lambda x: change(of_torch(convert(x)))


def _complex(x: np.ndarray) -> np.ndarray:
    return x * (1 + 2j)


TENSORS = (
    Kind("tensor", of_torch),
    Kind("transposed tensor", _of_tensor(lambda t: t.mT.contiguous().mT)),
    Kind("strided tensor", lambda x: of_torch(lying("strided")(x))),
    Kind(
        "expanded tensor",
        _of_tensor(lambda t: t[:1].expand(t.shape)),
        lambda x: np.broadcast_to(x[:1], x.shape).copy(),
    ),
    Kind("tensor that requires a gradient", _of_tensor(lambda t: t.requires_grad_())),
    Kind("complex tensor", _of_tensor(lambda t: t, _complex), _complex),
    Kind("conjugate view", _of_tensor(lambda t: t.conj(), lambda x: _complex(x).conj()), _complex),
    Kind("negative view", _of_tensor(lambda t: t.conj().imag, lambda x: x * 1j), np.negative),
    Kind("tensor of float32", _of_tensor(lambda t: t.float()), cast(np.float32)),
    Kind("empty tensor", _of_tensor(lambda t: t[:0]), lambda x: x[:0].copy()),
    Kind("0-d tensor", _of_tensor(lambda t: t.flatten()[0]), lambda x: np.array(first(x))),
    *(
        Kind(
            f"tensor of {name}",
            _of_tensor(lambda t, name=name: getattr(t, name)()),
            refused="tensor of",
        )
        for name in ("half", "bfloat16", "int", "bool")
    ),
    Kind("sparse tensor", _of_tensor(lambda t: t.to_sparse()), refused="sparse"),
    Kind("NumPy array", np.array, refused="ndarray"),
    Kind("list of floats", lambda x: x.tolist(), refused="list"),
    Kind("Python float", lambda x: 2.5, refused="float"),
    Kind("None", lambda x: None, refused="None"),
    Kind("Dask array", of_dask, refused="Array"),
    Kind("JAX array", of_jax, refused="Array"),
)
"""What `ozaki.torch` is given: its functions take tensors and nothing else."""

_DASK: dict[str, Any] = {"kinds": KINDS}
_TORCH: dict[str, Any] = {"kinds": TENSORS, "plain": of_torch, "holds": "floating"}
_JAX: dict[str, Any] = {"kinds": KINDS, "holds": "floating"}

EXTRAS: dict[str, tuple[Function, ...]] = {
    "Dask arrays": (
        *(f for n in ELEMENTARY for f in _reductions("ozaki.dask", (n,), holds=held(n), **_DASK)),
        *(
            Function(f"ozaki.dask.{n}", y, _twice(function_of("ozaki.dask", n)), holds="real", **_DASK)
            for n, y in OF_TWO.items()
        ),
        *_reductions("ozaki.dask", (*ONE_ARRAY, "average", "cumsum"), **_DASK),
        *(
            Function(
                f"ozaki.dask.{n}",
                "x",
                partial(function_of("ozaki.dask", n), window=1),
                takes="axes",
                holds="real",
                **_DASK,
            )
            for n in PUBLIC
            if n.startswith("rolling_")
        ),
        *(
            Function(
                f"ozaki.dask.group_{n}",
                "values",
                _by_group(function_of("ozaki.dask", f"group_{n}")),
                takes="axes",
                **_DASK,
            )
            for n in ("sum", "mean", "var", "std", "nansum", "nanmean", "nanvar", "nanstd")
        ),
        Function(
            "ozaki.dask.group_average",
            "values",
            lambda x: function_of("ozaki.dask", "group_average")(
                x, np.arange(len(MATRIX[0])) % 2, 2, np.ones(len(MATRIX[0]))
            ),
            takes="axes",
            **_DASK,
        ),
        Function(
            "ozaki.dask.group_cov",
            "values",
            _by_group(function_of("ozaki.dask", "group_cov")),
            takes="axes",
            holds="real",
            **_DASK,
        ),
        Function(
            "ozaki.dask.group_dot",
            "x",
            _by_group(function_of("ozaki.dask", "group_dot"), 2),
            takes="axes",
            **_DASK,
        ),
        *_reductions("ozaki.dask", ("cov", "corrcoef"), takes="axes", base=MATRIX, holds="real", **_DASK),
        *_dots("ozaki.dask", "dot", takes="axes", axis=-1, **_DASK),
        *_dots("ozaki.dask", "vdot", **_DASK),
        *_products("ozaki.dask", lambda x: EYE, base=MATRIX, takes="axes", **_DASK),
    ),
    "PyTorch": (
        *_reductions("ozaki.torch", _differentiable("torch"), **_TORCH),
        *_dots("ozaki.torch", "vdot", **_TORCH),
        *_dots("ozaki.torch", "dot", takes="axes", **_TORCH),
        *_products("ozaki.torch", _tensor_eye, takes="axes", **_TORCH),
        Function(
            "ozaki.torch.cumsum",
            "x",
            lambda x: function_of("ozaki.torch", "cumsum")(x, 0),
            takes="axes",
            **_TORCH,
        ),
        Function(
            "ozaki.torch.einsum",
            "operand",
            lambda x: function_of("ozaki.torch", "einsum")("...j,jk->...k", x, _tensor_eye(x)),
            takes="axes",
            **_TORCH,
        ),
    ),
    "JAX": (
        *_reductions("ozaki.jax", _differentiable("jax"), **_JAX),
        *_products("ozaki.jax", _eye_of_dtype, takes="axes", **_JAX),
    ),
}
