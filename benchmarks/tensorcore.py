"""The tensor-core model: how fast it is, and whether it predicts cuBLAS bit for bit.

    python benchmarks/tensorcore.py speed --json benchmarks/results/tensorcore_speed.json
    python benchmarks/tensorcore.py predict --json benchmarks/results/tensorcore_h200.json    (needs the GPU)

`speed` times the model against the same arithmetic written element by element in Python, on the
same words: once as lean as it gets (floats and `math.frexp`), once in rational numbers (the model that
the tests compare with).

`predict` first probes the GPU's tensor cores and makes a `Generation` of what was found; then, for
each shape and word format, it infers from masked products in which parts cuBLAS takes the inner
dimension, runs the model with that blocking and counts equal bits on five distributions.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import multiprocessing
import os
import platform
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import ml_dtypes
import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from multiword import GENERATIONS, Generation, TensorCore
from multiword.probe import infer_blocking, probe

DTYPES = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32}

SHAPES = (
    *((16, 16, 16), (48, 48, 48), (64, 64, 64), (7, 68, 61), (33, 65, 129), (100, 100, 100)),
    *((129, 127, 255), (256, 256, 256), (200, 300, 400), (512, 512, 512), (1000, 1000, 1000)),
    *((64, 64, 1024), (128, 128, 1024), (256, 256, 1024), (1024, 1024, 512), (2048, 64, 2048)),
    *((16, 512, 3000), (8, 8, 4096), (72, 72, 4096), (128, 128, 4096), (256, 256, 4096)),
    *((512, 512, 4096), (32, 32, 8192), (128, 256, 8192), (64, 64, 16384), (1, 1, 4096)),
)

DISTRIBUTIONS = ("normal", "uniform", "wide", "subnormal", "sparse")

CHECKED_ROWS = 128
"""Rows of A whose results are compared where the product is large; all of them elsewhere."""


def round_words(x: np.ndarray, word: str) -> np.ndarray:
    """`x` rounded to the word format; tf32 to nearest even, 11 bits."""
    with np.errstate(over="ignore"):
        x = x.astype(np.float32)
        if word != "tf32":
            return x.astype(DTYPES[word])
    bits = x.view(np.uint32)
    return ((bits + np.uint32(0xFFF) + ((bits >> 13) & 1)) & np.uint32(0xFFFFE000)).view(np.float32)


def operands(distribution: str, shape: tuple[int, int, int], word: str) -> tuple[np.ndarray, np.ndarray]:
    """A and Bᵀ: normal N(0, 1); uniform on (0, 1]; wide, of exponents spread over the format's; such
    that operands or products are subnormal; sparse, half of it zeros among wide exponents."""
    m, n, k = shape
    rng = np.random.default_rng([DISTRIBUTIONS.index(distribution), m, n, k])
    low, high = {"wide": (-8, 5), "sparse": (-10, 5)}.get(distribution, (0, 1))
    if word != "fp16":
        low, high = {"wide": (-40, 21), "sparse": (-30, 15)}.get(distribution, (0, 1))
    if distribution == "subnormal":
        centre = -14 if word == "fp16" else -64
        low, high = centre - 8, centre + 6
    found = []
    for size in ((m, k), (n, k)):
        x = 1 - rng.random(size) if distribution == "uniform" else rng.standard_normal(size)
        x = x * 2.0 ** rng.integers(low, high, size)
        if distribution == "sparse":
            x *= rng.random(size) < 0.5
        found.append(round_words(x, word))
    return found[0], found[1]


def equal_bits(job: tuple) -> tuple[int, int]:
    """Results compared, and those whose bits the model predicts."""
    generation, blocking, word, accumulate, a, bt, measured = job
    core = TensorCore(generation, accumulate=accumulate, blocking=blocking, workers=1)
    predicted = core.gemm(a, bt.T, word=word)
    unsigned = np.uint16 if predicted.dtype == np.float16 else np.uint32
    same = np.ascontiguousarray(measured, predicted.dtype).view(unsigned) == predicted.view(unsigned)
    return same.size, int(same.sum())


def to_device(x: np.ndarray):
    import cupy

    if x.dtype == ml_dtypes.bfloat16:
        return cupy.asarray(x.view(np.uint16)).view(ml_dtypes.bfloat16)
    return cupy.asarray(x)


def prediction_jobs(engine, generation: Generation, word: str, accumulate: str = "fp32"):
    """Run every shape and distribution on the GPU; return rows to report and the model's jobs."""
    import cupy

    rows, jobs = [], []
    for shape in SHAPES:
        m, n, k = shape
        row = {"word": word, "accumulate": accumulate, "shape": shape}
        rows.append(row)
        try:
            blocking = infer_blocking(engine, word, m, n, k)
        except ValueError as error:
            row["not_predicted"] = str(error)
            continue
        row["blocking"] = {f: getattr(blocking, f) for f in ("step", "block_k", "tile_k")}
        for distribution in DISTRIBUTIONS:
            a, bt = operands(distribution, shape, word)
            measured = cupy.asnumpy(engine.multiply(word, to_device(a), to_device(bt)))
            checked = slice(0, m if m * n * k <= 2**25 else min(m, CHECKED_ROWS))
            job = (generation, blocking, word, accumulate, a[checked], bt, measured[checked])
            jobs.append((row, distribution, job))
    return rows, jobs


