"""`python -m ozaki compile`: compile now what would be compiled at first use, for containers and clusters."""

from __future__ import annotations

import time
from pkgutil import walk_packages

import numpy as np
from rich.console import Console

import ozaki
from multiword.engines.int8_cpu.kernels import available_kernels
from multiword.runtime.compiled import compiled


def compile_all() -> bool:
    """Compile every function for the CPU, or load it from disk; return False where numba does not compile."""
    names = [module.name for module in walk_packages(ozaki.__path__, "ozaki.")]
    if None in [compiled(name) for name in names if name.endswith("_numba")]:
        return False
    loops = compiled("ozaki.sums.exact.loops_numba")
    for function in loops.SIGNATURES:
        for dtype in (np.float64, np.float32):
            loops.loop(function, np.dtype(dtype))
    for kernel in available_kernels()[:1]:
        steps = compiled("multiword.engines.int8_cpu.loops").compile_loops(kernel)
        steps.split()
        steps.multiply()
        in_one_call = compiled("ozaki.execution.in_bytes_numba").compiled_products
        in_one_call(kernel.name, steps.split_units, steps.multiply_units)
    return True


def compile_and_say(console: Console) -> bool:
    """Compile everything, and print how long it took and where the code is kept."""
    console.print("Compiling for this processor, which takes about twenty seconds ...", highlight=False)
    start = time.perf_counter()
    if not compile_all():
        console.print("numba cannot be imported, or is told not to compile: NumPy's forms are used")
        return False
    from multiword.runtime.jit import folders

    kept = f"done in {time.perf_counter() - start:.1f} s; kept in {' or '.join(map(str, folders()))}"
    console.print(kept, highlight=False, soft_wrap=True)
    return True
