"""Machine code of CUDA texts: compiled by NVRTC once, and kept in CuPy's folder of compiled kernels.

What a file holds is told by its name, a digest of the text, the options and the compiler's version. Files are
moved to their places when they are complete, so that processes may share a folder, and one that cannot be
written to costs time only. A text is compiled in one thread, whoever else asks for it meanwhile.
"""

from __future__ import annotations

import atexit
import os
from _thread import allocate_lock
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

from multiword.runtime.arrays import import_cupy
from multiword.runtime.cached import cached_property
from multiword.runtime.forking import to_the_end
from multiword.runtime.parallel import thread_count
from multiword.runtime.tasks import Task, queue_for

OPTIONS = ("--std=c++17", "--fmad=false", "-ftz=true", "--device-as-default-execution-space")
"""No contraction: a product and a sum stay two roundings, as they are in NumPy. Subnormal float32 numbers may
be zeros, as in CuPy's own kernels: arithmetic that must keep them is written in PTX. Lambdas are for
the GPU."""

OLDEST = 80
"""The least compute capability, without its point, that has the instructions of the kernels: Ampere's."""

MOST_THREADS = 8
"""That compile ahead: what is left to the longest text is no shorter with more."""


def check_capability(capability: str) -> None:
    """RuntimeError for GPUs before Ampere, whose compiler's own message would name an instruction.

    >>> check_capability("75")
    Traceback (most recent call last):
    RuntimeError: GPUs of compute capability 8.0 (Ampere) or later are needed, and this one has 7.5
    """
    if int(capability) < OLDEST:
        raise RuntimeError(
            "GPUs of compute capability 8.0 (Ampere) or later are needed, "
            f"and this one has {capability[:-1]}.{capability[-1]}"
        )


@cache
def target(device: int) -> str:
    """Return what NVRTC compiles for on a device: its architecture, or one before it that NVRTC knows.

    Of that, "compute_120" say, it makes PTX, which the driver translates for a GPU newer than the compiler.
    """
    cupy = import_cupy()
    capability = cupy.cuda.Device(device).compute_capability
    check_capability(capability)
    newest = max(x for x in cupy.cuda.nvrtc.getSupportedArchs() if x <= int(capability))
    return f"sm_{newest}" if newest == int(capability) else f"compute_{newest}"


@dataclass(frozen=True)
class Text:
    """A CUDA source, what the compiler's messages call it, and its target: "sm_90", "compute_90" for PTX."""

    source: str
    file: str
    target: str

    @property
    def options(self) -> tuple[str, ...]:
        """The compiler's."""
        return (*OPTIONS, f"--gpu-architecture={self.target}")

    @cached_property
    def path(self) -> Path:
        """Where its code is kept."""
        identity = repr((self.source, self.options, import_cupy().cuda.nvrtc.getVersion()))
        return _folder() / f"{sha256(identity.encode()).hexdigest()}.cubin"

    @property
    def kept(self) -> bool:
        """Whether this or another process has compiled it, and it may be read."""
        return os.access(self.path, os.R_OK)

    def function(self, name: str) -> Any:
        """Return the CuPy function of this name, on the current device."""
        damaged = False
        if self.kept:
            try:
                return _loaded(self.path, name)
            except Exception:  # damaged, or gone by now; what else is wrong is so with new code, too
                damaged = True
                with suppress(OSError):
                    self.path.unlink()
        code = self.code()
        if self.kept and not damaged:  # CuPy would look for what it has read from a damaged one
            return _loaded(self.path, name)
        with TemporaryDirectory() as elsewhere:
            path = Path(elsewhere) / self.path.name
            path.write_bytes(code)
            return _loaded(path, name)

    def code(self) -> bytes:
        """Return the code, compiled here unless another thread has begun that; no signal disturbs it."""
        task = self.task()
        to_the_end(task.run)
        return self.compiled() if task.cancelled() else task.result()  # at the end of the process

    def task(self) -> Task[bytes]:
        """Return the one task that compiles the text."""
        return _tasks.setdefault(str(self.path), Task(partial(_made, self)))

    def compiled(self) -> bytes:
        """Compile; RuntimeError with the compiler's messages where that fails."""
        nvrtc = import_cupy().cuda.nvrtc
        program = nvrtc.createProgram(self.source, self.file, (), ())
        try:
            nvrtc.compileProgram(program, self.options)
            in_ptx = self.target.startswith("compute_")
            code: bytes = nvrtc.getPTX(program) if in_ptx else nvrtc.getCUBIN(program)
            return code
        except RuntimeError as error:
            raise RuntimeError(f"{self.file} for {self.target}: {nvrtc.getProgramLog(program)}") from error
        finally:
            nvrtc.destroyProgram(program)