def nearest_tf32(engine) -> bool:
    """Whether the library rounds float32 operands to tf32 to nearest even, ties included."""
    rng = np.random.default_rng(1)
    a, bt = (rng.standard_normal((256, 256)).astype(np.float32) for _ in range(2))
    a.view(np.uint32)[:] = (a.view(np.uint32) & 0xFFFFE000) | 0x1000  # every one a tie
    import cupy

    measured = cupy.asnumpy(engine.multiply("tf32", cupy.asarray(a), cupy.asarray(bt)))
    return bool((measured == TensorCore("H200").gemm(a, bt.T, word="tf32")).all())


def smallest_kept_exponent(multiply) -> int:
    """The last of the powers 2**-150, 2**-151, … down to which a bf16 step whose terms add up to
    2**-149 keeps them all: the floor under the alignment's exponent, less F."""
    last = 0
    for q in range(151, 165):
        a, b = np.zeros((2, 16, 16))
        exponents = [*range(150, q + 1), q]
        a[0, : len(exponents)] = 2.0**-70
        b[0, : len(exponents)] = [2.0 ** (70 - e) for e in exponents]
        if float(multiply(round_words(a, "bf16"), round_words(b, "bf16"))[0, 0]) != 2.0**-149:
            break
        last = -q
    return last


def predict() -> dict:
    """Probe the GPU, predict it, and return what came out."""
    import cupy

    import multiword.engines.libcublas as lib
    from multiword.engines.cublas import Cublas
    from multiword.probe.products import HalfCublas

    engine, half = Cublas(), HalfCublas()
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    findings = [probe(engine, word) for word in DTYPES] + [probe(half, "fp16")]
    rows, jobs = [], []
    for found in findings:
        core = half if found.result == "fp16" else engine
        more_rows, more_jobs = prediction_jobs(core, found.generation("GPU"), found.word, found.result)
        rows += more_rows
        jobs += more_jobs
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        counted = list(pool.map(equal_bits, (job for _, _, job in jobs)))
    for (row, distribution, _), (size, same) in zip(jobs, counted, strict=True):
        row.setdefault("equal", {})[distribution] = {"results": size, "equal": same}
    own = GENERATIONS["H200"]
    return {
        "device": name,
        "cublas": lib.version(),
        "cupy": cupy.__version__,
        "findings": [f.as_dict() for f in findings],
        "findings_equal_model": all(
            (f.width, f.fraction_bits, f.alignment) == (own.widths[f.word], own.fraction_bits, own.alignment)
            for f in findings
        ),
        "tf32_operands_rounded_to_nearest_even": nearest_tf32(engine),
        "smallest_exponent_kept_in_a_tiny_step": smallest_kept_exponent(
            lambda a, b: cupy.asnumpy(engine.multiply("bf16", to_device(a), to_device(b)))
        ),
        "smallest_exponent_kept_by_the_model": smallest_kept_exponent(
            lambda a, b: TensorCore("H200").gemm(a, b.T, word="bf16")
        ),
        "rows": rows,
    }


def print_prediction(result: dict) -> None:
    table = Table(
        title=f"{result['device']}, cuBLAS {result['cublas']}: results equal to the model's, bit for bit"
    )
    for heading in ("words", "m×n×k", "blocking inferred", *DISTRIBUTIONS):
        table.add_column(heading)
    for row in result["rows"]:
        word = row["word"] + ("" if row["accumulate"] == "fp32" else "→fp16")
        shape = "×".join(map(str, row["shape"]))
        if "not_predicted" in row:
            table.add_row(word, shape, "not a chain of steps", *["—"] * 5)
            continue
        blocking = ", ".join(f"{k} {v}" for k, v in row["blocking"].items() if v)
        cells = [f"{c['equal'] / c['results']:.6g}" for c in row["equal"].values()]
        table.add_row(word, shape, blocking, *cells)
    Console(width=150).print(table)


