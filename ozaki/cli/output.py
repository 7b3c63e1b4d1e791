"""The file that `-o` names: checked before a product is computed, written when it is complete."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np


class OutputFile:
    """A .npy file to write: a new one, an older one to replace, or what a link leads to.

    An ordinary file is written beside its place and moved there when it is complete, so that an
    older one stays until then; a link stays a link, and its target is replaced. FIFOs and devices
    are written to directly.

    Parameters
    ----------
    path : name of the file, as given; no extension is added.

    Raises
    ------
    ValueError : a folder, or a file in a folder that does not exist.
    OSError : the file or its folder cannot be written to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:  # a new file, or what a link is to lead to
            mode = stat.S_IFREG | 0o666 & ~_umask()
            existing = False
        else:
            existing = True
        if stat.S_ISDIR(mode):
            raise ValueError(f"{path} is a folder; -o needs the name of a file")
        if existing and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        self._permissions = stat.S_IMODE(mode)
        self._ordinary = stat.S_ISREG(mode)
        if self._ordinary:
            self._target = Path(os.path.realpath(path))
            _check_folder(self._target)

    def write(self, x: np.ndarray) -> None:
        """Write the array; OSError, with the file's name, if that fails."""
        try:
            if self._ordinary:
                self._replace(x)
            else:
                with self.path.open("wb") as stream:
                    # NumPy asks a file for its position, which a FIFO does not have.
                    np.save(_only_write(stream), x)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def _replace(self, x: np.ndarray) -> None:
        descriptor, temporary = tempfile.mkstemp(dir=self._target.parent, prefix=".ozaki-")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                np.save(stream, x)
            os.chmod(temporary, self._permissions)  # mkstemp's are private
            os.replace(temporary, self._target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _check_folder(target: Path) -> None:
    """Raise ValueError or OSError if no file can be made beside the target."""
    if not target.parent.is_dir():
        raise ValueError(f"cannot write {target}: there is no folder {target.parent}")
    try:
        tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target.parent)) from error


def _only_write(stream: Any) -> Any:
    return SimpleNamespace(write=stream.write)


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
