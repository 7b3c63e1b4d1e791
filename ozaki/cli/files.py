"""`python -m ozaki a.npy b.npy -o c.npy`: products of matrices in files."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from multiword.engines import Engine, get_engine
from multiword.runtime.arrays import Array, import_cupy
from ozaki.api import accurate_dgemm, accurate_zgemm, plan
from ozaki.fingerprints import fingerprint


class Observed:
    """An engine that reports the multiplications of every product it has computed."""

    def __init__(self, engine: Engine, report: Callable[[int], None]) -> None:
        self._engine, self._report = engine, report
        self.name, self.padding, self.products = engine.name, engine.padding, engine.products

    def multiply(
        self,
        product: str,
        a: Array,
        bt: Array,
        *,
        out: Array | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> Array:
        """As `Engine.multiply`; on the CPU a batch is computed one by one, to show it advance."""
        multiply = self._engine.multiply
        if a.ndim == 3 and out is not None and self.name != "cublas":
            for x, yt, z in zip(a, bt, out, strict=True):
                multiply(product, x, yt, out=z, alpha=alpha, beta=beta)
                self._report(x.shape[0] * x.shape[1] * yt.shape[0])
            return out
        result = multiply(product, a, bt, out=out, alpha=alpha, beta=beta)
        self._report(a.size * bt.shape[-2])
        return result


def multiply_files(
    first: Path, second: Path, output: Path, options: dict[str, Any], console: Console
) -> None:
    """Multiply the matrices of two .npy files into a third, which appears when it is complete.

    The result is float64, or complex128 if a matrix is complex. `options` are those of
    `accurate_dgemm`; with the engine "cublas" the matrices are copied to
    the GPU and the result back.
    """
    if not output.parent.is_dir():
        raise ValueError(f"{output.parent} is not a directory to write {output.name} to")
    a, b = load_matrix(first), load_matrix(second)
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"the shapes do not fit: {first} is {a.shape} and {second} is {b.shape}")
    engine = get_engine(options.pop("engine", "auto"))
    if engine.name == "cublas":
        a, b = (import_cupy().asarray(x) for x in (a, b))
    start = time.perf_counter()
    result = _multiply(a, b, engine, options, console)
    seconds = time.perf_counter() - start
    save(output, result.get() if engine.name == "cublas" else result)
    size = f"{result.shape[0]} x {result.shape[1]}"
    console.print(
        f"{output}: {size}, {seconds:.2f} s, fingerprint {fingerprint(result)}",
        highlight=False,
        soft_wrap=True,
    )


def load_matrix(path: Path) -> np.ndarray:
    """Return the matrix in a .npy file as float64 or complex128; OSError or ValueError if there is none."""
    try:
        x = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is not a .npy file of numbers") from error
    if not isinstance(x, np.ndarray):
        x.close()
        raise ValueError(f"{path} is an archive of several arrays; a .npy file with one matrix is needed")
    if x.dtype.kind not in "fciub" or x.ndim != 2:
        raise ValueError(f"{path} must hold a matrix of numbers, but it holds {x.dtype} of shape {x.shape}")
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64, copy=False)


def save(path: Path, x: np.ndarray) -> None:
    """Write a .npy file under this very name; an older file stays until the new one is complete."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            np.save(stream, x)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # as an ordinary new file; mkstemp's is private
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _multiply(a: Array, b: Array, engine: Engine, options: dict[str, Any], console: Console) -> Array:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("planning", total=None)
        total = 1
        if a.size and b.size:
            steps = plan(a, b, engine=engine, **options)
            console.print(str(steps), highlight=False, soft_wrap=True)
            total = steps.products * a.size * b.shape[1]
        progress.update(task, description="multiplying", total=total)
        observed = Observed(engine, lambda done: progress.advance(task, done))
        face = accurate_zgemm if "c" in (a.dtype.kind, b.dtype.kind) else accurate_dgemm
        return face(a, b, engine=observed, **options)