_tasks: dict[str, Task[bytes]] = {}
"""By the file to be written: what is being compiled or is to be, and what could not be kept."""


def _made(text: Text) -> bytes:
    """Compile a text, unless that has been done meanwhile, and keep it.

    Its task is forgotten when the file is there, or when it has failed: the next to ask tries again.
    """
    kept = True
    try:
        if text.kept:
            return text.path.read_bytes()
        code = text.compiled()
        kept = _keep(code, text.path)
        return code
    finally:
        if kept:
            _tasks.pop(str(text.path), None)


def compile_ahead(texts: Iterable[Text]) -> None:
    """Compile texts in other threads, where there are cores for them; whoever asks for one meanwhile has it.

    What fails here is silent, and is raised where it is asked for. Nothing is waited for, not even a lock: a
    signal's handler may come in between, and ask for the same.
    """
    if _ended or thread_count() == 1 or not _start():
        return
    for text in texts:
        if not text.kept:
            _queues[-1].put(text.task())


_queues: list[SimpleQueue[Task[Any]]] = []
"""One, from which the threads take what is compiled ahead, once they run."""

_starting = allocate_lock()
"""Held while the threads are being started; nobody waits for it."""

_ended: list[bool] = []
"""Whether the process ends, and nothing is compiled ahead any more: then it has an element."""


def _start() -> bool:
    """Start the threads, unless they are there; return whether they are: not while another starts them."""
    if not _queues and _starting.acquire(blocking=False):
        try:
            _queues.append(queue_for(min(MOST_THREADS, thread_count() - 1)))
        except RuntimeError:  # no thread can be started
            pass
        finally:
            _starting.release()
    return bool(_queues)


def _forget() -> None:
    """A child process has the tables, and none of the threads."""
    _tasks.clear()
    _queues.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@atexit.register
def _end() -> None:
    """Leave nothing to be begun, and wait for what has begun: the compiler must not go while it runs.

    Nor where a signal's handler raises; handlers of the end that come later have nothing compiled ahead.
    """
    _ended.append(True)
    begun, interruption = [task for task in list(_tasks.values()) if not task.cancelled()], None
    _tasks.clear()
    while begun:
        try:
            begun[-1].wait()
            begun.pop()
        except BaseException as error:
            interruption = error
    if interruption is not None:
        raise interruption


def _loaded(path: Path, name: str) -> Any:
    function = import_cupy().RawModule(path=str(path)).get_function(name)
    function.compile()  # loads it
    return function


def _folder() -> Path:
    """Return the folder in which CuPy keeps what it has compiled."""
    folder = os.environ.get("CUPY_CACHE_DIR") or os.path.expanduser("~/.cupy/kernel_cache")
    return Path(os.path.abspath(folder))


def _keep(code: bytes, path: Path) -> bool:
    """Write a file whole, whatever other processes do and if power fails; return whether it is there.

    Not where CuPy is told to write none.
    """
    written = None
    if os.environ.get("CUPY_CACHE_IN_MEMORY", "0") not in ("", "0"):
        return False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, delete=False) as file:
            written = file.name
            file.write(code)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, path)
    except OSError:
        if written is not None:
            with suppress(OSError):
                os.unlink(written)
        return False
    return True
