"""The performance page's sections on a GPU: beside version 0.1, accuracy "normwise", a program of others."""

from __future__ import annotations

from benchmarks.report_sections import device, load, number, seconds, section, table


def against_section(name: str) -> str:
    """Every row that version 0.1 was measured in, beside it."""
    data = load(name)
    rows = [[r["row"], seconds(r["before"]), seconds(r["now"]), number(r["ratio"])] for r in data["results"]]
    return section(
        f"Beside version 0.1, {device(data)}",
        name,
        "Medians of seven turns, in which both versions are timed one after the other, each in its process. "
        "`dgemm` is `accurate_dgemm`, and so its relatives; stacks are those of `ozaki.matmul`.",
        table("work | version 0.1 | now | now over 0.1", rows),
    )


def normwise_section(name: str) -> str:
    """Accuracy "normwise" beside the native routine and the default."""
    data = load(name)
    ways = "native", "fp64", "normwise", "caller's graph"
    rows = []
    for r in data["results"]:
        times = {way: r["seconds"][way]["queued"] for way in ways}
        ratio = times["native"] / times["normwise"]
        rows.append([str(r["n"]), *map(seconds, times.values()), number(ratio), seconds(r["host"])])
    return section(
        f'Accuracy "normwise", {device(data)}',
        name,
        'Calls of `accurate_dgemm` queued one after another; the caller\'s own CUDA graph of a "normwise" '
        "product; and what such a call takes the host while the GPU is busy with other work.",
        table("n | native | fp64 | normwise | caller's graph | native over normwise | host", rows),
    )


def program_section(name: str) -> str:
    """A CuPy program as it is, and with this library's products."""
    data = load(name)
    rows = [
        [
            *(str(r["atoms"]), r["way"], f"{r['energy']:.15f}", str(r["energies"]), seconds(r["seconds"])),
            *(str(r.get("products", "–")), seconds(r.get("of products"))),
        ]
        for r in data["results"]
    ]
    return section(
        f"A CuPy program, {device(data)}",
        name,
        "`tests/programs/hartree_fock.py`, a chain of hydrogen atoms, as it is and within "
        "`ozaki.cupy.emulated()`. The whole program, of three runs the shortest; *energies*: how many "
        "different ones these runs gave; the last columns are what was replaced, and its time on the GPU.",
        table("atoms | products by | energy, hartree | energies | seconds | products | of them", rows),
    )


def small_calls_section(name: str) -> str:
    """Small products, stacks and sums beside CuPy's."""
    data = load(name)
    rows = []
    for r in data["results"]:
        native, ours = (r[way]["loop"] for way in ("native", "ours"))
        times = [number(r[way][how]) for way in ("native", "ours") for how in ("loop", "alone")]
        rows.append([r["row"], *times, number(ours / native)])
    return section(
        f"Small calls, {device(data)}",
        name,
        "Microseconds of `ozaki.matmul`, `sum` and `dot` and of CuPy's: of calls in a loop that is waited "
        "for at its end, and of one that is waited for. Most of that is the host's time. 4 × 64² is a stack "
        "of four products. Where integers are to be wider (half zeros, φ = 2) or lose nothing (transforms, "
        "whose last row is 0, 0, 0, 1), the GPU decides.",
        table("call | CuPy | waited for | ours | waited for | ours over CuPy", rows),
    )
