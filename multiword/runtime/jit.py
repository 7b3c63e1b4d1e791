"""Functions that numba compiles for one signature, whose machine code is kept on disk between processes.

A file holds a function: a stamp of everything that it may be made of (its module's source and those that this
imports, and what compiles it), a digest of the rest, and what numba calls a compile result. One with another
stamp or digest is as good as none. Files are replaced, never written in place, so that processes may share a
folder, and a full or read-only one costs time only.
"""

from __future__ import annotations

import gc
import os
import pickle
import platform
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import llvmlite
import numba
import numpy as np
from llvmlite.binding import parse_assembly
from numba.core import config
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps
from numba.core.typed_passes import InlineOverloads, IRLegalization, NopythonRewrites
from numba.core.typeinfer import register_dispatcher
from numba.core.untyped_passes import InlineClosureLikes
from numba.misc.appdirs import AppDirs

from multiword.runtime.compiled import CALLED, INNER
from multiword.runtime.forking import loading, to_the_end
from multiword.runtime.sources import PACKAGES, digest_of


class _Part(JITCodeLibrary):
    """Code that compiled functions link in, which LLVM optimizes and translates as a part of these only."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        """Hand over what callers refer to, the address of an environment, and nothing to be compiled."""
        self._finalize_dynamic_globals()
        whole = self._final_module
        shared = (str(x) for x in whole.global_variables if x.name.startswith("_ZN08NumbaEnv"))
        self._final_module = parse_assembly("\n".join(shared))
        super()._finalize_final_module()
        self._final_module = whole


_OF_NO_USE = {InlineClosureLikes, InlineOverloads, IRLegalization, NopythonRewrites}
"""Passes for closures, for what numba copies of its own functions, for the ends of references, which nothing
counts here, and for expressions of whole arrays."""


class _Compiler(Compiler):
    """What compiles functions that Python calls."""

    def define_pipelines(self) -> list[Any]:
        """Leave out passes that find nothing here, and take a sixth of the time."""
        pipelines: list[Any] = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [x for x in pipeline.passes if x[0] not in _OF_NO_USE]
            pipeline.finalize()
        return pipelines


class _Parts(_Compiler):
    """What compiles functions for compiled ones."""

    def compile_extra(self, function: Callable) -> CompileResult:
        self.state.library = _Part(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(function)


PARTS: Any = {**INNER, "pipeline_class": _Parts}
"""How such functions are compiled."""

inlined = numba.njit(**PARTS)
"""A decorator of functions that compiled ones call: compiled with these, for the types of the call."""

pasted = numba.njit(inline="always", **PARTS)
"""As `inlined`, where the loop around a call is to be vectorized: numba copies the function's text there."""


def jit(signature: Any, *, inner: bool = False, fastmath: Iterable[str] = ()) -> Callable[[Callable], Any]:
    """Return a decorator of a function that its first call compiles for a signature, or loads from disk.

    An `inner` function can be called by compiled ones only, and is compiled with the first of these. It has
    no flags of `fastmath` but its own; one that is `inlined` has those of a function that calls it.
    """
    flags = tuple(sorted(fastmath))
    options = {"nopython": True, **(INNER if inner else CALLED), "fastmath": set(flags)}

    def declare(function: Callable) -> Any:
        if inner:
            return _Function(function, signature, options, _Parts)
        declared = _Function(function, signature, options, _Compiler)
        declared._cache = _Files(function, f"{signature}{flags}")  # type: ignore[attr-defined]
        DECLARED.append(declared)
        return declared

    return declare


DECLARED: list[Any] = []
"""The functions that Python calls, whether they are compiled yet or not."""


def allow(function: Any, codegen: Any, *features: str) -> None:
    """Have LLVM use these features in a function, even where numba compiles all else for an older processor.

    It does where NUMBA_CPU_NAME says so, and on processors of Arm's that LLVM cannot name. llvmlite does not
    know the attribute, and would refuse it.
    """
    allowed = ",".join(filter(None, (codegen._tm_features, *(f"+{name}" for name in features))))
    set.add(function.attributes, f'"target-features"="{allowed}"')


@cache
def gathers_are_quick() -> bool:
    """Return whether an instruction that gathers numbers takes less time than loads, one by one.

    It saves a third of a function's time that looks up tables, but takes twice as long on AMD's processors,
    and on those of Intel's whose microcode of 2023 mends them (Downfall). Linux tells of both; elsewhere
    nothing is known.
    """
    with suppress(OSError):
        return "GenuineIntel" in _PROCESSOR.read_text() and _DOWNFALL.read_text().strip() == "Not affected"
    return False


_PROCESSOR = Path("/proc/cpuinfo")
_DOWNFALL = Path("/sys/devices/system/cpu/vulnerabilities/gather_data_sampling")


