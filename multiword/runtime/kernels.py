"""CUDA kernels as data: a `.cu` file, a name, and the instances worth compiling ahead.

Each kernel stands in a file beside the NumPy formula that it must equal. Declaring one registers it, so
that the test suite can compile them all for every architecture without a GPU.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from multiword.runtime.arrays import Array, import_cupy
from multiword.runtime.companions import Constants, Named, companions
from multiword.runtime.machine_code import Text, compile_ahead, target
from multiword.runtime.scoped import Scoped

KERNELS: dict[str, Kernel] = {}
"""Every kernel that has been declared, by name."""

_ROOT = Path(__file__).parents[2]
"""The folder of the packages, which `#include` counts from."""

_INCLUDE = re.compile(r'^#include "(.+)"$')


@dataclass(frozen=True)
class Kernel:
    """A CUDA kernel `extern "C" __global__ void name(...)` with compile-time constants.

    Attributes
    ----------
    name : of the function.
    file : the `.cu` file that it stands in.
    instances : sets of constants (preprocessor macros) that cover every branch of the source: the
        ahead-of-time compile test runs through them.
    structs : the structs among its parameters.
    architecture : the only one that it is for, where instructions are not those of the device's number
        alone ("sm_90a"); None for any.
    equals : the function whose results it has, bit for bit, or of which it is a step: that of the definition,
        of NumPy, or the form for arrays on the host.
    cooperative : whether its blocks wait for each other: all of them run at once, or the launch fails.
    """

    name: str
    file: Path
    instances: tuple[dict[str, int | str], ...] = field(default=({},))
    structs: tuple[type[Struct], ...] = ()
    architecture: str | None = None
    cooperative: bool = False
    equals: str = ""

    def __post_init__(self) -> None:
        if KERNELS.setdefault(self.name, self).file != self.file:  # the same again where modules are reloaded
            raise ValueError(f"kernel {self.name!r} is declared twice")
        KERNELS[self.name] = self

    @property
    def source(self) -> str:
        """The file with its headers, and the checks of the structs' layouts."""
        return expanded(self.file) + "".join(struct.check() for struct in self.structs)

    def text(self, constants: Constants) -> str:
        """Return what is compiled: the source after its constants."""
        return "".join(f"#define {key} {value}\n" for key, value in constants) + self.source

    def for_target(self, constants: Constants, target: str) -> Text:
        """Return the text for a device's architecture, or for the only one of the kernel."""
        return Text(self.text(constants), self.file.name, self.architecture or target)

    def instance(self, *, shared: int = 0, **constants: int | str) -> Instance:
        """Return the kernel with these constants, and so much shared memory."""
        return Instance(self, tuple(sorted(constants.items())), shared)

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        arguments: tuple[Any, ...],
        *,
        shared: int = 0,
        **constants: int | str,
    ) -> None:
        """Launch on CuPy's current stream."""
        self.instance(shared=shared, **constants)(grid, block, arguments)


@dataclass(frozen=True)
class Instance:
    """A kernel with its constants, to be launched with so many bytes of dynamic shared memory."""

    kernel: Kernel
    constants: Constants
    shared: int
    _functions: dict[int, Any] = field(default_factory=dict, compare=False, repr=False)

    def compiled(self) -> Any:
        """Return the CuPy function on the current device."""
        device = import_cupy().cuda.runtime.getDevice()
        # To look all constants up takes a microsecond.
        if (function := self._functions.get(device)) is None:
            function = self._functions[device] = _compile(self.kernel.name, self.constants, device)
        return function

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: tuple[Any, ...]) -> None:
        """Launch on CuPy's current stream."""
        if all(grid):
            values = tuple([x.value if isinstance(x, Struct) else x for x in arguments])
            function = self.compiled()
            if self.kernel.cooperative:
                function.kernel(grid, block, values, self.shared, None, True)
            else:
                function(grid, block, values, shared_mem=self.shared)
            if noted.value is not None:
                noted.value(arguments)


