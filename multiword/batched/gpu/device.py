"""Batched products on a GPU: the kernel that is chosen, and the result's place."""

from __future__ import annotations

import numpy as np

from multiword.batched import host
from multiword.batched.gpu import cublas
from multiword.batched.gpu.kernels import FALLBACKS, kernel_launcher
from multiword.batched.gpu.plans import Tuning, choose
from multiword.batched.gpu.storage import Call, Launcher, place, result_array
from multiword.batched.problem import Problem
from multiword.runtime.arrays import Array


def multiply(problem: Problem, tuning: Tuning | None = None) -> tuple[Array, Call | None, Launcher | None]:
    """Return the result of `stored_shape`, in `problem.out` if that is given.

    With it come the call and what launched it, if one launch was all there was to do.
    """
    with problem.a.first.device:
        result = result_array(problem)
        call = launch = None
        if problem.alpha == 0 or problem.mnk[2] == 0:
            zero = problem.xp.zeros(problem.stored_shape, np.float32)
            result[...] = host.scaled(problem, zero).astype(problem.word)
        elif result.size:
            call = place(problem, result)
            launch = launcher(call, tuning)
            if launch is None:
                cublas.multiply(call)
            else:
                launch(*call.addresses)
        if problem.out is None or result is problem.out:
            return result, call, launch
        problem.out[...] = result
        return problem.out, None, None


def launcher(call: Call, tuning: Tuning | None = None) -> Launcher | None:
    """What launches a call, as asked for or as chosen from measurements; None: not by one launch."""
    chosen = tuning or choose(call.case)
    if chosen.kernel != "cublas":
        return kernel_launcher(call, chosen, () if tuning else FALLBACKS)
    if 2 in (call.case.alpha, call.case.beta):  # cuBLAS's real products take no complex scalars
        return kernel_launcher(call, FALLBACKS[-1])
    return cublas.launcher(call)
