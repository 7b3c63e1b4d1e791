"""The GPU computes the host's bits: every test here needs one."""

import numpy as np
import pytest

import multiword
import ozaki
from multiword.engines import get_engine
from multiword.engines.cublas import DEEP, STRIP, WIDE
from ozaki import accurate_dgemm
from tests import golden
from tests.matrices import FACES, GOLDEN, KINDS, in_dtype, long_rows, matrices
from tests.modular import ModularOnGpu
from tests.oracle import same
from tests.test_dgemm import VARIANTS
from tests.threads import in_threads

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(v.values()))
@pytest.mark.parametrize("name", GOLDEN)
def test_golden(cupy, name, variant):
    kind, shape, accuracy = GOLDEN[name]
    a, b = (cupy.asarray(x) for x in matrices(kind, *shape))
    variant = {"engine": ModularOnGpu()} if "engine" in variant else variant
    assert ozaki.fingerprint(accurate_dgemm(a, b, accuracy=accuracy, **variant)) == golden.load()[name]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(300, 1000, 257), (1, 5000, 1), (1025, 33, 640)], ids=str)
def test_larger_products_are_the_hosts(cupy, kind, shape):
    a, b = matrices(kind, *shape, seed=3)
    expected = accurate_dgemm(a, b)
    result = accurate_dgemm(cupy.asarray(a), cupy.asarray(b))
    assert same(result.get(), expected)


@pytest.mark.parametrize("kind", ["uniform", "wide6", "wide20"])
def test_layouts_and_panels_do_not_show(cupy, kind):
    a, b = matrices(kind, 70, 130, 90)
    expected = accurate_dgemm(a, b)
    x, y = cupy.asarray(a), cupy.asarray(b)
    variants = {
        "fortran": accurate_dgemm(cupy.asfortranarray(x), cupy.asfortranarray(y)),
        "transposed": accurate_dgemm(x.T.copy(), y.T.copy(), trans_a=True, trans_b=True),
        "reversed": accurate_dgemm(x[::-1, ::-1], y[::-1, ::-1])[::-1, ::-1],
        "strided": accurate_dgemm(cupy.repeat(x, 2, axis=1)[:, ::2], cupy.repeat(y, 3, axis=0)[::3]),
        "shifted": accurate_dgemm(cupy.pad(x, 3)[3:-3, 3:-3], cupy.pad(y, 1)[1:-1, 1:-1]),
        "panels": accurate_dgemm(x, y, workspace=1 << 20),
    }
    out = cupy.zeros((140, 180))[::2, ::2]
    assert accurate_dgemm(x, y, out=out) is out
    for name, result in {**variants, "out": out}.items():
        assert same(np.ascontiguousarray(result.get()), expected), name


@pytest.mark.parametrize("dtype", FACES)
@pytest.mark.parametrize(
    "kind", ["uniform", "positive", "wide2", "wide6", "cancelling", "sparse", "integers"]
)
@pytest.mark.parametrize("accuracy", ["fp32", "fp64", "exact", 30])
def test_other_precisions(cupy, dtype, kind, accuracy):
    a, b = in_dtype(*matrices(kind, 60, 301, 45), dtype)
    expected = FACES[dtype](a, b, accuracy=accuracy)
    x, y = cupy.asarray(a), cupy.asarray(b)
    for variant in ({}, {"workspace": 3 << 18}, {"scheme": "slices"}, {"engine": ModularOnGpu()}):
        assert same(FACES[dtype](x, y, accuracy=accuracy, **variant).get(), expected)
    transposed = FACES[dtype](x.T.copy(), y.T.copy(), trans_a=True, trans_b=True, accuracy=accuracy)
    assert same(transposed.get(), expected)


def test_subnormals_of_single_precision_are_kept(cupy):
    rng = np.random.default_rng(0)
    a = (rng.standard_normal((20, 40)) * 2.0**-140).astype(np.float32)
    b = rng.standard_normal((40, 30)).astype(np.float32)
    assert np.abs(a).max() < 2.0**-126
    for factor in (1.0, 2.0**60):
        y = (b * factor).astype(np.float32)
        for accuracy in ("fp32", "exact"):
            expected = ozaki.accurate_sgemm(a, y, accuracy=accuracy)
            assert expected.any()
            result = ozaki.accurate_sgemm(cupy.asarray(a), cupy.asarray(y), accuracy=accuracy)
            assert same(result.get(), expected)


