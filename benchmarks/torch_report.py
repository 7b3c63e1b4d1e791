"""What the experiment with PyTorch's operators has found, as tables."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from benchmarks.report_sections import device, folded, load, number, seconds, section, table

VARYING = ("threads", "cut", "order")


def operators_summary(name: str = "torch_operators_cpu") -> str:
    """How many operators are equal, refused or named, in each mode."""
    data = load(name)
    rows = []
    for mode, title in (
        ("plain", "PyTorch's own"),
        ("products", "`sums=True`"),
        ("everything", "`everything=True`"),
    ):
        kinds = [_kind(row, mode) for row in data["rows"]]
        counts = [sum(test(kind) for kind in kinds) for test in _COLUMNS.values()]
        rows.append([title, *map(str, counts)])
    text = (
        f"By experiment ({data['date']}, PyTorch {data['torch']}, {data['capability']}, float32, forward and "
        f"backward, `{data['command']}`), {len(data['rows'])} operators with PyTorch's samples: on one "
        "thread and two, a batch in two parts and in another order "
        "([each operator](performance/torch.md)):"
    )
    return f"{text}\n\n{table(' | '.join(['mode', *_COLUMNS]), rows)}"


_COLUMNS = {
    "equal bits": lambda kind: kind == "equal",
    "of some arguments named or refused, of others equal": lambda kind: kind.startswith("equal,"),
    "named in the warning": lambda kind: kind == "named",
    "refused": lambda kind: kind == "refused",
    "vary in silence": lambda kind: kind.startswith("varies"),
}


def operators_section(name: str) -> str:
    """Operators by what becomes of them outside of the mode, with products and sums, and with everything."""
    data, groups = load(name), defaultdict(list)
    for row in data["rows"]:
        groups[tuple(_kind(row, mode) for mode in ("everything", "products", "plain"))].append(
            row["operator"]
        )
    rows = [
        [*kinds, str(len(names)), ", ".join(f"`{n}`" for n in names)]
        for kinds, names in sorted(groups.items())
    ]
    note = (
        "PyTorch's samples of its operators in float32, as they are and large enough for two threads, "
        "forward and backward: on one thread and on two, and where PyTorch's results of parts of a batch are "
        "those of the whole up to rounding, of two parts and in another order. An operator is named where "
        "the warning at the end of the block counts it, or one that it calls, and refused where the mode "
        f"raises. PyTorch for {data['capability']}."
    )
    header = "everything=True | sums=True | PyTorch's own | number | operators"
    opened = folded(f"{len(data['rows'])} operators", table(header, rows))
    return section("PyTorch's operators in the mode, CPU", name, note, opened)


def _kind(row: dict[str, Any], mode: str) -> str:
    """Return what an operator is in a mode, over all samples."""
    found = row[mode]
    if varying := [x for x in VARYING if x in found]:
        return f"varies with {', '.join(varying)}"
    said = " or ".join(x for x in found if x != "equal")
    return f"equal, or {said}" if said and "equal" in found else said or "equal"


def rows_section(name: str) -> str:
    """Functions of rows and products of half precision on a GPU, beside PyTorch's."""
    data = load(name)
    pairs = zip(data["rows"][::2], data["rows"][1::2], strict=True)
    functions = [
        [f"`{own['function']}`", " × ".join(map(str, own["shape"])), *_both(native, own, "device", "queued")]
        for native, own in pairs
    ]
    products = [
        [own["dtype"].removeprefix("torch."), str(own["n"]), *_both(native, own, "queued")]
        for native, own in zip(data["products"][::2], data["products"][1::2], strict=True)
    ]
    head = "function | shape | PyTorch's kernels | ours | times | PyTorch's call | ours | times"
    return section(
        f"Functions of rows and half precision, {device(data)}",
        name,
        "Functions of float32 rows: what the GPU works, by its own clock, and a call among many, which "
        "takes the host's time where that is longer: nothing waits for the GPU.",
        folded(f"{len(functions)} calls", table(head, functions)),
        'Products of (n, n) matrices in the mode, "normwise", beside PyTorch\'s own:',
        folded(f"{len(products)} products", table("dtype | n | PyTorch's | ours | times", products)),
    )


def _both(native: dict[str, Any], ours: dict[str, Any], *columns: str) -> list[str]:
    """Return PyTorch's time and ours, and how many times as long that is, of each column."""
    return [x for c in columns for x in (seconds(native[c]), seconds(ours[c]), number(ours[c] / native[c]))]
