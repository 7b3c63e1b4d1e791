"""What linear algebra returns of CuPy arrays, beside the bits that the families compare."""

import numpy as np
import pytest

from multiword.engines.machine import block_memory
from ozaki import linalg
from ozaki.linalg import panels, products, rotations, two_sided, two_sided_cuda, verified
from ozaki.linalg.small import loops_cuda
from ozaki.linalg.verified.tools import preconditioner, regularity
from tests.linalg.test_stacks import KINDS, OF_ANY_SHAPE, SQUARE, agree, drawn, outcome


def test_enclosures_are_arrays_of_the_host(cupy):
    a = np.array([[2.0, 1], [1, 2]])
    assert np.asarray(verified.eigh(cupy.asarray(a))).tolist() == [1, 3]
    assert verified.eigh(cupy.zeros((0, 0))).cluster.tolist() == []
    low, high = verified.solve(cupy.asarray(a), cupy.ones(2)).interval()
    assert bool(((low <= 1 / 3) & (high >= 1 / 3)).all())


def test_imaginary_parts_of_the_diagonal_are_not_read(cupy):
    a = np.array([[1 + 2.0**600 * 1j, 1], [1, 1]])
    assert np.array_equal(linalg.eigvalsh(cupy.asarray(a)).get(), linalg.eigvalsh(a))


def test_null_vectors_and_certificates(cupy):
    with pytest.raises(verified.SingularError) as raised:
        verified.inv(cupy.array([[1.0, 2.0**40], [1.0, 2.0**40]]))
    assert raised.value.null_vector.tolist() in ([-(2.0**40), 1], [2.0**40, -1])
    assert verified.certify(cupy.eye(3)).inv().value.tolist() == np.eye(3).tolist()
    assert verified.certify(cupy.zeros((0, 0))).inv().value.shape == (0, 0)


def test_approximate_inverses_are_nearer_from_the_left(cupy):
    """Of the two that cuSOLVER offers the other one has an I - RA some 20 times as large, however A lies."""
    n, rng = 1024, np.random.default_rng(0)
    orthogonal = [np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2)]
    matrix = orthogonal[0] * 10.0 ** -np.linspace(0, 14, n) @ orthogonal[1]  # of condition number 1e14
    for order in ("C", "F"):
        a = cupy.asarray(matrix, order=order)
        r = preconditioner.left_inverse(a)
        left, right = (
            float(abs(products.multiply(x, y, "exact") - cupy.eye(n)).sum(axis=1).max())
            for x, y in ((r, a), (a, r))
        )
        assert left < regularity.ENOUGH
        assert left < right / 4
        assert verified.certify(a).regularity.tier == "certified"


