"""The sections of the performance page: what each result file says, as text and tables."""

from __future__ import annotations

import hashlib
import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
COMMITS = RESULTS / "commits.txt"


@cache
def load(name: str) -> Any:
    """The contents of a result file, or None if there is none."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


@cache
def commit(name: str) -> str | None:
    """The commit of a result file, as `benchmarks.report` has written it down."""
    lines = COMMITS.read_text().splitlines() if COMMITS.exists() else []
    return dict(line.split() for line in lines).get(name)


def digest(*names: str) -> str:
    """A few characters that tell whether a figure was made from these files as they are."""
    return hashlib.sha256(b"".join((RESULTS / f"{n}.json").read_bytes() for n in names)).hexdigest()[:16]


def table(header: str, rows: list[list[str]]) -> str:
    """A Markdown table; `header` has the titles between bars, numbers are right-aligned."""
    titles = header.split(" | ")
    numeric = [i > 0 and all(row[i][:1] in "0123456789–" for row in rows) for i in range(len(titles))]
    rule = ["---:" if right else "---" for right in numeric]
    return "\n".join(f"| {' | '.join(row)} |" for row in [titles, rule, *rows])


def number(x: float | None, digits: int = 3) -> str:
    """Digits that matter, without an exponent where that is readable."""
    if x is None:
        return "–"
    return f"{x:.0f}" if abs(x) >= 10**digits else f"{x:#.{digits}g}".rstrip(".")


def seconds(x: float | None) -> str:
    """A time with its unit."""
    if x is None:
        return "–"
    for scale, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if x >= scale:
            return f"{number(x / scale)} {unit}"
    return f"{number(x * 1e9)} ns"


def error(x: float) -> str:
    """Two digits; nothing where a result has none."""
    return "–" if math.isnan(x) else f"{x:.1e}"


def device(data: dict[str, Any]) -> str:
    """What a result was measured on."""
    facts = {**data, **data.get("environment", {})}
    if "NVIDIA" in str(facts.get("device")):
        return str(facts["device"])
    cores = f", {facts['cores']} cores" if "cores" in facts else ""
    return f"CPU, {facts.get('device', facts.get('machine', 'unknown'))}{cores}"


def provenance(name: str) -> str:
    """Date, commit, device, versions, command and file of a result, as one line."""
    data = load(name)
    facts = {**data, **data.get("versions", {}), **data.get("environment", {})}
    versions = []
    for key, title in (("python", "Python"), ("numpy", "NumPy"), ("cupy", "CuPy"), ("torch", "PyTorch")):
        if key in facts:
            versions.append(f"{title} {facts[key]}")
    if "cublas" in facts:
        n = facts["cublas"]
        versions.append(f"cuBLAS {n // 10000}.{n // 100 % 100}.{n % 100}")
    listed = ", ".join(versions)
    kept = f" (commit {commit(name)})" if commit(name) else ""
    command = re.sub(r"(?<= )/\S+/(\w+\.json)", r"benchmarks/results/\1", facts["command"])
    return (
        f"{facts['date']}, {device(data)}{', ' + listed if listed else ''}; "
        f"`{command}`, `benchmarks/results/{name}.json`{kept}."
    )


def section(title: str, name: str, *blocks: str) -> str:
    """Return a section: what has changed since, the picture, text and tables, where they come from."""
    pictures = [b for b in blocks if b.startswith("![")]
    rest = [b for b in blocks if b and b not in pictures]
    since = [since] if (since := load(name).get("since")) else []
    return "\n\n".join([f"## {title}", *since, *pictures, *rest, f"*Measured {provenance(name)}*"])


def folded(title: str, text: str) -> str:
    """Text that a reader opens."""
    return f'<details markdown="1"><summary>{title}</summary>\n\n{text}\n\n</details>'


def figure(name: str, text: str) -> str:
    return f"![{text}](../figures/{name}.svg)"


def shape(row: dict[str, Any]) -> str:
    m, k, n = row["shape"]
    return f"{m}" if m == k == n else f"{m}, {k}, {n}"


def words_section(name: str) -> str:
    """float32 products from words."""
    rows = []
    for r in load(name)["speed"]:
        native, ours, calls = (r["results"][x] for x in ("sgemm", "default", "three calls"))
        rates = [number(x) for x in (native["TF"], ours["TF"], ours["TF"] / native["TF"])]
        alone = number(ours["TF alone"] / native["TF alone"])
        wrong = [error(x["max"]) for x in (native, ours, calls)]
        rows.append(
            [f"{r['n']}", r["data"], *rates, alone, scheme_name(r["choice"]), number(calls["TF"]), *wrong]
        )
    header = (
        "n | data | SGEMM TF | ours TF | ratio | ratio alone | scheme chosen | three plain calls TF"
        " | SGEMM error | our error | three plain calls error"
    )
    note = (
        "`multiword.matmul` with its default accuracy beside cuBLAS's SGEMM, and beside three calls of "
        "`cublasGemmEx` on two fp16 words without scaling, centring or blocks. Rates are those of one of "
        "many calls queued one after another, once the clock has settled; *alone*: those of a call on an "
        "idle device, the time of Python and of launches included."
    )
    return section(
        f"float32 from fp16 words, {device(load(name))}",
        name,
        note,
        table(header, rows),
        figure(name, "speed and error against n"),
        "The largest error on matrices whose exponents range widely and on those of applications, "
        "(2048, 4096) by (4096, 2048), and the scheme that the default chose from the operands (after a "
        "check of the product, it may have computed it again in fp64):",
        table("A and B | chosen | our error | SGEMM | halfhalf | tf32tf32", pattern_rows(name)),
    )


def scheme_name(recorded: str) -> str:
    """The name that a scheme has now; some results were measured under former names."""
    return {"steady-fp16": "short-block-fp16", "steady-tf32": "short-block-tf32"}.get(recorded, recorded)


def pattern_rows(name: str) -> list[list[str]]:
    """The largest error of each scheme on each pair of distributions."""
    found: dict[str, dict[str, Any]] = {}
    for r in load(name)["patterns"]:
        found.setdefault(r["data"], {"choice": r["choice"]})[r["scheme"]] = r["max"]
    schemes = ("default", "fp32", "halfhalf", "tf32tf32")
    return [
        [label, scheme_name(row["choice"]), *("fails" if row[s] is None else error(row[s]) for s in schemes)]
        for label, row in found.items()
    ]


def words_model_section(name: str) -> str:
    """float32 products from words on the model, and what its rounding does."""
    found: dict[int, dict[str, float]] = {}
    for r in load(name)["rounding inside"]:
        found.setdefault(r["k"], {})[f"{r['scheme']}, {r['rounding']}"] = r["max"]
    columns = list(dict.fromkeys(c for row in found.values() for c in row))
    rows = [[f"{k}", *(error(row[c]) if c in row else "–" for c in columns)] for k, row in found.items()]
    note = (
        "The picture has the default and the papers' schemes against the length of the inner dimension. The "
        "table has errors of float32 products on a model of the tensor core: as it is, rounding toward zero "
        "(RZ), and with rounding to nearest (RN) instead, on uniform data on (0, 1]."
    )
    blocks = (table(" | ".join(["k", *columns]), rows), figure(name, "error against k"))
    return section(f"float32 from fp16 words, {device(load(name))}", name, note, *blocks)


def sizes_of(stack: int, m: int, k: int, n: int) -> str:
    """What is multiplied, in words."""
    left = f"{m} × {k}" if stack == 1 else f"{stack} of {m} × {k}"
    return left if m == k == n else f"{left} by {k} × {n}"


def products_section(name: str) -> str:
    """Products of every size on a CPU, with compiled code and without."""
    data = load(name)
    header = (
        "product | native | ours | ours over native | without numba | correctly rounded | arb_mat, 120 bits"
        " | arb_mat over correctly rounded"
    )
    rows = []
    for r in data["results"]:
        t = r["seconds"]
        peer = t.get("arb_mat")
        rows.append(
            [
                sizes_of(r["stack"], *r["shape"]),
                *(seconds(t["native"]), seconds(t["ours"]), number(t["ours"] / t["native"])),
                *(seconds(t["ours, NumPy"]), seconds(t["exact"]), seconds(peer)),
                number(peer / t["exact"]) if peer else "–",
            ]
        )
    threads = "one thread" if data["threads"] == 1 else f"{data['threads']} threads"
    note = (
        f"float64, normal numbers, {threads}, the least of many times. Ours is compiled where numba is "
        "installed, with the same bits. This is another run than those of int8 words, on another day or "
        "machine, so times of the same product differ."
    )
    return section(f"Products of every size, {device(data)}", name, note, table(header, rows))


def reductions_section(name: str) -> str:
    """Sums and dot products."""
    data = load(name)
    rows, header = [], "what | native | ours | ours over native | of a copy's bandwidth"
    for r in data["seconds"]:
        native = r.get("native")
        if "ns_per_element" in r:
            header = "what | native | ours | time of ours over native's | math.fsum | xsum"
            ratio = number(r["ours"] / native) if native else "–"
            rest = [ratio, *(seconds(r.get(peer)) for peer in ("fsum", "xsum"))]
        elif "ours" in r:
            rest = [number(r["ours"] / native) if native else "–", f"{100 * r['of_copy']:.0f} %"]
        else:
            continue
        rows.append([r["what"], seconds(native), seconds(r["ours"]), *rest])
    note = f"Correctly rounded, {data['elements']:.0e} elements of float64 unless said otherwise.".replace(
        "e+0", "e"
    )
    if "bytes_for_sum_of_1e8" in data:
        note += (
            " Sums of a given number of elements take turns with calls of the others, so that the numbers "
            "are no longer in the caches; in the rows below, each call is repeated at once. Hence the two "
            "ratios of 10⁶ normal numbers."
        )
        note += f" A sum of 10⁸ allocates {data['bytes_for_sum_of_1e8'] / 1e6:.1f} MB."
    return section(f"Sums and dot products, {device(data)}", name, note, table(header, rows))


def first_calls_section(name: str) -> str:
    """The first call on a machine, in a process, and the second one."""
    data = load(name)
    rows = [
        [r["row"], *(seconds(r[key]) for key in ("machine", "process", "again"))] for r in data["results"]
    ]
    whose = "Seconds by the clock" if "cupy" in data else "Processor time"
    note = (
        f"{whose} from `import ozaki` on: where nothing has been compiled, in a later process, and of the "
        "second call there. `python -m ozaki compile` compiles "
    )
    note += f"everything, in {data['compile']:.0f} s." if "compile" in data else "the kernels of usual calls."
    header = "call | first on a machine | first in a process | second"
    return section(f"First calls, {device(data)}", name, note, table(header, rows))


def everyday_section(name: str) -> str:
    """Every function beside what people use for it."""
    data = load(name)
    whose = list(dict.fromkeys(peer for row in data["results"] for peer in row["seconds"]))
    rows = [[r["row"], *(seconds(r["seconds"].get(peer)) for peer in whose)] for r in data["results"]]
    return section(
        f"Integers, symmetric products, groups, windows, {device(data)}",
        name,
        f"A call, in {data['unit']}. Native products of integers of 63 bits wrap around. *Full* is our own "
        "product without the symmetry of `gram`.",
        table(" | ".join(["function", *whose]), rows),
    )


def torch_section(name: str) -> str:
    """What the mode for PyTorch costs."""
    data = load(name)
    rows = [
        [f"`{r['operator']}`", f"{r['n']}"]
        + [number(r["times"][way]["host"]) for way in ("native", "arrays", "tensors", "mode")]
        + [number(r["more"])]
        for r in data["operators"]
    ]
    header = "operator | n | PyTorch's own | of arrays | of tensors | in the mode | mode - arrays"
    note = (
        "Microseconds that a call takes the host: PyTorch's operator, this library's function of NumPy's or "
        "CuPy's arrays (for `addmm`, `accurate_dgemm` with C) and of tensors, and the operator within "
        "`ozaki.torch.reproducible()`."
    )
    return section(f"PyTorch, {device(data)}", name, note, folded(f"{len(rows)} calls", table(header, rows)))


def training_section(name: str) -> str:
    """What a training step costs in the mode."""
    data = load(name)
    rows = [
        [
            r["model"],
            f"{r['parameters']:,}",
            *(number(1e3 * r[way]) for way in ("native", "mode")),
            number(r["ratio"]),
        ]
        for r in data["rows"]
    ]
    note = (
        "Milliseconds of a float32 training step, forward, backward and update: PyTorch's own, and with its "
        "products replaced. On a CPU it is the processor time of one thread."
    )
    header = "model | parameters | PyTorch | in the mode | times"
    return section(f"Training, {device(data)}", name, note, table(header, rows))


_NETWORKS = {
    "small": "a GPT of 2 layers of 32 units, and a residual network of width 4",
    "medium": "a GPT of 4 layers of 128 units, and a residual network of width 16",
    "few": "a GPT of 124 million parameters and a ResNet-18 on 224 × 224, 4 samples a step",
    "full": "a GPT of 124 million parameters, 16 × 1024 tokens, and a ResNet-18 on 224 × 224, 64 images",
}
"""What networks are trained, by the sizes of the benchmark."""


def two_networks_section(name: str) -> str:
    """Two networks trained in different settings: times, memory and fingerprints."""
    data = load(name)
    size = next((x for x in _NETWORKS if f"--size {x}" in data["command"]), "small")
    rows = [
        [
            *(r["setting"], r["mode"], *(number(1e3 * r[net]) for net in ("gpt", "resnet")), str(r["MiB"])),
            f"`{r['parameters' if 'workers' in r['setting'] else 'fingerprint']}`",
        ]
        for r in data["rows"]
    ]
    note = (
        "Steps of AdamW with warm-up and clipping, dropout on, batch norms of a fixed number of samples, "
        "float32: PyTorch's own, in `everything=True`, and in that with `ExactGradients`. Milliseconds of a "
        "step, on a CPU of processor time; MiB at the peak, of the process or a GPU's; one fingerprint of "
        "both models and optimizers. Two workers have running statistics of their own samples: theirs is of "
        "parameters and optimizers alone."
    )
    networks = f"{_NETWORKS[size][0].upper()}{_NETWORKS[size][1:]}."
    if exact := [r["parameters"] for r in data["rows"] if "ExactGradients" in r["mode"]]:
        networks += (
            f" Of parameters and optimizers the fingerprint with exact gradients is `{exact[0]}` in all."
        )
    if "beside" in data:
        networks += f" Meanwhile {data['beside']} on the same machine."
    head = "setting | mode | GPT | ResNet | MiB | fingerprint"
    where = f"{device(data)}, {data['capability']}" if "H200" not in data["device"] else device(data)
    settings = table(head, rows)
    if len(rows) > 4:
        settings = folded(f"{len(rows)} runs", settings)
    return section(f"Two networks, {size}, {where}", name, note, networks, settings)


def model_section(name: str) -> str:
    """The tensor core model: bits and speed."""
    counts: dict[tuple[str, str], list[int]] = {}
    for row in load(name)["rows"]:
        found = counts.setdefault((row["word"], row["accumulate"]), [0, 0, 0])
        found[0] += "equal" in row
        for part in row.get("equal", {}).values():
            found[1] += part["results"]
            found[2] += part["equal"]
    rows = [[w, a, *map(str, c), f"{100 * c[2] / c[1]:.4g} %"] for (w, a), c in counts.items()]
    text = [
        "Elements of `cublasGemmEx` results that the model predicts bit for bit, on five distributions.",
        table("words | accumulator | shapes | results | equal | share", rows),
    ]
    if left := [row["not_predicted"] for row in load(name)["rows"] if "not_predicted" in row]:
        text.append(f"Not predicted, and not counted: {'; '.join(left)}.")
    if speed := load("tensorcore_speed"):
        rows = [
            [
                r["generation"],
                r["word"],
                f"{r['size']}",
                seconds(r["seconds"]),
                number(r["times_faster_than_scalar"]),
                number(r["times_faster_than_rational"]),
            ]
            for r in speed["rows"]
        ]
        text += [
            "Its speed, against the same arithmetic element by element in Python. "
            + provenance("tensorcore_speed"),
            table("model of | words | n | time | times faster than floats | than rational numbers", rows),
        ]
    return section(f"The tensor core model against an {device(load(name))}", name, *text)


def findings_section(name: str) -> str:
    """What the probes found."""

    def word(x: Any) -> str:
        return {True: "yes", False: "no", None: "not inferred"}.get(x, str(x))

    keys = ("width", "fraction_bits", "alignment", "rounding", "order_matters", "normalised_in_addition")
    rows = [
        [f["engine"], f["word"], f["result"], *(word(f[k]) for k in keys)] for f in load(name)["findings"]
    ]
    header = (
        "engine | words | result | products in a step | fraction bits | alignment | rounding"
        " | order matters | normalised between additions"
    )
    note = "What `multiword.probe` finds through cuBLAS (`cublas`) and in the models of other generations."
    return section("What the probes found", name, note, table(header, rows))
