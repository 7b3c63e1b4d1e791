"""`ozaki.matmul`, wide integers and the paper's algorithms against exact references."""

from fractions import Fraction

import numpy as np

import ozaki
from tests.fuzz.arrays import COMPLEX, REAL, SPECIAL
from tests.fuzz.draw import SMALL_INTEGERS, Draw, check, check_same, plain
from tests.fuzz.exact_products import GEMMS, TARGETS, shapes, ways
from tests.oracle import part_dtype, rounded_product


def matmul(draw: Draw) -> None:
    """Stacks and vectors: as numpy.matmul, each product with the bits that it has alone."""
    choices = (*REAL, *COMPLEX, *SMALL_INTEGERS, np.dtype(np.int32))
    batch = draw.shape("batch", int(draw.rng.integers(0, 3)), 3)
    m, k, n = shapes(draw, 12)
    left_batch = tuple(1 if draw.chance(0.2) else s for s in batch)[
        int(draw.rng.integers(0, len(batch) + 1)) :
    ]
    kinds = draw.kinds()
    a = draw.array("a", (k,) if draw.chance(0.15) else (*left_batch, m, k), choices, kinds[0])
    b = draw.array("b", (k,) if draw.chance(0.15) else (*batch, k, n), choices, kinds[1])
    accuracy = draw.pick("accuracy", None, "fp64", "exact", "fp32", 45)
    options = {key: value for key, value in ways(draw, wide=True).items() if key != "word"}
    try:
        got = ozaki.matmul(a, b, accuracy=accuracy, **options)
    except MemoryError:
        check("MemoryError", options.get("workspace", 2**30) < 2**20, "MemoryError")
        return
    small = {np.dtype(np.float16), np.dtype(np.float32), REAL[3]}
    types = {x.dtype.newbyteorder("=") for x in (a, b)}
    dtype = np.dtype(np.float64)
    if types <= {*small, np.dtype(np.complex64)}:
        dtype = np.dtype(np.float32 if types <= small else np.complex64)
    elif any(t.kind == "c" for t in types):
        dtype = np.dtype(np.complex128)
    chosen = accuracy or TARGETS[part_dtype(dtype).itemsize]
    with np.errstate(all="ignore"):
        form = np.matmul(np.zeros(a.shape), np.zeros(b.shape))
    check(
        "matmul: shape",
        got.shape == form.shape and got.dtype == dtype,
        f"{got.dtype} {got.shape}, expected {dtype} {form.shape}",
    )
    x = plain(a).astype(dtype)
    y = plain(b).astype(dtype)
    x = x[None] if x.ndim == 1 else x
    y = y[:, None] if y.ndim == 1 else y
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x, y = np.broadcast_to(x, (*lead, *x.shape[-2:])), np.broadcast_to(y, (*lead, *y.shape[-2:]))
    whole = np.asarray(got).reshape(*lead, x.shape[-2], y.shape[-1])
    for index in np.ndindex(*lead):
        alone = GEMMS[dtype](x[index], y[index], accuracy=chosen)
        check_same("a stack's bits are not those of its matrices", whole[index], alone)
        if accuracy == "exact" and whole[index].size < 40:
            check_same("matmul exact", whole[index], rounded_product(x[index], y[index], dtype))


def wide_integers(draw: Draw) -> None:
    """64-bit integers beyond 2**53 in "exact": right, or refused."""
    dtypes = (np.dtype(np.int64), np.dtype(np.uint64))
    m, k, n = draw.size("m", 1, 3), draw.size("k", 1, 4), draw.size("n", 1, 3)
    pair = []
    for name, shape in (("a", (m, k)), ("b", (k, n))):
        dtype = dtypes[int(draw.rng.integers(2))]
        info = np.iinfo(dtype)
        x = draw.rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        x = x >> dtype.type(draw.rng.integers(0, 64))
        draw.notes.append(f"{name} = np.{dtype.name}({x.tolist()})")
        pair.append(x)
    try:
        got = ozaki.accurate_dgemm(*pair, accuracy="exact")
    except TypeError:
        check(
            "refuses integers below 2**53",
            any(int(abs(x.astype(object)).max()) > 2**53 for x in pair),
            "TypeError",
        )
        return
    check_same("integers beyond 2**53 are rounded", got, rounded_product(*pair, np.dtype(np.float64)))


def mukunoki(draw: Draw) -> None:
    """The paper's algorithms: slices that add up, and with all of them the correctly rounded product."""
    m, k, n = shapes(draw)
    k = min(k, 3000)
    kinds = [kind if kind != SPECIAL or draw.chance(0.3) else "normal" for kind in (draw.kind(), draw.kind())]
    a = draw.array("a", (m, k), REAL, kinds[0])
    b = draw.array("b", (k, n), REAL, kinds[1])
    engine = draw.pick("engine", "auto", "host", "tensorcore") if m * k * n < 300 else "auto"
    got = ozaki.mukunoki_dgemm(a, b, summation="nearsum", engine=engine)
    check_same("mukunoki nearsum", got, rounded_product(plain(a), plain(b), np.dtype(np.float64)))
    plainly = ozaki.mukunoki_dgemm(a, b, engine="host")
    if m * k * n < 300:
        check_same("mukunoki engines", ozaki.mukunoki_dgemm(a, b, engine="tensorcore"), plainly)
    finite = all(np.isfinite(plain(x).astype(np.float64)).all() for x in (a, b))
    if not finite or 0 in (m, k, n):
        return
    count = ozaki.slice_count(a, b)
    split = ozaki.mukunoki_split(a)
    rebuilt = [Fraction(0)] * (m * k)
    for words, exponents in zip(split.slices, split.exponents, strict=True):
        for i, w in enumerate(words.astype(float).ravel().tolist()):
            rebuilt[i] += Fraction(w) * Fraction(2) ** int(exponents[i // k])
    want = [Fraction(v) for v in plain(a).astype(np.float64).ravel().tolist()]
    check(
        "mukunoki_split does not add up", rebuilt == want, f"{len(split.slices)} slices of {split.bits} bits"
    )
    same = ozaki.mukunoki_dgemm(a, b, slices="estimated", engine="host")
    if count:
        check_same("estimated slices", same, ozaki.mukunoki_dgemm(a, b, slices=count, engine="host"))


CHECKS = {"gemm, int64": wide_integers, "matmul": matmul, "mukunoki": mukunoki}
