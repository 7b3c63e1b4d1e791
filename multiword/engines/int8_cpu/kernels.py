"""The kernels of int8 products on CPUs, as data, and which of them this CPU and its system allow."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from multiword import tuning
from multiword.runtime.forking import loading, to_the_end

INNER = 64
"""Numbers of the inner dimension that go together: operands are padded to multiples of it."""

LINE_BYTES = 64
"""Bytes of a line of the cache."""

LONGEST = 64_960
"""Numbers of the inner dimension whose products fit int32, and their sum 22 bits once its halves are weighed:
255·128·LONGEST < 2**31, and 127·⌈255·128·LONGEST/2**16⌉ + 2**16 < 2**22. A multiple of INNER."""


@dataclass(frozen=True)
class Kernel:
    """How a CPU multiplies bytes: four products and their sum in each 32-bit lane of a register.

    Attributes
    ----------
    name : as `engine="int8_cpu:NAME"` forces it.
    triple, cpu : the target, and the oldest processor that has it, for compiling elsewhere.
    features : what LLVM calls the instructions.
    lanes : 32-bit lanes of a register.
    rows, columns : of a tile of the result, whose sums stay in registers; columns are a multiple of 16.
    signed : whether both factors are signed bytes; else those of the left one have no sign.
    dot : LLVM's instruction.
    tiles : whether sums are kept in AMX's tile registers, of 16 rows of 16 sums.
    """

    name: str
    triple: str
    cpu: str
    features: tuple[str, ...]
    lanes: int
    rows: int
    columns: int
    dot: str
    signed: bool = False
    tiles: bool = False

    @property
    def tile(self) -> tuple[int, int, int]:
        """Rows of a tile, numbers of the inner dimension that go together, columns."""
        return self.rows, INNER, self.columns

    @property
    def together(self) -> int:
        """Numbers of the inner dimension that are multiplied at a time: all, but in tile registers."""
        return tuning.INT8_CPU_INNER if self.tiles else 1 << 40


_X86, _ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
_AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni")

KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        Kernel(
            *("amx", _X86, "sapphirerapids", ("amx-tile", "amx-int8", *_AVX512), 16, 32, 32),
            *("llvm.x86.avx512.vpdpbusd.512", False, True),
        ),
        Kernel(*("avx512vnni", _X86, "icelake-server", _AVX512, 16, 14, 32, "llvm.x86.avx512.vpdpbusd.512")),
        Kernel(
            *("avxvnni", _X86, "alderlake", ("avx2", "fma", "avxvnni"), 8, 6, 16),
            "llvm.x86.avx512.vpdpbusd.256",
        ),
        Kernel(
            *("i8mm", _ARM, "neoverse-v1", ("neon", "i8mm"), 4, 6, 16),
            "llvm.aarch64.neon.usdot.v4i32.v16i8",
        ),
        Kernel(
            *("dotprod", _ARM, "neoverse-n1", ("neon", "dotprod"), 4, 6, 16),
            *("llvm.aarch64.neon.sdot.v4i32.v16i8", True),
        ),
    )
}
"""Every kernel, fastest first."""


@cache
def available_kernels() -> tuple[Kernel, ...]:
    """Return the kernels that this CPU has and its system permits, fastest first."""
    return to_the_end(_available_kernels)


def _available_kernels() -> tuple[Kernel, ...]:
    with loading:  # LLVM's binding has a lock of its own
        try:
            from llvmlite import binding
        except ImportError:
            return ()
        machine = binding.get_process_triple().split("-")[0].replace("arm64", "aarch64")
        features = dict(binding.get_host_cpu_features())
    if machine == "aarch64" and sys.platform.startswith("linux"):
        features |= arm_features(_auxiliary_value)
    return kernels_of(machine, features, tiles_permitted)


def kernels_of(
    machine: str, features: Mapping[str, bool], permitted: Callable[[], bool]
) -> tuple[Kernel, ...]:
    """Return the kernels of a processor with these features, fastest first.

    permitted : whether its system permits tile registers; asked only where it has them.
    """
    return tuple(
        kernel
        for kernel in KERNELS.values()
        if kernel.triple.split("-")[0] == machine
        and all(features.get(name, False) for name in kernel.features)
        and (not kernel.tiles or permitted())
    )


_HWCAP, _HWCAP2 = 16, 26
_ARM_FEATURES = {"neon": (_HWCAP, 1 << 1), "dotprod": (_HWCAP, 1 << 20), "i8mm": (_HWCAP2, 1 << 13)}
"""Where Linux tells of Arm's instructions: which word, and its bit (arch/arm64/include/uapi/asm/hwcap.h)."""


def arm_features(word: Callable[[int], int]) -> dict[str, bool]:
    """Return which instructions Linux says that a processor of Arm's has; LLVM does not ask for all of them.

    word : the words of the auxiliary vector, by number.
    """
    return {name: bool(word(number) & bit) for name, (number, bit) in _ARM_FEATURES.items()}


def _auxiliary_value(number: int) -> int:
    """Return a word that Linux has left for this process (getauxval)."""
    getauxval = ctypes.CDLL(None).getauxval
    getauxval.argtypes, getauxval.restype = [ctypes.c_ulong], ctypes.c_ulong
    return int(getauxval(number))


_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _TILE_DATA = 158, 0x1023, 18


@cache
def tiles_permitted() -> bool:
    """Ask Linux for the tile registers, which this process and its children may use from then on."""
    if not sys.platform.startswith("linux"):
        return False
    return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _TILE_DATA) == 0