class _Function(CPUDispatcher):
    """A function of one signature, compiled when it is first called, or with what calls it."""

    def __init__(self, function: Callable, signature: Any, options: Any, compiler: type[_Compiler]) -> None:
        super().__init__(function, targetoptions=options, pipeline_class=compiler)
        self._signature = signature

    def ready(self) -> None:
        """Compile the function, or load its code, if that is not done: no fork or signal disturbs it."""
        to_the_end(self._compile_once)

    def unchecked(self) -> Callable[..., Any]:
        """Return the code itself, which Python calls in half the time.

        It takes arguments for what the signature says of them: others crash the process.
        """
        self.ready()
        (result,) = self.overloads.values()
        code: Callable[..., Any] = result.entry_point  # type: ignore[attr-defined]
        return code

    def _compile_once(self) -> None:
        with loading:  # what two threads call at once is compiled by one
            if not self.overloads:
                with register_dispatcher(self), _no_collection():
                    self.compile(self._signature)
                self.disable_compile()

    def _compile_for_args(self, *args: Any, **kwargs: Any) -> Any:
        """Compile for the declared signature: numba asks for what to call where there is no code."""
        self.ready()
        return self

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile for the declared signature, not for the types of the call; this thread has numba's lock."""
        self._compile_once()
        return super().get_call_template(args, kws)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Within the context Python looks for no garbage, which takes a tenth of the time of a compilation.

    Nor at its end: what there is of it, the caller's too, counts as old, and is found when Python looks
    through all objects.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():  # else the process has frozen objects itself, and they stay so
                gc.freeze()
                gc.unfreeze()
            gc.enable()


class _Files:
    """The files of one function, as numba's dispatchers ask for a cache."""

    cache_path = None

    def __init__(self, function: Callable, variant: str) -> None:
        self._function, self._variant = function, variant
        self._stamp = _stamp(frozenset(_modules(function)))

    def load_overload(self, signature: Any, context: Any) -> CompileResult | None:
        """Return the function's code, or None where no file holds it. numba's registries are not needed."""
        for path in self._paths(context.codegen()):
            data = _read(path, self._stamp)
            if data is not None:
                return CompileResult._rebuild(context, *pickle.loads(data))
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Write the function's code to the first folder that takes it, if one does."""
        if not result.library.has_dynamic_globals:
            data = dumps(result._reduce())
            any(_write(path, self._stamp, data) for path in self._paths(result.codegen))

    def flush(self) -> None:
        """Do nothing: numba calls this when it compiles anew, and files are replaced."""

    def _paths(self, codegen: Any) -> list[Path]:
        """Return the files, for this processor and these settings: jobs on a cluster may share a folder."""
        name = f"{self._function.__module__}.{self._function.__qualname__}"
        of = f"{name}{self._variant}{codegen.magic_tuple()}{gathers_are_quick()}{_settings()}"
        variant = sha256(of.encode()).hexdigest()[:16]
        portable = re.sub(r"[^\w.]", "", name)  # Windows has no files called <locals>
        return [folder / f"{portable}-{variant}.ozaki" for folder in folders()]


@cache
def folders() -> tuple[Path, ...]:
    """Return the folders for files, numba's: NUMBA_CACHE_DIR if set, or the package's, then the user's."""
    name = f"ozaki-{sha256(str(PACKAGES[0]).encode()).hexdigest()[:16]}"
    if chosen := getattr(config, "CACHE_DIR", ""):
        return (Path(chosen) / name,)
    return PACKAGES[0] / "__pycache__", Path(AppDirs("numba", False).user_cache_dir) / name


def _modules(function: Any) -> Iterator[str]:
    """Yield the module of a function, and those of the compiled functions in its closure."""
    function = getattr(function, "py_func", function)
    yield function.__module__
    for cell in function.__closure__ or ():
        if hasattr(cell.cell_contents, "py_func"):
            yield from _modules(cell.cell_contents)


@cache
def _stamp(modules: frozenset[str]) -> bytes:
    """Return a hash of all that functions of these modules may be made of, and of what compiles them."""
    versions = platform.python_version(), np.__version__, numba.__version__, llvmlite.__version__
    return sha256(repr((versions, digest_of(modules | {__name__}))).encode()).digest()


_OF_NO_CODE = frozenset(
    f"NUMBA_{name}"
    for name in (
        *("CACHE_DIR", "NUM_THREADS", "THREADING_LAYER", "THREADING_LAYER_PRIORITY", "WARNINGS"),
        *("DISABLE_PERFORMANCE_WARNINGS", "DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "COLOR_SCHEME"),
        *("FULL_TRACEBACKS", "DEVELOPER_MODE", "SHOW_HELP"),
    )
)
"""Settings of numba's that do not change what it compiles."""


@cache
def _settings() -> list[tuple[str, str]]:
    """Return the other settings of numba's, as they were when the first function was asked for."""
    return sorted(x for x in os.environ.items() if x[0].startswith("NUMBA_") and x[0] not in _OF_NO_CODE)


def _read(path: Path, expected: bytes) -> bytes | None:
    """Return the contents of a file, if it is there, with the stamp expected, and undamaged."""
    try:
        data = path.read_bytes()
    except OSError as error:
        _raise_foreign(error)
        return None
    stamp, digest, content = data[:32], data[32:64], data[64:]
    return content if stamp == expected and digest == sha256(content).digest() else None


def _write(path: Path, stamp: bytes, content: bytes) -> bool:
    """Replace a file, and return whether that was possible."""
    temporary = path.with_suffix(f".{uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(stamp + sha256(content).digest() + content)
        temporary.replace(path)
        return True
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        _raise_foreign(error)
        return False


def _raise_foreign(error: OSError) -> None:
    """Raise what comes from a signal's handler, a TimeoutError say; files' errors have a number."""
    if error.errno is None:
        raise error