def scalar_gemm(a: np.ndarray, b: np.ndarray, word: str, generation: Generation) -> list[list[float]]:
    """The model element by element, in plain Python floats: what the vectorised one is timed against."""
    emin, width, bits = (-14 if word == "fp16" else -126), generation.widths[word], generation.fraction_bits
    rows, columns = a.astype(float).tolist(), b.T.astype(float).tolist()

    def exponent(x: float, least: int) -> int:
        return max(math.frexp(x)[1] - 1, least) if x else -4000

    def step(xs: list[float], ys: list[float], c: float) -> float:
        terms, exponents = [c], [exponent(c, -126)]
        for x, y in zip(xs, ys, strict=True):
            terms.append(x * y)
            exponents.append(exponent(x, emin) + exponent(y, emin))
        largest = max(-133, *exponents)
        total = sum(math.trunc(math.ldexp(t, bits - largest)) for t in terms)
        value = math.ldexp(total, largest - bits)
        last = exponent(value, -126) - 23
        return math.ldexp(math.trunc(math.ldexp(value, -last)), last) if value else 0.0

    def dot(xs: list[float], ys: list[float]) -> float:
        c = 0.0
        for h in range(0, len(xs), width):
            c = step(xs[h : h + width], ys[h : h + width], c)
        return c

    return [[dot(row, column) for column in columns] for row in rows]


def rational_gemm(rows: list, columns: list, word: str, generation: Generation) -> list[list[float]]:
    """The tests' model, one result at a time in `fractions.Fraction`."""
    from tests.multiword.engines.scalar_tensorcore import dot

    return [[dot(row, column, 0.0, word, "fp32", generation) for column in columns] for row in rows]


def seconds(function, repeats: int) -> float:
    """The shortest of several runs."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def time_once(core: TensorCore, word: str, size: int, small: int) -> tuple[float, float, float]:
    """Nanoseconds a product: the model, the lean scalar one, and the one in rational numbers."""
    rng = np.random.default_rng(0)
    a, b = (round_words(rng.standard_normal((size, size)), word) for _ in range(2))
    corner = a[:small, :small], b[:small, :small]
    assert np.array_equal(core.gemm(*corner, word=word), scalar_gemm(*corner, word, core.generation))
    lists = [x[:8].astype(float).tolist() for x in (corner[0], corner[1].T)]
    return (
        seconds(lambda: core.gemm(a, b, word=word), 5) / size**3 * 1e9,
        seconds(lambda: scalar_gemm(*corner, word, core.generation), 2) / small**3 * 1e9,
        seconds(lambda: rational_gemm(*lists, word, core.generation), 2) / (64 * small) * 1e9,
    )


def speed(size: int = 512, small: int = 32, rounds: int = 12) -> dict:
    """Times of the model for a square product and of the others for a small one: for each the best of
    several rounds, since a shared machine disturbs now the one and now the other."""
    cases = [(name, word) for name in ("V100", "A100", "H200") for word in GENERATIONS[name].widths]
    times = np.array(
        [[time_once(TensorCore(name), word, size, small) for name, word in cases] for _ in range(rounds)]
    )
    rows = []
    for (name, word), (model, scalar, rational) in zip(cases, times.min(axis=0).tolist(), strict=True):
        rows.append(
            {
                "generation": name,
                "word": word,
                "size": size,
                "seconds": model * size**3 * 1e-9,
                "nanoseconds_per_product": model,
                "scalar_nanoseconds_per_product": scalar,
                "rational_nanoseconds_per_product": rational,
                "times_faster_than_scalar": scalar / model,
                "times_faster_than_rational": rational / model,
            }
        )
    cores = len(os.sched_getaffinity(0))
    return {"machine": platform.machine(), "cores": cores, "rounds": rounds, "rows": rows}


def print_speed(result: dict) -> None:
    n, cores = result["rows"][0]["size"], result["cores"]
    table = Table(title=f"The model at {n}×{n}×{n} against the same element by element ({cores} cores)")
    slower = ("scalar", "times faster", "rational", "times faster")
    for heading in ("generation", "words", "seconds", "ns/product", *slower):
        table.add_column(heading, justify="right")
    for r in result["rows"]:
        times = (f"{r['seconds']:.3f}", f"{r['nanoseconds_per_product']:.2f}")
        slower = []
        for kind in ("scalar", "rational"):
            slower.append(f"{r[f'{kind}_nanoseconds_per_product']:.0f}")
            slower.append(f"{r[f'times_faster_than_{kind}']:.0f}")
        table.add_row(r["generation"], r["word"], *times, *slower)
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("speed", "predict"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = {"date": datetime.date.today().isoformat(), "python": platform.python_version()}
    result |= {"numpy": np.__version__, "command": f"python benchmarks/tensorcore.py {options.what}"}
    if options.what == "speed":
        result |= speed()
        print_speed(result)
    else:
        result |= predict()
        print_prediction(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
