"""FP32 products from words: speed on a GPU, and the experiments of the two papers.

    python benchmarks/fp32.py gpu   --out benchmarks/results/multiword_h200.json
    python benchmarks/fp32.py model --out benchmarks/results/multiword_model.json

`gpu` times the default and the papers' schemes beside the native fp32 and tf32 products in one
run, and measures errors; `model` measures the same errors on the model of the H200's tensor core,
without a GPU. Times are of one of many calls queued one after another, and of one call that the
device waits for (`alone`: Python's start is in it). Errors are componentwise,
|C - Ĉ|_ij / (|A||B|)_ij, largest and root mean square.

The performance page shows the results.

Figures: Fasi et al. 4.1, 4.2, 4.4 and 4.5 (error and throughput against n, with blocks), 3.1
(`model`); Ootomo and Yokota 1, 4, 5 (error against k), 11 (exp_rand types) and 13 (patterns).
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.timing import settled
from multiword import SCHEMES, TensorCore, get_engine, matmul, matmul_plan, round_to, split
from tests.matrices import PAIRS, normal, symmetric, unit

DRAWS: dict[str, Callable[..., np.ndarray]] = {"normal": normal, "(0, 1]": unit, "(-1/2, 1/2]": symmetric}
STUDIED = (
    "default",
    "short-block-fp16",
    "fp32",
    "fp16",
    "double-fp16",
    "markidis",
    "halfhalf",
    "tf32tf32",
    "triple-bf16",
    "fabsum-v1",
    "fabsum-v2",
)
"""Curves of the error figures; "fp16" is one word, the tensor core without correction."""


def product(name: str, a: Any, b: Any, engine: Any) -> Any:
    """The product by a named curve."""
    if name == "default":
        return matmul(a, b, engine=engine)
    if name == "fp16":
        return matmul(a, b, scheme=replace(SCHEMES["double-fp16"], words=1), engine=engine)
    return matmul(a, b, scheme=name, engine=engine)


def errors(c: Any, a: Any, b: Any, rows: int = 64) -> dict[str, float | None]:
    """Componentwise errors of the first rows against a product in fp64."""
    wide, b = a[:rows].astype(np.float64), b.astype(np.float64)
    scale = abs(wide) @ abs(b)
    e = abs(c[:rows] - wide @ b) / scale
    if not bool((e == e).all()):
        return {"max": None, "rms": None}
    return {"max": float(e.max()), "rms": float((e * e).mean() ** 0.5)}


def error_against_k(engine: Any, sizes: list[int], m: int, xp: Any) -> list[dict[str, Any]]:
    """(m, k) by (k, m) for growing k (Figs. 4.2, 4.4, 4.5; Figs. 1, 4, 5)."""
    rows = []
    for label, draw in DRAWS.items():
        for k in sizes:
            # CuPy's generator where the matrices are large; 64 rows are looked at.
            rng = xp.random.default_rng(k)
            a, b = draw(rng, (m, k)), draw(rng, (k, m))
            for name in STUDIED:
                row = errors(product(name, a, b, engine), a, b)
                rows.append({"data": label, "k": k, "scheme": name, **row})
            rows[-len(STUDIED)]["choice"] = matmul_plan(a, b, engine=engine).choice
            # Ootomo and Yokota's Fig. 4: fp32 with one bit of each operand cut off.
            row = errors(product("fp32", _without_last_bit(a), _without_last_bit(b), engine), a, b)
            rows.append({"data": label, "k": k, "scheme": "fp32, 22 bits", **row})
    return rows


def _without_last_bit(x: Any) -> Any:
    return (x.view(np.uint32) & np.uint32(0xFFFFFFFE)).view(np.float32)


def rounding_inside(sizes: list[int], m: int) -> list[dict[str, Any]]:
    """The tensor core with RZ and with RN (Fasi et al., Fig. 4.3; Ootomo and Yokota, Fig. 5)."""
    rows = []
    for k in sizes:
        a, b = (unit(np.random.default_rng(k + i), s) for i, s in enumerate(((m, k), (k, m))))
        for rounding in ("RZ", "RN"):
            core = TensorCore("H200").with_arithmetic(rounding=rounding, alignment=rounding)
            for name in ("fp16", "double-fp16"):
                rows.append(
                    {"rounding": rounding, "k": k, "scheme": name, **errors(product(name, a, b, core), a, b)}
                )
    return rows


def patterns(engine: Any, k: int, m: int, xp: Any) -> list[dict[str, Any]]:
    """Exponent ranges and matrices of applications (Figs. 11 and 13), and what the default takes."""
    rows = []
    for label, (draw_a, draw_b) in PAIRS.items():
        rng = np.random.default_rng(1)
        a, b = xp.asarray(draw_a(rng, (m, k))), xp.asarray(draw_b(rng, (k, m)))
        choice = matmul_plan(a, b, engine=engine).choice
        for name in ("default", "fp32", "halfhalf", "tf32tf32"):
            with np.errstate(all="ignore"):
                row = errors(product(name, a, b, engine).astype(np.float64), a, b)
            rows.append({"data": label, "scheme": name, "choice": choice, **row})
    return rows


def representation() -> list[dict[str, Any]]:
    """Relative error of two words against the exponent (Ootomo and Yokota, Fig. 9)."""
    rows, rng = [], np.random.default_rng(1)
    for exponent in range(-126, 128, 2):
        x = np.ldexp(1 + rng.random(2000), exponent).astype(np.float32)
        for name, word, scaled in (
            ("halfhalf", "fp16", True),
            ("Markidis' halfhalf", "fp16", False),
            ("tf32tf32", "tf32", True),
        ):
            words = split(x, word, 2, scaled=scaled, rounding="RNA" if word == "tf32" else "RN")
            with np.errstate(invalid="ignore"):
                kept = words[0].astype(float) + words[1].astype(float) * (2.0**-11 if scaled else 1)
                worst = float(np.nan_to_num(np.abs(kept - x) / x, nan=1.0, posinf=1.0).max())
            rows.append({"exponent": exponent, "words": name, "max": worst})
        one = round_to(x, "tf32").astype(float)
        rows.append({"exponent": exponent, "words": "tf32", "max": float((np.abs(one - x) / x).max())})
    return rows


def speed(sizes: list[int]) -> list[dict[str, Any]]:
    """Throughput and error of square products, native ones beside ours (Figs. 4.1, 4.4)."""
    import cupy

    rows = []
    for n in sizes:
        for label, draw in (("normal", normal), ("(0, 1]", unit)):
            cupy.get_default_memory_pool().free_all_blocks()
            rng = cupy.random.default_rng(n)
            a, b = draw(rng, (n, n)), draw(rng, (n, n))
            results, calls = {}, _calls(a, b)
            for name, (queued, alone) in settled(calls).items():
                rates = {"TF": 2 * n**3 / queued / 1e12, "TF alone": 2 * n**3 / alone / 1e12}
                results[name] = {**rates, **errors(calls[name](), a, b)}
            rows.append({"n": n, "data": label, "choice": matmul_plan(a, b).choice, "results": results})
            print(_line(rows[-1]), flush=True)
    return rows


def _calls(a: Any, b: Any) -> dict[str, Callable[[], Any]]:
    """What is timed side by side."""
    import cupy

    engine, at = get_engine("cublas"), b.T.copy()
    calls: dict[str, Callable[[], Any]] = {
        "sgemm": lambda: cupy.matmul(a, b),
        "tf32": lambda: engine.multiply("tf32", a, at),
        "three calls": _three_calls(engine, a, at),
        "default": lambda: matmul(a, b),
        "default, B transposed": lambda: matmul(a, at, trans_b=True),
    }
    for name in ("short-block-fp16", "short-block-tf32", "double-fp16", "halfhalf", "fp64"):
        calls[name] = lambda name=name: matmul(a, b, scheme=name)
    for block in (256, 512, 1024, 2048):
        calls[f"v1, b = {block}"] = lambda block=block: matmul(a, b, scheme="fabsum-v1", block=block)
        if len(a) <= 8192:
            calls[f"v2, b = {block}"] = lambda block=block: matmul(a, b, scheme="fabsum-v2", block=block)
    return calls


def _three_calls(engine: Any, a: Any, bt: Any) -> Callable[[], Any]:
    """Algorithm 4.1 with nothing around it: the words are there already."""
    import cupy

    (a1, a2), (b1, b2) = split(a), split(bt)
    out = cupy.empty((len(a), len(bt)), np.float32)

    def call() -> Any:
        engine.multiply("fp16", a2, b1, out=out)
        engine.multiply("fp16", a1, b2, out=out, beta=1.0)
        return engine.multiply("fp16", a1, b1, out=out, beta=1.0)

    return call


def _line(entry: dict[str, Any]) -> str:
    native = entry["results"]["sgemm"]["TF"]
    parts = [
        f"{name} {r['TF']:.0f} ({r['TF'] / native:.2f}x) {r['max']:.0e}/{r['rms']:.0e}"
        for name, r in entry["results"].items()
    ]
    return f"{entry['n']:6d} {entry['data']:7s} {entry['choice']}: " + "; ".join(parts)


def splitting(n: int) -> dict[str, float]:
    """Bytes a second of the splitting kernel, of the inspection of A_1·B_1, and of a copy, at size n."""
    import cupy

    from multiword.fp32.execute import Gemm, measured
    from multiword.fp32.finish import inspect
    from multiword.fp32.split import split_operands

    a = cupy.random.standard_normal((n, n), dtype=np.float32)
    p, engine = cupy.empty((n, n), np.float32), get_engine("cublas")

    def vectors(x: Any, y: Any) -> Any:
        gemm = Gemm(engine, x, y, 1.0, 0.0, None, 1 << 60)
        return measured(gemm, SCHEMES["fast-fp16"], guess=True)

    b = a[::-1].copy()
    operands = {
        "rows": vectors(a, b),
        "columns": vectors(a.T, b.T),
        "rows and columns": vectors(a, b.T),
    }
    calls: dict[str, tuple[int, Callable[[], Any]]] = {
        "copy": (8, lambda: cupy.copyto(p, a)),
        "inspect": (4, lambda: inspect(p, words, centred=False, limit=1.0)),
        "inspect, centred": (8, lambda: inspect(p, words, centred=True, limit=1.0)),
    }
    for name, of in operands.items():
        words = split_operands(of)
        calls[f"split {name}"] = 16, lambda of=of: split_operands(of)
    times = settled({name: call for name, (_, call) in calls.items()})
    return {name: size * n * n / times[name][0] for name, (size, _) in calls.items()}


def header(command: str) -> dict[str, Any]:
    """What a result file says about its making."""
    import ml_dtypes

    versions = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "ml_dtypes": ml_dtypes.__version__,
    }
    device = "model of the NVIDIA H200's tensor core"
    if command == "gpu":
        import cupy

        device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
        versions |= {"cupy": cupy.__version__, "cuda runtime": cupy.cuda.runtime.runtimeGetVersion()}
    return {"date": str(date.today()), "device": device, "versions": versions}


def run(command: str, out: Path) -> None:
    """Measure, and write the results."""
    result = {
        **header(command),
        "command": f"python benchmarks/fp32.py {command} --out benchmarks/results/{out.name}",
    }
    if command == "gpu":
        import cupy

        cupy.random.seed(1)
        result["speed"] = speed([1024, 2048, 4096, 8192, 16384])
        result["bandwidth"] = {str(n): splitting(n) for n in (4096, 8192)}
        engine = get_engine("cublas")
        result["error against k"] = error_against_k(engine, [2**e for e in range(9, 19)], 2048, cupy)
        result["patterns"] = patterns(engine, 4096, 2048, cupy)
    else:
        engine = get_engine("tensorcore")
        result["error against k"] = error_against_k(engine, [2**e for e in range(9, 16)], 16, np)
        result["rounding inside"] = rounding_inside([2**e for e in range(9, 16)], 16)
        result["patterns"] = patterns(engine, 4096, 128, np)
        result["representation"] = representation()
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("gpu", "model"))
    parser.add_argument("--out", type=Path, default=Path("multiword.json"))
    arguments = parser.parse_args()
    run(arguments.command, arguments.out)


if __name__ == "__main__":
    main()
