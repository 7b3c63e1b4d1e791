"""The performance page's section on int8 words on a CPU."""

from __future__ import annotations

from typing import Any

from benchmarks.report_sections import device, folded, load, number, seconds, section, table


def int8_section(name: str) -> str:
    """Products on int8 words beside the native routines, by dtype and size."""
    data = load(name)
    products = [r for r in data["results"] if "n" in r]
    columns = [c for c in _COLUMNS if any(c in r["seconds"] for r in products)]
    rows = [
        [
            *(r["dtype"], f"{r['n']}", f"{r.get('threads', data['cores'])}", seconds(r["seconds"]["numpy"])),
            *(number(r["seconds"][c] / r["seconds"]["numpy"]) if c in r["seconds"] else "" for c in columns),
        ]
        for r in products
    ]
    header = " | ".join(["dtype", "n", "threads", "NumPy", *(_COLUMNS[c] for c in columns)])
    return section(
        f"int8 words, {device(data)}",
        name,
        _machine(data),
        "NumPy's time of a product of square matrices of normal numbers, and the times of the others divided "
        "by it: below 1 they are faster. *Ours* is the default accuracy with the words that the library "
        "chooses by itself; all take turns in one process.",
        table(header, rows),
        *_gram(data),
        *_bytes(data),
    )


_COLUMNS = {
    "torch": "PyTorch",
    "numpy, Haswell": "NumPy, AVX2 kernels",
    "numpy, SkylakeX": "NumPy, AVX-512 kernels",
    "libxs": "LIBXS, its emulation",
    "ours": "ours",
    "ours, normwise": '"normwise"',
    "ours, exact": '"exact"',
    "ours, avx512vnni": "ours, AVX-512 VNNI",
    "ours, avxvnni": "ours, AVX-VNNI",
}


def _machine(data: dict[str, Any]) -> str:
    """Kernels and BLAS, in a sentence."""
    blas = [b for b in data.get("blas", []) if b["internal_api"] != "openmp"]
    named = ", ".join(
        f"{b['internal_api']} {b['version']} ({b['architecture']})" for b in blas if b["version"]
    )
    kernels = ", ".join(data["kernels"]) or "none"
    return f"{data['cores']} cores, byte kernels {kernels}, BLAS {named}."


def _gram(data: dict[str, Any]) -> list[str]:
    """Gram matrices beside the full product."""
    rows = [[f"{r['gram']}", number(r["faster"])] for r in data["results"] if "gram" in r]
    text = "`ozaki.gram` beside the full product of the same matrices:"
    return [text, table("n | times as fast", rows)] if rows else []


def _bytes(data: dict[str, Any]) -> list[str]:
    """The byte products of other libraries, where they were timed."""
    rows = [r for r in data["results"] if r.get("gops")]
    if not rows:
        return []
    names = list(dict.fromkeys(name for r in rows for name in r["gops"]))
    cells = [[f"{r['bytes']}", *(number(r["gops"].get(name)) for name in names)] for r in rows]
    text = "Byte products of other libraries alone, of one modulus, in 10⁹ operations a second"
    return [folded(text, table(" | ".join(["n", *names]), cells))]
