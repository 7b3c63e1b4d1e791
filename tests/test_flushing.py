"""No kernel of the sums flushes float32's subnormals, though CuPy compiles with -ftz=true."""

import re
from ctypes import POINTER, byref, c_char_p, c_size_t, c_void_p, create_string_buffer

import pytest

from multiword.runtime.kernels import KERNELS, OPTIONS, definitions
from tests.test_kernels_compile import nvrtc


def ptx(source: str, options: tuple[str, ...]) -> str:
    library, program, size = nvrtc(), c_void_p(), c_size_t()
    library.nvrtcGetPTXSize.argtypes = [c_void_p, POINTER(c_size_t)]
    library.nvrtcGetPTX.argtypes = [c_void_p, c_char_p]
    assert library.nvrtcCreateProgram(byref(program), source.encode(), b"kernel.cu", 0, None, None) == 0
    assert (
        library.nvrtcCompileProgram(
            program, len(options), (c_char_p * len(options))(*(o.encode() for o in options))
        )
        == 0
    )
    library.nvrtcGetPTXSize(program, byref(size))
    text = create_string_buffer(size.value)
    library.nvrtcGetPTX(program, text)
    library.nvrtcDestroyProgram(byref(program))
    return text.value.decode()


@pytest.mark.parametrize("name", ["exact_sums", "exact_columns", "running_sums"])
def test_no_instruction_flushes_subnormals(name):
    for constants in KERNELS[name].instances:
        options = ("--gpu-architecture=sm_90", *OPTIONS, *definitions(constants), "-ftz=true")
        assert set(re.findall(r"[\w.]+\.ftz[\w.]*", ptx(KERNELS[name].source, options))) == set()