def test_stacks_and_prepared_operands(cupy):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 20, 50)), rng.standard_normal((50, 30))
    expected = ozaki.matmul(a, b)
    x, y = cupy.asarray(a), cupy.asarray(b)
    assert same(ozaki.matmul(x, y).get(), expected)
    p = ozaki.prepare(y, "right")
    for i in range(3):
        assert same(accurate_dgemm(x[i], p).get(), expected[i])


def test_long_and_thin(cupy):
    rng = np.random.default_rng(0)
    for m, k, n in ((3, 300_000, 2), (5000, 4, 3), (1, 1, 4000)):
        a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        expected = accurate_dgemm(a, b)
        assert same(accurate_dgemm(cupy.asarray(a), cupy.asarray(b)).get(), expected)
        limited = accurate_dgemm(cupy.asarray(a), cupy.asarray(b), workspace=8 << 20)
        assert same(limited.get(), expected)


def test_broadcast_operands(cupy):
    row, column = np.linspace(-1, 1, 50), np.linspace(0.1, 3, 20)
    expected = accurate_dgemm(np.broadcast_to(row, (30, 50)), np.broadcast_to(column, (50, 20)))
    x, y = cupy.broadcast_to(cupy.asarray(row), (30, 50)), cupy.broadcast_to(cupy.asarray(column), (50, 20))
    assert same(accurate_dgemm(x, y).get(), expected)


def test_long_inner_dimension(cupy):
    a, b = long_rows()
    expected = accurate_dgemm(a, b, accuracy="exact")
    for word in ("int8", "fp64"):
        result = accurate_dgemm(cupy.asarray(a), cupy.asarray(b), accuracy="exact", word=word)
        assert same(result.get(), expected)


def test_nonfinite(cupy):
    a, b = matrices("uniform", 40, 60, 50)
    a[3, 5], a[7, 1], b[9, 2], b[4, 30] = np.inf, np.nan, -np.inf, np.inf
    a[20], b[:, 11] = 0.0, 0.0
    assert same(accurate_dgemm(cupy.asarray(a), cupy.asarray(b)).get(), accurate_dgemm(a, b))


def test_streams_and_threads_at_once(cupy):
    cases = [matrices("wide2", 60 + i, 200, 70, seed=i) for i in range(6)]
    expected = [accurate_dgemm(a, b) for a, b in cases]
    failures = []

    def work(i):
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            for _ in range(5):
                a, b = (cupy.asarray(x) for x in cases[i])
                result = accurate_dgemm(a, b).get(stream=stream)
                if not same(result, expected[i]):
                    failures.append(i)

    in_threads(work, range(6))
    assert not failures


def test_many_streams_in_one_thread(cupy):
    a, b = matrices("uniform", 64, 64, 64)
    expected = accurate_dgemm(a, b)
    for _ in range(20):
        with cupy.cuda.Stream(non_blocking=True):
            assert same(accurate_dgemm(cupy.asarray(a), cupy.asarray(b)).get(), expected)


def test_kinds_of_array_are_not_mixed(cupy):
    with pytest.raises(TypeError, match="NumPy"):
        accurate_dgemm(cupy.eye(3), np.eye(3))


@pytest.mark.parametrize("word", ["int8", "fp64"])
def test_more_blocks_of_an_inner_dimension_than_a_grid_is_high(cupy, word):
    rng = cupy.random.default_rng(0)
    k = 17_000_000 if word == "int8" else 2_200_000
    a, b = rng.integers(-8, 9, (2, k)), rng.integers(-8, 9, (k, 3))
    expected = cupy.stack([(a[0] * b[:, j]).sum() for j in range(3)]), (a[1] * b[:, 2]).sum()
    for accuracy in ("fp64", "exact"):
        c = accurate_dgemm(a.astype(float), b.astype(float), accuracy=accuracy, scheme="residues", word=word)
        assert (c[0] == expected[0]).all()
        assert c[1, 2] == expected[1]


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_products_in_strips(cupy, beta):
    rng = cupy.random.default_rng(0)
    m, k, n = 2 * STRIP + 100, DEEP + 4, WIDE + 4
    a, bt = (rng.integers(-128, 128, (rows, k), dtype=np.int32).astype(np.int8) for rows in (m, n))
    out = rng.integers(-9, 9, (m + 3, n + 4), dtype=np.int32)[:m, :n]
    before = out.astype(np.float64)
    get_engine("cublas").multiply("int8", a, bt, out=out, beta=beta)
    assert (out == a.astype(np.float64) @ bt.T.astype(np.float64) + beta * before).all()


