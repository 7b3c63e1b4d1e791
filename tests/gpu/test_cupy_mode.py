"""CuPy's mode on a GPU: the bits of `ozaki.matmul`, a program of others, CuPy itself outside of blocks."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ozaki

cupy = pytest.importorskip("cupy")

import ozaki.cupy  # noqa: E402
from ozaki.cupy import emulated  # noqa: E402

pytestmark = pytest.mark.gpu

PROGRAM = Path(__file__).parents[1] / "programs" / "hartree_fock.py"
RNG = np.random.default_rng(5)
A, B = RNG.standard_normal((40, 60)), RNG.standard_normal((60, 50))
STACK = RNG.standard_normal((3, 40, 60))


def matmul(a, b, accuracy):
    return ozaki.matmul(a, b, accuracy=accuracy)


CALLS = {
    "@": (lambda xp, a, b: a @ b, matmul, A, B),
    "@ of a stack": (lambda xp, a, b: a @ b, matmul, STACK, B),
    "matmul with a dtype": (lambda xp, a, b: xp.matmul(a, b, dtype=a.dtype), matmul, A, B),
    "dot": (lambda xp, a, b: xp.dot(a, b), matmul, A, B),
    "einsum": (lambda xp, a, b: xp.einsum("ij,jk->ik", a, b), matmul, A, B),
    "einsum of a stack": (lambda xp, a, b: xp.einsum("sij,jk->sik", a, b), None, STACK, B),
    "tensordot": (lambda xp, a, b: xp.tensordot(a, b, 1), matmul, A, B),
    "inner": (lambda xp, a, b: xp.inner(a, b), lambda a, b, w: matmul(a, b.T, w), A, STACK[0]),
    "vdot": (lambda xp, a, b: xp.vdot(a, b), lambda a, b, w: matmul(a.ravel(), b.ravel(), w), A, STACK[0]),
}


@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
@pytest.mark.parametrize("accuracy", ["normwise", "exact", 30])
@pytest.mark.parametrize("name", CALLS)
def test_bits_are_this_librarys(name, accuracy, dtype):
    call, ours, a, b = CALLS[name]
    a, b = ((x + 1j * x[::-1] if dtype == "complex128" else x).astype(dtype) for x in (a, b))
    with emulated(accuracy, dtypes=dtype) as calls:
        result = call(cupy, cupy.asarray(a), cupy.asarray(b)).get()
    assert sum(c.products for c in calls) >= 1
    assert all(c.seconds > 0 for c in calls)
    if ours is None:
        expected = ozaki.matmul(a.reshape(-1, a.shape[-1]), b, accuracy=accuracy).reshape(result.shape)
    else:
        expected = ours(a.conj() if name == "vdot" else a, b, accuracy)
    assert result.tobytes() == np.asarray(expected).tobytes()


def test_out_and_mixed_dtypes():
    a, b, out = cupy.asarray(A), cupy.asarray(B.astype("f4")), cupy.empty((40, 50))
    with emulated() as calls:
        assert cupy.matmul(a, b, out=out) is out
        a.dot(cupy.arange(60))
    assert out.get().tobytes() == ozaki.matmul(A, B.astype("f4"), accuracy="normwise").tobytes()
    assert [c.function for c in calls] == ["matmul", "dot"]


def test_the_minimum_leaves_small_products_to_cupy():
    a, b = cupy.asarray(A), cupy.asarray(B)
    expected = (a @ b).get()
    with emulated(minimum=40 * 60 * 50 + 1) as calls:
        assert (a @ b).get().tobytes() == expected.tobytes()
    assert calls == []
    with emulated(minimum=40 * 60 * 50) as calls:
        a @ b
    assert len(calls) == 1


def test_what_calls_them_and_what_stays_native():
    x = cupy.asarray(A)
    with emulated() as calls:
        cupy.cov(x)
        cupy.linalg.pinv(x)
    assert len(calls) >= 2
    before = len(calls)
    cupy.cov(x)
    x.astype("f4") @ x.T.astype("f4")
    assert len(calls) == before


def test_many_calls_are_timed_in_bounded_memory():
    x = cupy.asarray(A)
    with emulated() as calls:
        for _ in range(1500):
            x @ x.T
        cupy.cuda.Device().synchronize()
        x @ x.T
        assert len(calls[0]._pending) < 600
    assert calls[0].products == 1501
    assert calls[0].seconds > 0


def hartree_fock():
    spec = importlib.util.spec_from_file_location("hartree_fock", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_program_that_knows_nothing_of_the_mode():
    program = hartree_fock()
    hydrogen, chain = program.energy(2, 1.4), program.energy(6, 1.8)
    assert hydrogen == pytest.approx(-1.11671432, abs=1e-8)  # Szabo and Ostlund give −1.1167
    with emulated("exact") as exact:
        correct = program.energy(6, 1.8)
    with emulated() as calls:
        ours = program.energy(6, 1.8)
    assert correct == pytest.approx(chain, abs=1e-11)
    assert ours == pytest.approx(chain, abs=1e-11)
    assert {c.function for c in calls} == {"matmul", "dot", "tensordot"}
    assert sum(c.products for c in calls) == sum(c.products for c in exact) > 300
    print(f"native {chain:.15f}, normwise {ours:.15f}, exact {correct:.15f}\n{calls}")


def test_scripts_run_in_the_mode():
    code = f"import ozaki.cupy; print(len(ozaki.cupy.run({str(PROGRAM)!r})))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "OZAKI_CUPY": "normwise"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    energy, entries = done.stdout.split()
    assert float(energy) == pytest.approx(hartree_fock().energy(6, 1.8), abs=1e-10)
    assert int(entries) >= 5
