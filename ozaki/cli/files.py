"""`python -m ozaki a.npy b.npy -o c.npy`: products of matrices in files."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from multiword.engines import Engine, declared, get_engine
from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.options import exactly
from ozaki.api import accurate_dgemm, accurate_zgemm, plan
from ozaki.cli.decimals import float64_of
from ozaki.cli.matrix_market import read_matrix_market
from ozaki.cli.output import OutputFile
from ozaki.fingerprints import fingerprint


class Observed:
    """An engine that reports the multiplications of every product it has computed."""

    name: str
    padding: int
    products: frozenset[str]

    def __init__(self, engine: Engine, report: Callable[[int], None]) -> None:
        self._engine, self._report = engine, report

    def __getattr__(self, name: str) -> Any:
        if name == "reduces":  # nothing is multiplied but by `multiply`
            raise AttributeError(name)
        return getattr(self._engine, name)

    def multiply(
        self, product: str, a: Array, bt: Array, *, out: Array | None = None, **factors: float
    ) -> Array:
        """As `Engine.multiply`; on the CPU a batch is computed product by product, to show progress."""
        if a.ndim == 3 and out is not None and not declared(self._engine, "on_gpu"):
            for x, yt, z in zip(a, bt, out, strict=True):
                self.multiply(product, x, yt, out=z, **factors)
            return out
        result = self._engine.multiply(product, a, bt, out=out, **factors)
        self._report(a.size * bt.shape[-2])
        return result


def multiply_files(
    first: Path, second: Path, output: Path, options: dict[str, Any], console: Console
) -> None:
    """Multiply the matrices or vectors of two files into a third, which is checked first and written last.

    The result is float64, or complex128 if a matrix is complex. `options` are those of `accurate_dgemm`;
    with the engine "cublas" the matrices are copied to the GPU and the result back.
    """
    target = OutputFile(output, (first, second))
    a, b = load_numbers(first), load_numbers(second)
    if a.shape[-1] != b.shape[0]:
        raise ValueError(f"inner dimensions differ: {first} is {a.shape}, {second} is {b.shape}")
    if "c" in (a.dtype.kind, b.dtype.kind) and output.suffix.lower() == ".csv":
        raise ValueError(f"cannot write {output}: the result is complex, and .csv files hold real numbers")
    shape = a.shape[:-1] + b.shape[1:]
    a, b = np.atleast_2d(a), b[:, None] if b.ndim == 1 else b
    engine = get_engine(options.get("engine", "auto"))
    on_gpu = engine.name == "cublas"
    if on_gpu:
        a, b = (import_cupy().asarray(x) for x in (a, b))
    start = time.perf_counter()
    result = _multiply(a, b, options | {"engine": engine}, console)
    seconds = time.perf_counter() - start
    result = (result.get() if on_gpu else result).reshape(shape)
    target.write(result)
    size = " x ".join(map(str, shape)) or "one number"
    text = f"{output}: {size}, {seconds:.2f} s, fingerprint {fingerprint(result)}"
    console.print(text, highlight=False, soft_wrap=True)


def _multiply(a: Array, b: Array, options: dict[str, Any], console: Console) -> Array:
    """Return the product; on a terminal show its progress."""
    percentage = TextColumn("{task.percentage:>3.0f} %")
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), percentage, TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task, total = progress.add_task("planning", total=None), 1
        if a.size and b.size:
            planned = plan(a, b, **options)
            console.print(str(planned), highlight=False, soft_wrap=True)
            total = planned.products * a.size * b.shape[1]
        progress.update(task, description="multiplying", total=total)
        observed = Observed(options["engine"], lambda done: progress.advance(task, done))
        gemm = accurate_zgemm if "c" in (a.dtype.kind, b.dtype.kind) else accurate_dgemm
        return gemm(a, b, **options | {"engine": observed})


def load_numbers(path: Path) -> np.ndarray:
    """Return the matrix or vector in a .npy, .csv or .mtx file as float64 or complex128, without rounding.

    "-" is a .npy file from the standard input. OSError or ValueError if there is none, or one that these
    dtypes cannot hold exactly; MemoryError for one that is too large.
    """
    try:
        x = _READERS.get(path.suffix.lower(), _read_npy)(path)
    except MemoryError as error:
        raise MemoryError(f"{path}: {error}") from error
    if x.dtype.kind not in "fciub" or x.ndim not in (1, 2):
        holds = f"it holds {x.dtype} of shape {x.shape}"
        raise ValueError(f"{path} must hold a matrix or vector of numbers, but {holds}")
    dtype = np.dtype(np.complex128 if x.dtype.kind == "c" else np.float64)
    advice = f"which {dtype} cannot hold exactly; to have them rounded: np.save(name, x.astype(np.{dtype}))"
    if x.dtype.kind in "fc" and x.dtype.itemsize > dtype.itemsize:
        raise ValueError(f"{path} holds {x.dtype}, {advice}")
    try:
        return exactly(str(path), x, dtype)
    except TypeError as error:
        raise ValueError(f"{path} holds integers of more than 53 bits, {advice}") from error


def _read_npy(path: Path) -> np.ndarray:
    in_order = str(path) == "-" or path.is_fifo()  # NumPy asks a file for its position
    content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes() if in_order else b""
    try:
        x = np.load(BytesIO(content) if in_order else path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a .npy file of numbers") from error
    if not isinstance(x, np.ndarray):
        x.close()
        raise ValueError(f"{path} is an archive of several arrays; a .npy file with one matrix is needed")
    return x


def _read_csv(path: Path) -> np.ndarray:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # of a file without numbers
            return np.loadtxt(path, delimiter=",", ndmin=2, converters=float64_of, encoding="utf-8-sig")
    except UserWarning as error:
        raise ValueError(f"{path} is empty") from error
    except ValueError as error:
        raise ValueError(f"{path} is no table of numbers with commas: {error.__cause__ or error}") from error


_READERS: dict[str, Callable[[Path], np.ndarray]] = {".csv": _read_csv, ".mtx": read_matrix_market}
