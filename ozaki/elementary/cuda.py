"""Texts as CUDA kernels: a trace is printed, one line an operation, and nothing is contracted.

A kernel takes two numbers with each thread, by a function's first text. What that leaves, a call takes:
values that stand beside a text, which would take up to a tenth of the time if they were chosen among all, and
what is undecided, by the longer text. Whether even that leaves something is the one thing that the host waits
for: the kernel writes it to the host's own memory. What is left stays in `out` and has a bit in the flags,
which are asked for at once where arguments are overwritten, and else by another launch; integers on the host
take it.
Where the longer text is known to leave nothing, as of functions of one float32 number, nothing waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from math import isfinite
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
from ozaki.elementary.record import FUNCTIONS
from ozaki.elementary.rounding import beside_text, by_text
from ozaki.elementary.tracing import Program
from ozaki.elementary.values import BOOLEAN, FLOAT, INTEGER, Value

THREADS, EACH, BLOCKS = 128, 2, 128
"""Threads of a block, numbers that each has at once, and blocks to a multiprocessor.

Two numbers share what is loaded; three want too many registers. Fewer blocks leave some processors idle,
blocks of 256 threads take up to a tenth longer.
"""

_FLAGS = {False: ", unsigned* flags, unsigned* undecided", True: ""}
"""Parameters, by whether the texts leave nothing undecided."""

_MOST_NEAR = 43_000
"""Bytes of a table's columns that a block copies to its shared memory, of 48 KiB."""

