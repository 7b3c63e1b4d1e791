"""`python -m benchmarks.predictions`: a page on other GPUs, predicted from public peak rates and bandwidths.

    seconds = products·2n³ / (share of the peak) + bytes / (share of the bandwidth)

Both shares are those that the steps of a product reach on an H200 at n = 8192, as measured
(`benchmarks/results/steps_h200.json`); what is measured of whole products there checks the predictions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.report_sections import load, number, table
from multiword.engines.moduli import residue_system

PAGE = Path(__file__).resolve().parents[1] / "docs" / "other-gpus.md"

SIZE = 8192

FP8_MODULI = (49, 47, 43, 41, 39, 37, 32, 31, 29, 25, 23, 19, 17)
"""Moduli each of whose residues is one FP8 word, an integer of e4m3 of at most 32."""

FP8_PAIRS = {1223: 143, 1201: 128, 1193: 49, 1181: 126, 1171: 137}
"""Moduli each of whose residues is s·h + l, where h, l and h + l are such words, by modulus: s."""

INT8_MODULI = residue_system("int8", 109, SIZE).moduli

INT8_PRODUCTS, FP8_PRODUCTS = len(INT8_MODULI), len(FP8_MODULI) + 3 * len(FP8_PAIRS)
"""Of an ordinary product of accuracy "fp64": one for a modulus, or three where residues have two words."""


@dataclass(frozen=True)
class Gpu:
    """What its vendor says: peaks in 10¹² operations a second, without sparsity, and bandwidth in TB/s.

    fp64 is that of tensor cores where they have it; fp8 is accumulated in FP32; 0 where there is none.
    source : of all four.
    """

    name: str
    fp64: float
    int8: float
    fp8: float
    bandwidth: float
    source: str


_HGX = "NVIDIA, HGX data sheet; bandwidth: [Verda](https://verda.com/blog/gb300-nvl72-architecture)"

H200 = Gpu("H200", 67, 1979, 1979, 4.8, "NVIDIA, data sheet")
GPUS = (
    Gpu("A100, 80 GB", 19.5, 624, 0, 2.04, "NVIDIA, data sheet (SXM)"),
    Gpu("H100, 80 GB", 67, 1979, 1979, 3.35, "NVIDIA, data sheet (SXM)"),
    H200,
    Gpu("L40S", 1.43, 733, 733, 0.864, "NVIDIA, data sheet; FP64 is a 64th of FP32"),
    Gpu("RTX 4090", 1.29, 661, 330, 1.01, "NVIDIA, white paper on the Ada architecture, appendix A"),
    Gpu(
        "RTX 5090", 1.64, 838, 419, 1.79, "NVIDIA, white paper on the RTX Blackwell architecture, appendix A"
    ),
    Gpu("B200", 37, 4500, 4500, 7.7, _HGX),
    Gpu("B300", 1.25, 150, 4500, 7.7, _HGX + ", and int8"),
    Gpu("MI300X", 163.4, 2615, 2615, 5.3, "AMD, data sheet"),
)

SOURCES = """\
## Where the rates are from

Rates that count sparsity are halved here, and those of a board of eight GPUs divided by eight.
"""

INTRODUCTION = """\
# Other GPUs, on paper