def test_more_rows_than_a_grid_is_high(cupy):
    rng = cupy.random.default_rng(0)
    m = 2_200_000
    a, b = rng.integers(-8, 9, (m, 6)), rng.integers(-8, 9, (6, 3))
    a[rng.random(a.shape) < 0.7] = 0  # for the second stage of the certificate
    expected = sum(a[:, i, None] * b[i] for i in range(6))
    assert (accurate_dgemm(a.astype(float), b.astype(float)) == expected).all()
    assert (accurate_dgemm(b.T.astype(float), a.T.astype(float)) == expected.T).all()
    x, y = a.astype(cupy.float32), cupy.tile(b.astype(cupy.float32), (1, 4))
    for scheme in ("fast-fp16", "double-fp16"):
        assert abs(multiword.matmul(x, y, scheme=scheme)[:, -3:] - expected).max() < 1e-3


@pytest.mark.two_gpus
def test_two_devices(cupy):
    cases = [matrices("uniform", 64, 64, 64, seed=i) for i in range(4)]
    expected = [accurate_dgemm(a, b) for a, b in cases]
    on_device = []
    for device in (0, 1):
        with cupy.cuda.Device(device):
            on_device.append([tuple(map(cupy.asarray, case)) for case in cases])
    # Whichever device is the current one, the work is done where the arrays are.
    for current in (0, 1):
        with cupy.cuda.Device(current):
            for i in range(4):
                for device in (0, 1):
                    result = accurate_dgemm(*on_device[device][i])
                    assert result.device.id == device
                    assert same(result.get(), expected[i])
    with pytest.raises(ValueError, match="one device"):
        accurate_dgemm(on_device[0][0][0], on_device[1][0][1])
    failures = []

    def work(device):
        for i in range(100):
            if not same(accurate_dgemm(*on_device[device][i % 4]).get(), expected[i % 4]):
                failures.append((device, i))

    in_threads(work, [0, 1] * 2)
    assert not failures


@pytest.mark.two_gpus
def test_everything_works_where_the_arrays_are(cupy):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((64, 48))
    single, half = a.astype(np.float32), a.astype(np.float16)
    calls = {
        "sum": lambda xp: ozaki.sum(xp.asarray(a), axis=0),
        "dot": lambda xp: ozaki.dot(xp.asarray(a[0]), xp.asarray(a[1])),
        "cumsum": lambda xp: ozaki.cumsum(xp.asarray(a), axis=1),
        "ExactSum": lambda xp: ozaki.ExactSum(np.float64, 48).add(xp.asarray(a)).round(),
        "mukunoki": lambda xp: ozaki.mukunoki_dgemm(xp.asarray(a), xp.asarray(a.T), summation="nearsum"),
        "split": lambda xp: multiword.split(xp.asarray(single), "fp16", 2)[0],
    }
    for name, call in calls.items():
        with cupy.cuda.Device(1):
            expected = call(np)
            there = Elsewhere(cupy, 1)
        assert same(np.asarray(cupy.asnumpy(call(there))), np.asarray(expected)), name
    with cupy.cuda.Device(1):
        x, z = cupy.asarray(single), cupy.asarray(np.stack([half] * 3))
        products = multiword.matmul(x, x.T), multiword.batched_matmul(z, z, trans_b=True)
    again = multiword.matmul(x, x.T), multiword.batched_matmul(z, z, trans_b=True)
    for first, second in zip(products, again, strict=True):
        assert first.device.id == second.device.id == 1
        assert same(first.get(), second.get())


class Elsewhere:
    """Makes arrays on a device that is not the current one."""

    def __init__(self, cupy, device):
        self.cupy, self.device = cupy, device

    def asarray(self, x):
        with self.cupy.cuda.Device(self.device):
            return self.cupy.asarray(x)


def test_engines_and_arrays_must_match(cupy):
    with pytest.raises(ValueError, match="needs NumPy arrays"):
        accurate_dgemm(cupy.eye(3), cupy.eye(3), engine="host")
    with pytest.raises(ValueError, match="needs CuPy arrays"):
        accurate_dgemm(np.eye(3), np.eye(3), engine="cublas")


def test_memory_error_names_the_sizes(cupy):
    x = cupy.ones((200, 200))
    with pytest.raises(MemoryError, match=r"needs \d+ bytes"):
        accurate_dgemm(x, x, workspace=1000)


def test_out_of_memory_becomes_smaller_panels(cupy):
    a, b = matrices("uniform", 512, 512, 512)
    expected = accurate_dgemm(a, b)
    x, y = cupy.asarray(a), cupy.asarray(b)
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=pool.total_bytes() + (12 << 20))
    try:
        assert same(accurate_dgemm(x, y).get(), expected)
    finally:
        pool.set_limit(size=0)