class Struct(ctypes.Structure):
    """Parameters of a kernel that travel together, by value: the Python side of a C struct.

    A subclass has the name of the C struct and, in `_fields_`, its members in the same order. A
    `ctypes.c_void_p` is a pointer, and takes an array. A kernel compiles only if the sizes agree; a test
    compares the members.

    >>> class Pair(Struct):
    ...     _fields_ = [("x", ctypes.c_void_p), ("count", ctypes.c_int)]
    >>> print(Pair.check().strip())
    static_assert(sizeof(Pair) == 16, "Pair");
    """

    _names: ClassVar[frozenset[str]]
    _pointers: ClassVar[frozenset[str]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._names = frozenset(name for name, *_ in cls._fields_)
        cls._pointers = frozenset(name for name, kind, *_ in cls._fields_ if kind is ctypes.c_void_p)

    def __init__(self, **values: Any) -> None:
        if values.keys() != self._names:
            raise TypeError(f"{type(self).__name__} takes {', '.join(n for n, *_ in self._fields_)}")
        self.arrays = {}
        for name in self._pointers:
            if (x := values[name]) is not None and not isinstance(x, int):
                self.arrays[name], values[name] = x, x.data.ptr
        super().__init__(**values)

    def with_arrays(self, **arrays: Array | None) -> Self:
        """Return a copy with these arrays, or null pointers, for its pointers of those names."""
        copy = type(self).from_buffer_copy(self)
        copy.arrays = {name: x for name, x in arrays.items() if x is not None}
        for name, x in copy.arrays.items():
            setattr(copy, name, x.data.ptr)
        return copy

    @property
    def value(self) -> np.ndarray:
        """The bytes as CuPy passes them by value: an array of one element."""
        return np.frombuffer(memoryview(self).cast("B"), f"V{ctypes.sizeof(self)}")

    @property
    def pointers(self) -> list[tuple[int, int]]:
        """(byte offset, address) of every array."""
        kind = type(self)
        return [(getattr(kind, name).offset, x.data.ptr) for name, x in self.arrays.items()]

    @classmethod
    def check(cls) -> str:
        """CUDA source that compiles only if the C struct has this size."""
        name = cls.__name__
        return f'\nstatic_assert(sizeof({name}) == {ctypes.sizeof(cls)}, "{name}");\n'


def pointers(*arrays: Array | np.uint64 | None) -> list[Any]:
    """Return what a kernel takes for pointers: arrays, or their addresses, and null for None.

    >>> pointers(None)
    [np.uint64(0)]
    """
    return [np.uint64(0) if x is None else x for x in arrays]


def members(kind: Any, *names: str) -> tuple[tuple[str, Any], ...]:
    """Return the members of a struct that share a type, as C declares them.

    >>> members(ctypes.c_int, "rows", "columns") == (("rows", ctypes.c_int), ("columns", ctypes.c_int))
    True
    """
    return tuple((name, kind) for name in names)


noted: Scoped[Callable[[tuple[Any, ...]], None] | None] = Scoped(None)
"""What is called with the arguments after each launch of a thread."""


@cache
def expanded(file: Path) -> str:
    """Return a source file with its headers in place, each once, and lines that errors can be found by.

    They are expanded here because what is compiled is found again by its text.
    """
    return "\n".join(_lines(file, set())) + "\n"


def _lines(file: Path, seen: set[Path]) -> Iterator[str]:
    seen.add(file)
    name = file.relative_to(_ROOT).as_posix() if file.is_relative_to(_ROOT) else file.name
    yield f'#line 1 "{name}"'
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if not (include := _INCLUDE.match(line)):
            yield line
        elif (header := _ROOT / include[1]) not in seen:
            yield from _lines(header, seen)
            yield f'#line {number + 1} "{name}"'


@cache
def _compile(name: str, constants: Constants, device: int) -> Any:
    """Return a function of that device, whose blocks may have all the shared memory that there is."""
    text = KERNELS[name].for_target(constants, target(device))
    if not text.kept:
        compile_ahead(_companions((name, constants), target(device)))
    function = text.function(name)
    function.max_dynamic_shared_size_bytes = block_memory(device) - function.shared_size_bytes
    return function


def _companions(instance: Named, target: str) -> Iterator[Text]:
    """Yield what is likely to be asked for after an instance, of kernels that are for the device, too."""
    for name, constants in companions(instance):
        kernel = KERNELS.get(name)  # modules are imported when they are needed
        if kernel is not None and kernel.architecture in (None, f"{target}a"):
            yield kernel.for_target(constants, target)


@cache
def block_memory(device: int) -> int:
    """Return the bytes of shared memory that a block may have."""
    return int(import_cupy().cuda.Device(device).attributes["MaxSharedMemoryPerBlockOptin"])


def from_text(source: str, name: str, device: int) -> Any:
    """Return the function of a text that was printed, on a device."""
    return Text(source, f"{name}.cu", target(device)).function(name)


def literal(x: float) -> str:
    """Return a float64 number in CUDA, to the bit.

    >>> literal(0.1), literal(float("inf"))
    ('0x1.999999999999ap-4', '__longlong_as_double(9218868437227405312LL)')
    """
    return x.hex() if isfinite(x) else f"__longlong_as_double({int(np.float64(x).view(np.int64))}LL)"