**These are predictions, not measurements.** Only the H200 and the H100 have been measured
([products](performance/fp64-gpu.md)); of all others there are
published peak rates (without sparsity) and bandwidths ([sources](#where-the-rates-are-from)). A product
takes the time of its int8 products at {products:.0f} % of the int8 peak, and that of its other steps at
{memory:.0f} % of the bandwidth: what the steps reach on an H200 at n = {size}. The native routine is taken
at {native:.0f} % of the FP64 peak, as there. Caches, power limits and libraries differ, so an error of 20 %
would be no surprise. If you have such a GPU, measure it: `python -m benchmarks.dgemm --gpu`.

At n = {size}; rates in 10¹² operations a second. The library runs on NVIDIA's GPUs only; the MI300X is
listed for comparison.
"""

CHECK = """\
## Against the H200's measurements

Speeds of `accurate_dgemm` on normal data, in 10¹² useful flops a second.
"""

ELSEWHERE = """\
NVIDIA's own emulation on a GB200, which cuts numbers into slices and takes about twice as many int8
products, is reported to reach 2.3 times DGEMM; on an RTX PRO 6000 Blackwell, whose FP64 units are few,
13.2 times ([paper](https://arxiv.org/abs/2511.13778)).
"""

FP8 = """\
## Where int8 ends, and what FP8 would take

Up to the B200, int8 products are as fast as those of FP8 or faster. The B300 keeps about a thirtieth of
that rate ([specifications](https://verda.com/blog/gb300-nvl72-architecture); some tables repeat the
B200's figure), and its FP64 units are few, too. There residues would have to be carried by FP8.

A word of e4m3 has four bits of significand. It holds every integer up to 16, and the even ones up to 32.
Modulo an odd q ≤ 49 every residue is such a word: where |r| > 16 is odd, r - q or r + q is even. So these
{singles} moduli take one product each: {moduli}.
Larger moduli, primes near 1200, have residues s·h + l, where s is a number for each modulus, and h, l and
h + l are words. A product of two such residues takes three products of words:

```math
r\\,r' \\equiv s^2\\,hh' \\allowbreak {{}}+ s\\left((h + l)(h' + l') - hh' - ll'\\right) + ll'
```

With four such primes that makes 25 FP8 products, and moduli whose product has {four:.0f} bits; with five it
makes {fp8} products and {five:.0f} bits. The moduli of {int8} int8 products have {bytes:.0f} bits. The table
takes {fp8}. A product of words is at most 1024, so sums over k ≤ 16384 are exact in FP32, provided that the
tensor core accumulates all 24 bits. Hopper's is known to keep fewer for FP8; a later one has to be probed
first. The library has no FP8 residues yet, and the table predicts them only where they would be faster.
"""


def rates() -> tuple[float, float]:
    """Operations a second of the int8 products, and bytes a second of the other steps, on the H200."""
    steps = [r for r in load("steps_h200")["results"] if r["n"] == SIZE]
    products = [r for r in steps if r["operations"]]
    others = [r for r in steps if r["bytes"]]
    return _rate(products, "operations"), _rate(others, "bytes")


def _rate(steps: list[dict], what: str) -> float:
    return float(sum(r[what] for r in steps) / sum(r["seconds"] for r in steps))


def measured() -> dict[int, dict]:
    """Square products of normal data on the H200, by size, from where a GPU is busy."""
    found = load("dgemm_h200")["results"]
    normal = [r for r in found if r["dtype"] == "float64" and r["data"] == "normal"]
    return {r["shape"][0]: r for r in normal if len(set(r["shape"])) == 1 and r["shape"][0] >= SIZE // 2}


def predicted(gpu: Gpu, n: int, *, fp8: bool = False) -> float:
    """10¹² useful flops a second of an ordinary product; 0 where there are no such words."""
    operations, bytes_a_second = rates()
    products = FP8_PRODUCTS if fp8 else INT8_PRODUCTS
    rate = (gpu.fp8 if fp8 else gpu.int8) * operations / H200.int8
    if not rate:
        return 0.0
    # Both operands are read twice and their words written; 32-bit products are read, the result written.
    moved = n * n * (2 * (8 + 8 + products) + 4 * products + 8)
    seconds = products * 2 * n**3 / rate + moved / (gpu.bandwidth * bytes_a_second / H200.bandwidth)
    return 2e-12 * n**3 / seconds


def native(gpu: Gpu) -> float:
    """10¹² flops a second of DGEMM."""
    return gpu.fp64 * float(measured()[SIZE]["native"]["teraflops"]) / H200.fp64


def _fp8_facts() -> dict[str, Any]:
    """What the text on FP8 says of the moduli."""
    bits = [math.log2(math.prod((*FP8_MODULI, *list(FP8_PAIRS)[:count]))) for count in (4, 5)]
    return {
        "singles": len(FP8_MODULI),
        "moduli": ", ".join(map(str, FP8_MODULI)),
        "four": bits[0],
        "five": bits[1],
        "fp8": FP8_PRODUCTS,
        "int8": INT8_PRODUCTS,
        "bytes": math.log2(math.prod(INT8_MODULI)),
    }


def page() -> str:
    """The page, from the results."""
    operations, bytes_a_second = rates()
    shares = {
        "products": 100e-12 * operations / H200.int8,
        "memory": 100e-12 * bytes_a_second / H200.bandwidth,
        "native": 100 * native(H200) / H200.fp64,
    }
    rows, check = [], []
    for gpu in GPUS:
        ours, eights, own = predicted(gpu, SIZE), predicted(gpu, SIZE, fp8=True), native(gpu)
        figures = [gpu.fp64, gpu.int8, gpu.fp8, gpu.bandwidth, own, ours, ours / own]
        figures.append(eights if eights > ours else 0.0)
        rows.append([gpu.name, *(number(x) if x else "–" for x in figures)])
    for n, result in measured().items():
        found, guess = float(result["ours"]["teraflops"]), predicted(H200, n)
        check.append([f"{n}", number(found), number(guess), f"{100 * (guess / found - 1):+.0f} %"])
    header = (
        "GPU | FP64 peak | int8 peak | FP8 peak | TB/s | DGEMM, predicted | `accurate_dgemm`, predicted "
        "| ratio | by FP8"
    )
    parts = [
        INTRODUCTION.format(size=SIZE, **shares),
        table(header, rows) + "\n",
        ELSEWHERE,
        CHECK,
        table("n | measured | predicted | deviation", check) + "\n",
        FP8.format(**_fp8_facts()),
        SOURCES,
        "".join(f"- {gpu.name}: {gpu.source}\n" for gpu in GPUS),
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
