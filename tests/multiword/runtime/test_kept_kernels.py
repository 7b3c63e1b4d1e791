"""Kernels for one architecture alone are compiled once, and kept for other processes."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from multiword.runtime import kernels
from multiword.runtime.kernels import KERNELS


class Nvrtc:
    """NVRTC's functions, whose programs are their own text: what is compiled is told apart by it."""

    def __init__(self):
        self.compiled, self.version = 0, (12, 9)

    def getVersion(self):
        return self.version

    def createProgram(self, source, name, headers, names):
        return [source]

    def compileProgram(self, program, options):
        self.compiled += 1
        program.append(repr(options))

    def getCUBIN(self, program):
        return "".join(program).encode()

    def destroyProgram(self, program):
        program.clear()


@pytest.fixture
def nvrtc(monkeypatch):
    made, loaded = Nvrtc(), []

    def module(path):
        loaded.append(Path(path).read_bytes())
        return SimpleNamespace(get_function=lambda name: SimpleNamespace(compile=lambda: None))

    cupy = SimpleNamespace(cuda=SimpleNamespace(nvrtc=made), RawModule=module)
    monkeypatch.setattr(kernels, "import_cupy", lambda: cupy)
    made.loaded = loaded
    return made


KERNEL = next(kernel for kernel in KERNELS.values() if kernel.architecture)


def compile_for(**constants):
    kernels._compile_for(KERNEL, KERNEL.architecture, tuple(constants.items()))


def test_what_another_process_has_compiled_is_loaded(nvrtc, monkeypatch, tmp_path):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "new"))
    for _ in range(2):
        compile_for(M=64)
    assert nvrtc.compiled == 1
    assert len({*nvrtc.loaded}) == 1
    assert [file.suffix for file in (tmp_path / "new").iterdir()] == [".cubin"]


def test_other_constants_and_another_compiler_compile_anew(nvrtc, monkeypatch, tmp_path):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path))
    compile_for(M=64)
    compile_for(M=128)
    nvrtc.version = (13, 0)
    compile_for(M=64)
    assert nvrtc.compiled == 3
    assert len({*nvrtc.loaded}) == 2


def test_a_folder_that_cannot_be_written_to_is_done_without(nvrtc, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "file"))
    compile_for(M=64)
    assert nvrtc.compiled == len(nvrtc.loaded) == 1
    assert b"#define M 64\n" + KERNEL.source.encode() in nvrtc.loaded[0]