def test_panels_in_shared_memory_and_beyond(cupy):
    """Of up to some 25,000 rows a panel stays in shared memory, half as many if complex."""
    rng = np.random.default_rng(0)
    for w, m in ((5, 40), (128, 1000), (127, 8191), (128, 13_000), (128, 30_000)):
        for imaginary in (0, 1j):
            x = rng.standard_normal((w, m)) + imaginary * rng.standard_normal((w, m))
            x = x if imaginary else x.real.copy()
            x[2, : m // 2], x[3] = 0, 0
            host, device = x.copy(), cupy.asarray(x)
            assert np.array_equal(panels.lu_panel(host), panels.lu_panel(device))
            assert host.tobytes() == device.get().tobytes()
            host, device = x.copy(), cupy.asarray(x)
            of_host, of_device = panels.qr_panel(host), panels.qr_panel(device)
            assert host.tobytes() == device.get().tobytes()
            for p, q in zip(of_host, of_device, strict=True):
                assert p.tobytes() == q.get().tobytes()


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("n", [1, 2, 31, 300, 1060, 2120])
def test_reductions_to_a_few_diagonals(cupy, n, dtype, monkeypatch):
    """Columns of 8, 16 and 32 to a block, in shared memory, of graded matrices, and of some with zeros."""
    rng = np.random.default_rng(n)
    a = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if dtype is complex else 0)
    a *= 2.0 ** -(np.arange(n) % 40)
    if n < 1000:
        a[:, n // 2 : n // 2 + 3] = 0
    for reduced, x in (
        (two_sided.bidiagonalize, a),
        (two_sided.tridiagonalize, a + a.conj().T),
    ):
        d, e, *q = reduced(x.copy())
        for room in (block_memory(), 40_000) if n < 1000 else (block_memory(),):
            monkeypatch.setattr(two_sided_cuda, "block_memory", lambda room=room: room)
            of_device = reduced(cupy.asarray(x))
            assert [y.tobytes() for y in of_device[:2]] == [d.tobytes(), e.tobytes()]
            for ours, theirs in zip(q, of_device[2:], strict=True):
                assert all(y.tobytes() == z.get().tobytes() for y, z in zip(ours, theirs, strict=True))


def test_small_systems_warn_of_nothing(cupy):
    """They are computed on the host, and NumPy would."""
    a, b = np.array([[1e-300, 1e-300], [0, 1e-300]]), np.array([1e300, 1])
    with np.errstate(all="raise"):
        x = linalg.solve(cupy.asarray(a), cupy.asarray(b))
        largest = linalg.eigvalsh(cupy.full((100, 100), 1.7e308))
    assert x.get().tobytes() == linalg.solve(a, b).tobytes()
    assert largest.get().tobytes() == linalg.eigvalsh(np.full((100, 100), 1.7e308)).tobytes()


def test_small_matrices_are_refused_in_a_callers_graph(cupy):
    a, stream = cupy.eye(3), cupy.cuda.Stream(non_blocking=True)
    linalg.qr(a)
    with stream:
        stream.begin_capture()
        try:
            with pytest.raises(ValueError, match="a CUDA graph of your own"):
                linalg.qr(a)
        finally:
            stream.end_capture()


@pytest.mark.parametrize("columns", [1, 33, 500])
@pytest.mark.parametrize("sweeps", [1, 4, 31])
def test_rotations_of_several_sweeps(cupy, columns, sweeps):
    rng, n = np.random.default_rng(sweeps), 301
    rows, angles = rng.standard_normal((n, columns)), rng.standard_normal((sweeps, 2, n))
    rows[rng.random(rows.shape) < 0.2] *= -0.0
    spans = np.sort(np.stack([rng.permutation(n)[:2] for _ in range(sweeps)]))
    of_device = cupy.asarray(rows)
    two_sided_cuda.rotate(of_device, spans, angles)
    rotations.rotate(rows, spans, angles)
    assert rows.tobytes() == of_device.get().tobytes()


def test_triangular_leaves_of_every_width(cupy):
    rng = np.random.default_rng(1)
    for w in (1, 3, 7, 8, 9, 31, 127, 128):
        for imaginary in (0, 1j):
            lower = rng.standard_normal((w, w)) + imaginary * rng.standard_normal((w, w))
            right = rng.standard_normal((w, 33)) + imaginary * rng.standard_normal((w, 33))
            lower, right = (x if imaginary else x.real.copy() for x in (lower, right))
            for unit in (False, True):
                for transposed in (False, True):
                    host, device, on_device = right.copy(), cupy.asarray(right), cupy.asarray(lower)
                    panels.lower_leaf(lower.T if transposed else lower, host, unit)
                    panels.lower_leaf(on_device.T if transposed else on_device, device, unit)
                    assert host.tobytes() == device.get().tobytes()


@pytest.mark.parametrize("dtype", "dDfF")
@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 3), (8, 8), (24, 24), (33, 33), (64, 64), (7, 3), (3, 7), (100, 5)]
)
def test_small_matrices_have_the_bits_of_the_cpu(cupy, shape, dtype):
    """A stack, and one of it: by one launch up to some size, by many beyond."""
    rng = np.random.default_rng(shape)
    functions = OF_ANY_SHAPE | (SQUARE if shape[0] == shape[1] else {})
    for kind in KINDS if max(shape) < 20 else ("plain", "graded"):
        a = drawn(rng, shape, dtype, kind)
        for name, function in functions.items():
            if name == "cholesky":
                a = a @ a.conj().swapaxes(-1, -2)
                function = linalg.cholesky
            for x in (a, a[0]):
                got = outcome(function, cupy.asarray(x))
                got = tuple(y if isinstance(y, str) else y.get() for y in got)
                assert agree(got, outcome(function, x)), (name, kind, x.ndim)


def test_a_long_stack_takes_little_memory(cupy):
    """Blocks take one matrix after the other: scratch memory is that of the blocks."""
    a = np.random.default_rng(0).standard_normal((3000, 8, 8))
    taken = cupy.get_default_memory_pool()
    x = cupy.asarray(a)
    taken.free_all_blocks()
    before = taken.total_bytes()
    values = linalg.svdvals(x)
    assert taken.total_bytes() - before < 2 * loops_cuda.SCRATCH
    assert values.get().tobytes() == linalg.svdvals(a).tobytes()
    swapped = cupy.asarray(a.swapaxes(-1, -2).copy()).swapaxes(-1, -2)  # not C-contiguous
    assert linalg.inv(swapped[::3]).get().tobytes() == linalg.inv(a[::3]).tobytes()
