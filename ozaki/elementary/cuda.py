"""Texts as CUDA kernels: a trace is printed, one line an operation, and nothing is contracted.

A kernel takes a number with each thread, by a function's first text, and where that leaves it undecided by
the longer one. What even that leaves stays in `out` and has a bit in the flags; integers on the host take it.
Whether there is any is the one thing that the host waits for: the kernel writes it to the host's own memory.
Where the longer text is known to leave nothing, as of functions of one float32 number, nothing waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.graphs import refuse_captures
from multiword.runtime.kernels import expanded, from_text, literal
from multiword.runtime.memory import taken
from multiword.runtime.readback import Readback
from ozaki.elementary import tables
from ozaki.elementary.evaluate import Otherwise
from ozaki.elementary.tracing import Program
from ozaki.elementary.values import BOOLEAN, FLOAT, INTEGER, Value

THREADS, BLOCKS = 256, 16
"""Threads of a block, and blocks to a multiprocessor."""

_FLAGS = {False: ", unsigned* flags, unsigned* undecided", True: ""}
"""Parameters, by whether the texts leave nothing undecided."""

_MOST_NEAR = 1 << 15
"""Bytes of a table's columns that a block copies to its shared memory."""

_C = {FLOAT: "double", INTEGER: "long long", BOOLEAN: "bool"}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^", "shr": ">>"}
_SIGNS |= {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_CALLS = {"fma": "__fma_rn", "sqrt": "__dsqrt_rn", "abs": "fabs", "single": "single"}
_CALLS |= {"bits": "__double_as_longlong", "unbits": "__longlong_as_double", "neg": "-", "not": "!"}

HEADER = f"""{expanded(Path(__file__).parents[1] / "rounding" / "conversion.cuh")}
__device__ double single(double x) {{ return widened(narrowed(x)); }}
"""


_free: defaultdict[int, list[Readback]] = defaultdict(list)
"""By device: words that kernels may write to, which are 0; each is of one call at a time."""


def evaluate(name: str, x: Sequence[Array], out: Array, otherwise: Otherwise | None) -> None:
    """Write a text's values of flat arrays to `out`, which may be the first of them, but no other.

    otherwise : computes on the host what both texts leave undecided; None where that is nothing.
    """
    if not out.size:
        return
    refuse_captures("functions")
    if otherwise is None:
        _launch(name, True, x, out)
        return
    cupy, free = import_cupy(), _free[out.data.device_id]
    undecided = taken(free, lambda: Readback(1, np.uint32))
    flags = cupy.empty((out.size + 31) // 32, np.uint32)
    _launch(name, False, x, out, flags, undecided.address)
    undecided.send()
    if (found := undecided.look())[0]:
        found[0] = 0
        words = cupy.flatnonzero(flags)  # few: their bits are looked through on the host
        bits = np.unpackbits(flags[words].get().view(np.uint8), bitorder="little").reshape(-1, 32)
        word, bit = bits.nonzero()
        places = words.get()[word] * 32 + bit
        where = cupy.asarray(places)
        arguments = [a[where].get() for a in (out, *x[1:])]
        out[where] = cupy.asarray(otherwise(name, out.dtype, arguments))
    free.append(undecided)


def _launch(name: str, decided: bool, x: Sequence[Array], out: Array, *flags: Any) -> None:
    device = out.data.device_id
    grid = min(_processors(device) * BLOCKS, -(-out.size // THREADS))
    arguments = (*x, out, np.int64(out.size), *flags)
    _kernel(name, out.dtype == np.float32, decided, device)((grid,), (THREADS,), arguments)


@cache
def _processors(device: int) -> int:
    return int(import_cupy().cuda.Device(device).attributes["MultiProcessorCount"])


@cache
def _kernel(name: str, of_single: bool, decided: bool, device: int) -> Any:
    """Return the kernel of a function's texts on a device."""
    return from_text(source(name, of_single, decided), "elementary", device)


def source(name: str, of_single: bool, decided: bool) -> str:
    """Return the kernel of a function's texts in CUDA.

    decided : whether they leave nothing undecided; else `undecided` becomes 1 where they do.
    """
    quick, longer = (Program(name, of_single, last) for last in (False, True))
    kind, names = "float" if of_single else "double", "xy"[: quick.arguments]
    near = _near(quick)
    copies = "".join(_copy(key, quick.trace.tables[key], columns) for key, columns in near.items())
    functions = device_function(quick, "quick", near=near) + device_function(longer, "longer", "__noinline__")

    def each(text: str, by: str = "") -> str:
        return by.join(text.replace("@", x) for x in names)

    given = each("widened(@)", ", ")
    return f"""{HEADER}{functions}
#define DECIDED {int(decided)}
extern "C" __global__
void elementary({each(f"const {kind}* of_@, ")}{kind}* out, long long n{_FLAGS[decided]}) {{
  const long long step = (long long)gridDim.x * blockDim.x, last = DECIDED ? n : (n + 31) & ~31LL;
  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  {each(f"{kind} next_@ = i < n ? of_@[i] : 0; ")}
  bool some = false;{copies}
  for (; i < last; i += step) {{
    {each(f"const {kind} @ = next_@; ")}
    if (i + step < n) {{ {each("next_@ = of_@[i + step]; ")}}}  // memory takes longer than a text
    bool doubt = false;
    if (i < n) {{
      double value;
      doubt = quick({given}, value{"".join(f", {key}" for key in near)});
      if (doubt) {{
        double better;  // what a call writes to lies in memory: not the value of every number
        doubt = longer({given}, better);
        value = better;
      }}
      out[i] = !DECIDED && doubt ? x : {"canonical<float>(value)" if of_single else "value"};
    }}
#if !DECIDED
    unsigned doubts = __ballot_sync(0xFFFFFFFF, doubt);
    if ((i & 31) == 0) flags[i >> 5] = doubts;
    some |= doubt;
#endif
  }}
#if !DECIDED
  // The host's memory is far: a block writes to it once, if at all.
  if (__syncthreads_or(some) && threadIdx.x == 0) *undecided = 1;
#endif
}}
"""


def _copy(key: str, table: np.ndarray, columns: Sequence[int]) -> str:
    """Return what copies columns of a table to a block's shared memory."""
    (rows, width), stride = table.shape, _stride(columns)
    of_row = " ".join(
        f"{key}[j * {stride} + {k}] = quick_{key}[j * {width} + {c}];" for k, c in enumerate(columns)
    )
    return f"""
  __shared__ __align__(16) double {key}[{rows * stride}];
  for (int j = threadIdx.x; j < {rows}; j += blockDim.x) {{ {of_row} }}
  __syncthreads();"""


def _stride(columns: Sequence[int]) -> int:
    """Return how far apart rows lie in shared memory: few words, or an odd number, meet most banks."""
    return len(columns) if len(columns) <= 4 else len(columns) | 1


def _near(program: Program) -> dict[str, list[int]]:
    """Return the tables of a text, and of each the columns in use, that a block has in its shared memory."""
    taken = {x.args[::2] for x in program.trace.values if x.op == "take"}
    used = {key: sorted(c for name, c in taken if name == key) for key in program.trace.tables}
    return {key: c for key, c in used.items() if 8 * len(program.trace.tables[key]) * len(c) <= _MOST_NEAR}


def device_function(
    program: Program, name: str, inline: str = "__forceinline__", near: dict[str, list[int]] | None = None
) -> str:
    """Return a text as a function of CUDA that writes a value, and returns whether that is in doubt.

    near : the tables that it is given, after the value, with these columns of each.
    """
    near = near or {}
    tables = "".join(_table(f"{name}_{key}", table) for key, table in program.trace.tables.items())
    parameters = "".join(f"double {x}, " for x in "xy"[: program.arguments])
    given = "".join(f", const double* {key}" for key in near)
    body = "\n  ".join(
        f"{_C[v.kind]} v{v.index} = {_expression(v, name, near)};" for v in program.trace.values
    )
    result, undecided = (_operand(x, k) for x, k in zip(program.results, (FLOAT, BOOLEAN), strict=True))
    return f"""{tables}
__device__ {inline} bool {name}({parameters}double& value{given}) {{
  {body}
  value = {result};
  return {undecided};
}}
"""


def device_functions(**texts: str) -> str:
    """Return functions' texts of float64 numbers as functions of CUDA, `quick_` and `longer_` before names.

    Also the constant that `integers.cuh` asks for, which decides what they leave in doubt.
    """
    functions = (
        device_function(Program(text, False, last), f"{prefix}_{name}")
        for name, text in texts.items()
        for prefix, last in (("quick", False), ("longer", True))
    )
    fraction = int(tables.constant("ln2", 1100) * 2**1024)
    words = (f"{fraction >> 64 * i & (1 << 64) - 1:#x}ull" for i in range(16))
    return "".join(functions) + f"#define LOG_2_WORDS {', '.join(words)}\n"


def _table(name: str, table: np.ndarray) -> str:
    numbers = ",".join(map(literal, table.ravel().tolist()))
    return f"__device__ const double {name}[{table.size}] = {{{numbers}}};\n"


def _expression(value: Value, function: str, near: dict[str, list[int]]) -> str:
    op, args = value.op, value.args
    if op == "argument":
        return "xy"[args[0]]
    if op == "take":
        name, row, column = args
        if name in near:
            return f"{name}[{_operand(row, INTEGER)} * {_stride(near[name])} + {near[name].index(column)}]"
        width = value.trace.tables[name].shape[1]
        return f"{function}_{name}[{_operand(row, INTEGER)} * {width} + {column}]"
    if op == "where":
        condition, a, b = args
        return f"{_operand(condition, BOOLEAN)} ? {_operand(a, value.kind)} : {_operand(b, value.kind)}"
    kind = next((x.kind for x in args if isinstance(x, Value)), value.kind)
    operands = [_operand(x, kind) for x in args]
    if op == "shl":
        return f"(long long)((unsigned long long){operands[0]} << {operands[1]})"
    if op in _CALLS:
        return f"{_CALLS[op]}({', '.join(operands)})"
    return f"{operands[0]} {_SIGNS[op]} {operands[1]}"


def _operand(x: Any, kind: str) -> str:
    if isinstance(x, Value):
        return f"v{x.index}"
    if kind == FLOAT:
        return literal(float(x))
    return f"{int(x)}LL" if kind == INTEGER else str(bool(x)).lower()