_C = {FLOAT: "double", INTEGER: "long long", BOOLEAN: "bool"}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^", "shr": ">>"}
_SIGNS |= {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_CALLS = {"fma": "__fma_rn", "sqrt": "__dsqrt_rn", "abs": "fabs", "single": "single"}
_CALLS |= {"bits": "__double_as_longlong", "unbits": "__longlong_as_double", "neg": "-", "not": "!"}
_CALLS |= {name: name for name in ("near_inverse", "near_inverse_root")}

INVERSES = expanded(Path(__file__).with_name("inverses.cuh"))

HEADER = f"""{expanded(Path(__file__).parents[1] / "rounding" / "conversion.cuh")}{INVERSES}
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

    def launched(flags: Any) -> bool:
        _launch(name, False, x, out, flags, undecided.address)
        undecided.send()
        found = undecided.look()
        some, found[0] = bool(found[0]), 0
        return some

    at_once = out.data.ptr == x[0].data.ptr
    flags: Any = cupy.zeros((out.size + 31) // 32, np.uint32) if at_once else np.uint64(0)
    if launched(flags):
        if not at_once:  # seldom: the arguments are still there
            flags = cupy.zeros((out.size + 31) // 32, np.uint32)
            launched(flags)
        where = cupy.asarray(_flagged(flags))
        arguments = [a[where].get() for a in (out, *x[1:])]
        out[where] = cupy.asarray(otherwise(name, out.dtype, arguments))
    free.append(undecided)


def _flagged(flags: Array) -> np.ndarray:
    """Return the places of bits that are set, few of many: they are looked through on the host."""
    words = import_cupy().flatnonzero(flags)
    bits = np.unpackbits(flags[words].get().view(np.uint8), bitorder="little").reshape(-1, 32)
    word, bit = bits.nonzero()
    places: np.ndarray = words.get()[word] * 32 + bit
    return places


def _launch(name: str, decided: bool, x: Sequence[Array], out: Array, *flags: Any) -> None:
    device = out.data.device_id
    grid = min(_processors(device) * BLOCKS, -(-out.size // (EACH * THREADS)))
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
    quick, longer, beside = _texts(name, of_single)
    kind, names = "float" if of_single else "double", "xy"[: quick.arguments]
    near = _near(quick)
    copies = "".join(_copy(key, quick.trace.tables[key], columns) for key, columns in near.items())
    functions = device_function(quick, "quick", near=near) + device_function(longer, "longer")
    functions += device_function(beside, "beside") if beside else ""

    canonical = "canonical<float>" if of_single else ""
    plainly = f"{'narrowed' if of_single and beside else canonical}(value[k])"  # NaN is beside a text
    of_block = "".join(f", {key}" for key in near)

    def each(text: str) -> str:
        return "".join(text.replace("@", x) for x in names)

    return f"""{HEADER}{functions}
#define DECIDED {int(decided)}
#define OPEN 0x7ff8000000000001ll  // no value's bits
// What the first text leaves: few numbers, but half of elu's, so a call, which costs others no registers.
__device__ __noinline__ double in_doubt({", ".join(f"double {x}" for x in names)}) {{
  double value;
  {f"if (beside({each('@, ')}value)) return value;" if beside else ""}
  return longer({each("@, ")}value) && !DECIDED ? __longlong_as_double(OPEN) : value;
}}

// Not in that call, of which the others of a warp would wait for each that writes to memory.
__device__ __noinline__ void leave(long long i, unsigned* flags, unsigned* undecided) {{
  if (!flags || !atomicOr(flags + (i >> 5), 1u << (i & 31))) *undecided = 1;
}}

extern "C" __global__
void elementary({each(f"const {kind}* of_@, ")}{kind}* out, long long n{_FLAGS[decided]}) {{
  const long long step = (long long)gridDim.x * {EACH * THREADS};
  long long first = (long long)blockIdx.x * {EACH * THREADS} + threadIdx.x;
  {each(f"{kind} next_@[{EACH}]; ")}
  for (int k = 0; k < {EACH}; ++k) {{
    const long long i = first + k * {THREADS};
    {each("next_@[k] = i < n ? of_@[i] : 0; ")}
  }}{copies}
  for (; first < n; first += step) {{
    {each(f"{kind} @[{EACH}]; ")}
    double value[{EACH}];
    bool doubt[{EACH}];
    for (int k = 0; k < {EACH}; ++k) {{
      const long long i = first + step + k * {THREADS};
      {each("@[k] = next_@[k]; ")}
      if (i < n) {{ {each("next_@[k] = of_@[i]; ")}}}  // memory takes longer than a text
    }}
    for (int k = 0; k < {EACH}; ++k) doubt[k] = quick({each("widened(@[k]), ")}value[k]{of_block});
    for (int k = 0; k < {EACH}; ++k) {{
      const long long i = first + k * {THREADS};
      if (i >= n) break;
      {kind} result = {plainly};
      if (doubt[k]) {{
        double left = in_doubt({", ".join(f"widened({x}[k])" for x in names)});
#if !DECIDED
        if (__double_as_longlong(left) == OPEN) {{
          left = widened(x[k]);  // integers on the host take it
          leave(i, flags, undecided);
        }}
#endif
        result = {canonical}(left);
      }}
      out[i] = result;
    }}
  }}
}}
"""


def _texts(name: str, of_single: bool) -> tuple[Program, Program, Program | None]:
    """Return a function's first text, which leaves all that is beside it, its longer one, and what is beside.

    A derivative's texts have all in them.
    """
    if name not in FUNCTIONS:
        return Program(name, of_single, False), Program(name, of_single, True), None
    function = FUNCTIONS[name]

    def quick(_: str, of_single: bool, last: bool, *x: Any) -> tuple[Any, Any]:
        value, undecided = by_text(function, of_single, last, *x)
        return value, undecided | beside_text(function, of_single, value, *x)[1]

    def longer(_: str, of_single: bool, last: bool, *x: Any) -> tuple[Any, Any]:
        return by_text(function, of_single, last, *x)

    def beside(_: str, of_single: bool, __: bool, *x: Any) -> tuple[Any, Any]:
        return beside_text(function, of_single, x[0], *x)

    return (
        Program(name, of_single, False, quick),
        Program(name, of_single, True, longer),
        Program(name, of_single, False, beside),
    )


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
    """Return how far apart rows lie in shared memory: few words, or pairs, an odd number, meet most banks."""
    return len(columns) if len(columns) <= 4 else 2 * (-(-len(columns) // 2) | 1)


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
    printed = _Printed(name, near or {})
    parameters = "".join(f"double {x}, " for x in "xy"[: program.arguments])
    given = "".join(f", const double* {key}" for key in printed.near)
    body = "\n  ".join(f"{_C[v.kind]} v{v.index} = {printed.expression(v)};" for v in program.trace.values)
    result, undecided = (
        printed.operand(x, k) for x, k in zip(program.results, (FLOAT, BOOLEAN), strict=True)
    )
    tables = "".join(_table(f"{name}_{key}", table) for key, table in program.trace.tables.items())
    return f"""{tables}{printed.constants_in_cuda()}
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
    return INVERSES + "".join(functions) + f"#define LOG_2_WORDS {', '.join(words)}\n"


def _table(name: str, table: np.ndarray) -> str:
    numbers = ",".join(map(literal, table.ravel().tolist()))
    return f"__device__ const double {name}[{table.size}] = {{{numbers}}};\n"


class _Printed:
    """The operations of a text of that name in CUDA, and the constants that they read."""

    def __init__(self, name: str, near: dict[str, list[int]]) -> None:
        self.name, self.near = name, near
        self._constants: dict[float, int] = {}

    def expression(self, value: Value) -> str:
        op, args = value.op, value.args
        if op == "argument":
            return "xy"[args[0]]
        if op == "take":
            name, row, column = args
            if name in self.near:
                place = f"{_stride(self.near[name])} + {self.near[name].index(column)}"
                return f"{name}[{self.operand(row, INTEGER)} * {place}]"
            width = value.trace.tables[name].shape[1]
            return f"{self.name}_{name}[{self.operand(row, INTEGER)} * {width} + {column}]"
        if op == "where":
            condition, a, b = args
            a, b = (self.operand(x, value.kind) for x in (a, b))
            return f"{self.operand(condition, BOOLEAN)} ? {a} : {b}"
        kind = next((x.kind for x in args if isinstance(x, Value)), value.kind)
        operands = [self.operand(x, kind) for x in args]
        if op == "shl":
            return f"(long long)((unsigned long long){operands[0]} << {operands[1]})"
        if op in _CALLS:
            return f"{_CALLS[op]}({', '.join(operands)})"
        return f"{operands[0]} {_SIGNS[op]} {operands[1]}"

    def operand(self, x: Any, kind: str) -> str:
        if isinstance(x, Value):
            return f"v{x.index}"
        if kind == FLOAT:
            return self._number(float(x))
        return f"{int(x)}LL" if kind == INTEGER else str(bool(x)).lower()

    def _number(self, x: float) -> str:
        """Return a number as an operand.

        One whose lower half is 0 is a part of an instruction. Two instructions would write another to
        registers, every time: it is read from constant memory, which takes none.
        """
        if not isfinite(x) or not int(np.float64(x).view(np.int64)) & 0xFFFFFFFF:
            return literal(x)
        return f"{self.name}_constants[{self._constants.setdefault(x, len(self._constants))}]"

    def constants_in_cuda(self) -> str:
        """Return what the lines read, to be printed before them."""
        numbers = ", ".join(map(literal, self._constants))
        return f"__constant__ double {self.name}_constants[] = {{{numbers}}};" if numbers else ""
