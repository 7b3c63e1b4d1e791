"""Every CUDA kernel compiles for every architecture, through NVRTC, without a GPU."""

import ctypes
import importlib
import pkgutil
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from functools import cache
from glob import glob

import pytest

import multiword
import ozaki
from multiword.runtime.kernels import KERNELS, OPTIONS, definitions

ARCHITECTURES = ("sm_80", "sm_90", "sm_120")


def declare_all():
    for package in (multiword, ozaki):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


declare_all()


@cache
def nvrtc():
    nvidia = pytest.importorskip("nvidia", reason="NVRTC comes with the extra 'test'")
    paths = [p for root in nvidia.__path__ for p in sorted(glob(f"{root}/**/libnvrtc.so*", recursive=True))]
    if not paths:
        pytest.skip("NVRTC comes with the extra 'test'")
    library = ctypes.CDLL(paths[-1])
    library.nvrtcCreateProgram.argtypes = [POINTER(c_void_p), c_char_p, c_char_p, c_int, c_void_p, c_void_p]
    library.nvrtcCompileProgram.argtypes = [c_void_p, c_int, POINTER(c_char_p)]
    library.nvrtcGetProgramLogSize.argtypes = [c_void_p, POINTER(c_size_t)]
    library.nvrtcGetProgramLog.argtypes = [c_void_p, c_char_p]
    library.nvrtcGetCUBINSize.argtypes = [c_void_p, POINTER(c_size_t)]
    library.nvrtcDestroyProgram.argtypes = [POINTER(c_void_p)]
    return library


def compile_kernel(source: str, options: tuple[str, ...]) -> int:
    """Compile to machine code and return its size in bytes."""
    library, program, size = nvrtc(), c_void_p(), c_size_t()
    assert library.nvrtcCreateProgram(byref(program), source.encode(), b"kernel.cu", 0, None, None) == 0
    array = (c_char_p * len(options))(*(option.encode() for option in options))
    status = library.nvrtcCompileProgram(program, len(options), array)
    library.nvrtcGetProgramLogSize(program, byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    assert status == 0, log.value.decode()
    assert library.nvrtcGetCUBINSize(program, byref(size)) == 0
    library.nvrtcDestroyProgram(byref(program))
    return size.value


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_compiles(name, architecture):
    kernel = KERNELS[name]
    for constants in kernel.instances:
        options = (f"--gpu-architecture={architecture}", *OPTIONS, *definitions(constants))
        assert compile_kernel(kernel.source, options) > 0


def test_a_broken_kernel_is_noticed():
    with pytest.raises(AssertionError, match="error"):
        compile_kernel("__global__ void broken() { undeclared(); }", ("--gpu-architecture=sm_90",))
