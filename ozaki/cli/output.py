"""The file that `-o` names: checked before a product is computed, written when it is complete."""

from __future__ import annotations

import errno
import os
import stat
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import numpy as np


class OutputFile:
    """A file to write: a new one, an older one to replace, or what a link leads to.

    A name that ends in .csv means text with commas, any other a .npy file, "-" one to the standard output. An
    ordinary file is written beside its place and moved there when it is complete, so that an
    older one stays until then; a link stays a link, and its target is replaced. FIFOs and devices
    are written to directly.

    Parameters
    ----------
    path : name of the file, as given; no extension is added.
    inputs : files that it must not replace.

    Raises
    ------
    ValueError : a folder, one of the inputs, a file in a folder that does not exist, or of a format that is
        read only. OSError : the file or its folder cannot be written to.
    """

    def __init__(self, path: Path, inputs: Iterable[Path] = ()) -> None:
        self.path, self._to_stdout = path, str(path) == "-"
        self._mode: int | None = None  # of an older file
        if path.suffix.lower() in (".mtx", ".npz", ".txt", ".gz"):  # of other formats
            raise ValueError(f"cannot write {path}: results are .npy files, or .csv")
        if self._to_stdout:
            return
        with suppress(FileNotFoundError):
            self._mode = path.stat().st_mode
            self._check_existing(self._mode, inputs)
        self._ordinary = self._mode is None or stat.S_ISREG(self._mode)
        if self._ordinary:
            self._target = Path(os.path.realpath(path))
            _check_folder(self._target)

    def _check_existing(self, mode: int, inputs: Iterable[Path]) -> None:
        if stat.S_ISDIR(mode):
            raise ValueError(f"{self.path} is a folder; -o needs the name of a file")
        if stat.S_ISREG(mode) and any(x.exists() and x.samefile(self.path) for x in inputs):
            raise ValueError(f"{self.path} is one of the inputs; -o needs the name of another file")
        if not os.access(self.path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path))

    def write(self, x: np.ndarray) -> None:
        """Write the array; OSError, with the file's name, if that fails."""
        try:
            if self._to_stdout:
                self._save(sys.stdout.buffer, x)
            elif self._ordinary:
                self._replace(x)
            else:
                with self.path.open("wb") as stream:
                    self._save(stream, x)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def _save(self, stream: Any, x: np.ndarray) -> None:
        if self.path.suffix.lower() == ".csv":
            np.savetxt(stream, np.atleast_1d(x), fmt="%s", delimiter=",")
        else:  # NumPy asks a file for its position, which a FIFO does not have
            np.save(SimpleNamespace(write=stream.write), x)

    def _replace(self, x: np.ndarray) -> None:
        temporary = self._target.with_name(f".ozaki-{uuid4().hex}")
        try:
            with temporary.open("xb") as stream:
                self._save(stream, x)
            if self._mode is not None:
                os.chmod(temporary, stat.S_IMODE(self._mode))
            os.replace(temporary, self._target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _check_folder(target: Path) -> None:
    """Raise ValueError or OSError if no file can be made beside the target."""
    if not target.parent.is_dir():
        raise ValueError(f"cannot write {target}: there is no folder {target.parent}")
    try:
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target.parent)) from error
