"""`python -m ozaki info`: what this machine has, and what to install for the rest."""

from __future__ import annotations

import platform
from importlib.util import find_spec
from typing import Any

import ml_dtypes
import numpy as np
from rich.console import Console
from rich.table import Table

import ozaki
from multiword.engines import ENGINES, WORDS, get_engine
from multiword.engines import libcublas as cublas
from multiword.engines.int8_cpu.engine import Int8Cpu
from multiword.engines.tensorcore import TensorCore
from multiword.runtime import install
from multiword.runtime.arrays import import_cupy
from multiword.runtime.compiled import compiles
from ozaki.execution.executors import EXECUTORS

EXTRAS = {
    "sparse": "scipy",
    "dask": "dask",
    "xarray": "xarray",
    "torch": "torch",
    "jax": "jax",
    "examples": "matplotlib",
}
"""The module that tells whether an extra is installed, apart from those for a GPU."""


def libraries() -> dict[str, str]:
    """Versions of the libraries that compute here, by name."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    found = {
        "ozaki-multiword": ozaki.__version__,
        "Python": f"{platform.python_version()} on {platform.machine()}",
        "NumPy": f"{np.__version__} with {blas['name']} {blas['version']}",
        "ml_dtypes": ml_dtypes.__version__,
        "numba": _attempt(_numba),
    }
    if find_spec("cupy"):
        found["CuPy"] = _attempt(lambda: import_cupy().__version__)
        found["CUDA driver"] = _attempt(lambda: _cuda_version(import_cupy().cuda.runtime.driverGetVersion()))
        found["cuBLAS"] = _attempt(_cublas_version)
    return found


def engines() -> dict[str, tuple[bool, str]]:
    """Return each engine's name, whether it works here, and its products or why not."""
    found: dict[str, tuple[bool, str]] = {}
    for name in ENGINES:
        try:
            engine = get_engine(name)
            kernel = engine.kernel if isinstance(engine, Int8Cpu) else None
            products = ", ".join(p for p in WORDS if p in engine.products)
            text = f"{products} products" + (f", int8 by {kernel.name}" if kernel else "")
            found[name] = (True, f"a model, for study: {text}" if isinstance(engine, TensorCore) else text)
        except Exception as error:  # a broken installation can raise anything: show it and go on
            found[name] = (False, _first_line(error))
    if found["cublas"][0] and not devices():
        found["cublas"] = (False, "no NVIDIA GPU was found, or its driver is too old")
    return found


def devices() -> list[str]:
    """The GPUs, in words."""
    try:
        runtime = import_cupy().cuda.runtime
        properties = [runtime.getDeviceProperties(i) for i in range(runtime.getDeviceCount())]
    except Exception:  # no CuPy, no driver, no device: each is reported under `missing`
        return []
    return [
        f"{p['name'].decode()}, sm_{p['major']}{p['minor']}, {p['multiProcessorCount']} SMs, "
        f"{p['totalGlobalMem'] / 2**30:.0f} GiB"
        for p in properties
    ]


def missing() -> list[str]:
    """Return what is missing, in plain words, and the command that installs it."""
    found = []
    if not find_spec("cupy"):
        found.append(str(install.missing("CuPy is not installed, so no GPU can be used", "cuda13")))
    elif not devices():
        found.append("CuPy is installed but finds no GPU: check that nvidia-smi lists one")
    elif not engines()["cublas"][0]:
        found.append(str(install.missing("the cuBLAS library was not found", "cuda13")))
    absent = [(extra, name) for extra, name in EXTRAS.items() if not find_spec(name)]
    return found + [str(install.missing(f"{name} is not installed", extra)) for extra, name in absent]


def info(console: Console) -> None:
    """Print libraries, devices, engines, what is missing, and the executors of products."""
    table = table_of(libraries(), devices(), engines(), missing())
    for executor in EXECUTORS:
        table.add_row(f"executor {executor.name}", executor.about)
    console.print(table, highlight=False, markup=False)


def table_of(
    libraries: dict[str, str], devices: list[str], engines: dict[str, tuple[bool, str]], missing: list[str]
) -> Table:
    """Return what the functions of these names return, as a table."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, text in libraries.items():
        table.add_row(name, text)
    for i, text in enumerate(devices):
        table.add_row(f"GPU {i}", text)
    for name, (works, text) in engines.items():
        reason = text.split(": pip install")[0]  # the command is below, under "missing"
        table.add_row(f"engine {name}", text if works else f"not available: {reason}")
    for text in missing or ["nothing"]:
        table.add_row("missing", text)
    return table


def _numba() -> str:
    if not compiles():
        return "not used: NumPy's forms compute the same bits more slowly"
    import numba

    return f"{numba.__version__}, compiles for CPUs"


def _attempt(query: Any) -> str:
    try:
        return str(query())
    except Exception as error:  # as above: an unusable library is reported
        return f"unusable: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _cuda_version(number: int) -> str:
    return f"for CUDA {number // 1000}.{number % 1000 // 10}"


def _cublas_version() -> str:
    number = cublas.version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
