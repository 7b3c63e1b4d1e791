"""`python -m ozaki compile`: compile now what would be compiled at first use, for containers and clusters.

For a CPU that is every function, in a process for each core; for a GPU the kernels of usual calls: others
depend on sizes and on data.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_context
from pkgutil import walk_packages
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

import ozaki
from multiword.runtime.arrays import import_cupy
from multiword.runtime.compiled import compiled, compiles
from multiword.runtime.parallel import thread_count
from ozaki import linalg
from ozaki.cli.info import devices, engines


def modules() -> tuple[str, ...]:
    """Return the modules of compiled functions; what takes longest begins first."""
    names = [module.name for module in walk_packages(ozaki.__path__, "ozaki.")]
    forms = [name for name in names if name.endswith("_numba")]
    return tuple(sorted(forms, key=lambda name: name != "ozaki.linalg.small.loops_numba"))


@cache
def declared(names: tuple[str, ...]) -> list[list[Any]]:
    """Import modules, and return their functions, in groups that share what they call."""
    from multiword.runtime.jit import DECLARED

    groups, first = [], 0
    for name in names:
        on_demand = getattr(compiled(name), "ON_DEMAND", ())
        groups += [[function] for function in DECLARED[first:]]
        for declare in on_demand:
            first = len(DECLARED)
            declare()
            groups.append(DECLARED[first:])
        first = len(DECLARED)
    return groups


def count(names: tuple[str, ...]) -> int:
    """Return how many groups there are."""
    return len(declared(names))


def work(names: tuple[str, ...], i: int) -> None:
    """Compile a group of functions, or load them from disk."""
    for function in declared(names)[i]:
        function.ready()


def compile_all(console: Console) -> None:
    """Compile every function for the CPU that is not on disk."""
    with (
        ProcessPoolExecutor(thread_count(), get_context("spawn")) as pool,
        Progress(console=console, disable=not console.is_terminal) as progress,
    ):
        bar = progress.add_task("", total=None)
        names = modules()
        waiting = [pool.submit(work, names, i) for i in range(pool.submit(count, names).result())]
        progress.update(bar, total=len(waiting))
        for one in as_completed(waiting):
            one.result()
            progress.advance(bar)


def products(xp: Any, dtype: str) -> None:
    """Multiply small and larger matrices, ordinary ones and such as need wider integers, and stacks."""
    for n in (16, 100, 300, 1024):
        a, b = (_numbers(xp, (n, n), dtype, seed) for seed in (1, 2))
        for left, right in ((a, b), (a.T, b), (xp.tril(a), xp.tril(b)), (a * a**2, b)):
            ozaki.matmul(left, right)
        ozaki.matmul(a, b, accuracy="normwise")
    for stack, n in ((20, 16), (20, 64), (4, 200)):
        a, b = (_numbers(xp, (stack, n, n), dtype, seed) for seed in (3, 4))
        ozaki.matmul(a, b)


def sums(xp: Any, dtype: str) -> None:
    """Sum vectors, rows and columns."""
    x = _numbers(xp, (1024, 1000), dtype, 1)
    for reduce in (ozaki.sum, ozaki.mean, ozaki.norm, ozaki.var):
        for y, axis in ((x.ravel(), 0), (x, 0), (x, 1), (x[:, :100].ravel(), 0)):
            reduce(y, axis=axis)
    ozaki.dot(x.ravel(), x.ravel()[::-1].copy())
    ozaki.group_sum(x.real.ravel(), xp.arange(x.size) % 100, 100)


def systems(xp: Any, dtype: str) -> None:
    """Factorize and solve."""
    a = _numbers(xp, (512, 512), dtype, 1) + 16 * xp.eye(512, dtype=dtype)
    linalg.solve(a, a[:, :3])
    linalg.cholesky(a @ a.conj().T)
    linalg.qr(a)


def small_systems(xp: Any, dtype: str) -> None:
    """Factorize and solve stacks of small matrices."""
    a = _numbers(xp, (2, 8, 8), dtype, 1)
    a = a @ a.conj().swapaxes(-1, -2) + xp.eye(8, dtype=dtype)
    for function in (linalg.inv, linalg.det, linalg.cholesky, linalg.qr, linalg.eigh, linalg.svd):
        function(a)


def proofs(xp: Any, dtype: str) -> None:
    """Solve with proofs, well-conditioned systems and ill-conditioned ones."""
    for n, digits in ((512, 0), (1024, 0), (512, 13)):
        a = _numbers(xp, (n, n), dtype, 1)
        linalg.verified.solve(a * xp.logspace(0, -digits, n), a[:, 0])


CALLS = tuple((make, dtype) for make in (products, sums) for dtype in "dfDF") + tuple(
    (make, dtype) for make in (systems, small_systems, proofs) for dtype in "dD"
)
"""What is called with CuPy arrays, so that its kernels are compiled."""


def _numbers(xp: Any, shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    numbers = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return xp.asarray((numbers if dtype in "DF" else numbers.real).astype(dtype))


def compile_for_gpu() -> None:
    """Compile the kernels of usual calls for this GPU, or load them from disk, in threads."""
    xp = import_cupy()

    def call(make: Callable[[Any, str], None], dtype: str) -> None:
        with xp.cuda.Stream(non_blocking=True) as stream:
            make(xp, dtype)
            stream.synchronize()

    with ThreadPoolExecutor(max_workers=8) as pool:
        for done in [pool.submit(call, *each) for each in CALLS]:
            done.result()


def compile_and_say(console: Console) -> bool:
    """Compile everything, and print how long it took and where the code is kept."""
    if not compiles():
        console.print("numba cannot be imported, or is told not to compile: NumPy's forms are used")
        return False
    console.print("Compiling for this processor: a minute and a half on two cores ...", highlight=False)
    start = time.perf_counter()
    compile_all(console)
    from multiword.runtime.jit import folders

    kept = f"done in {time.perf_counter() - start:.1f} s; kept in {' or '.join(map(str, folders()))}"
    console.print(kept, highlight=False, soft_wrap=True)
    if devices() and engines()["cublas"][0]:
        console.print("Compiling for this GPU, which takes about two minutes ...", highlight=False)
        start = time.perf_counter()
        compile_for_gpu()
        console.print(f"done in {time.perf_counter() - start:.1f} s; kept by CuPy", highlight=False)
    return True
