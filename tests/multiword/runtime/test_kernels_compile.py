"""Every CUDA kernel compiles, through NVRTC, without a GPU."""

import ctypes
import importlib
import pkgutil
import re
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from functools import cache
from glob import glob

import pytest

import multiword
import ozaki
from multiword.runtime.companions import lists
from multiword.runtime.kernels import KERNELS, expanded
from multiword.runtime.machine_code import OPTIONS
from tests.multiword.batched import cases as batched_cases

ARCHITECTURE, OTHERS = "sm_90", ("sm_80", "sm_120")


WITHOUT_KERNELS = ("__main__", "_numba", ".torch", ".jax", ".dask", "ozaki.cupy")
"""Modules of optional packages, and those that run when they are imported."""


def declare_all(package):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if not module.name.endswith(WITHOUT_KERNELS):
            found = importlib.import_module(module.name)
            if module.ispkg:
                declare_all(found)


declare_all(multiword)
declare_all(ozaki)


INSTANCES = {name: kernel.instances for name, kernel in KERNELS.items()} | batched_cases.INSTANCES
FILES = sorted({kernel.file for kernel in KERNELS.values()})
of_each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
"""Of each file, not of each kernel: those of a file are compiled together."""


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
    library.nvrtcGetPTXSize.argtypes = [c_void_p, POINTER(c_size_t)]
    library.nvrtcGetPTX.argtypes = [c_void_p, c_char_p]
    library.nvrtcDestroyProgram.argtypes = [POINTER(c_void_p)]
    return library


@cache
def compile_kernel(source: str, options: tuple[str, ...]) -> str:
    """Compile to machine code, and return the PTX that comes before it: once for all kernels of a file."""
    library, program, size = nvrtc(), c_void_p(), c_size_t()
    assert library.nvrtcCreateProgram(byref(program), source.encode(), b"kernel.cu", 0, None, None) == 0
    array = (c_char_p * len(options))(*(option.encode() for option in options))
    status = library.nvrtcCompileProgram(program, len(options), array)
    library.nvrtcGetProgramLogSize(program, byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    assert status == 0, log.value.decode()
    assert b"serialized" not in log.value, log.value.decode()  # wgmma, each waiting for the one before
    assert library.nvrtcGetCUBINSize(program, byref(size)) == 0
    assert size.value > 0
    library.nvrtcGetPTXSize(program, byref(size))
    text = ctypes.create_string_buffer(size.value)
    library.nvrtcGetPTX(program, text)
    library.nvrtcDestroyProgram(byref(program))
    return text.value.decode()


def compile_instance(name: str, architecture: str, constants: dict[str, int | str]) -> str:
    """Compile as for a device."""
    options = (f"--gpu-architecture={architecture}", *OPTIONS)
    return compile_kernel(KERNELS[name].text(tuple(constants.items())), options)


FLUSHING = re.compile(r"[\w.]+\.ftz[\w.]*")
KEEPING = {"exact_sums", "exact_columns", "running_sums"}
"""The kernels in which no instruction may flush float32's subnormals, though that is allowed."""


def compile_all(file, chosen, architecture=None):
    """Compile the chosen ones of the instances of each kernel of a file, or of those for any architecture."""
    of_file = {name: kernel for name, kernel in KERNELS.items() if kernel.file == file}
    for name, kernel in of_file.items():
        if architecture and kernel.architecture:
            continue
        target = architecture or kernel.architecture or ARCHITECTURE
        for constants in INSTANCES[name][chosen]:
            ptx = compile_instance(name, target, constants)
            assert f".entry {name}(" in ptx
            assert name not in KEEPING or set(FLUSHING.findall(ptx)) == set()


@pytest.mark.whole
@of_each_file
def test_the_first_instance_compiles(file):
    compile_all(file, slice(1))


@pytest.mark.slow
@of_each_file
def test_all_other_instances_compile(file):
    compile_all(file, slice(1, None))


def test_a_kernel_that_flushes_is_noticed():
    source = "__global__ void half(float *x) { *x *= 0.5f; }"
    assert FLUSHING.findall(compile_kernel(source, (f"--gpu-architecture={ARCHITECTURE}", "-ftz=true")))


@pytest.mark.whole
@pytest.mark.parametrize("architecture", OTHERS)
@of_each_file
def test_the_last_instance_compiles_for_other_architectures(file, architecture):
    """The last one alone: the source has no branches that depend on the architecture."""
    assert "__CUDA_ARCH__" not in expanded(file)
    compile_all(file, slice(-1, None), architecture)


WAITING = re.compile(r"while \([^;]*\(volatile|nanosleep|while \([^;]*atomic")
"""What waits for memory that another block writes."""


def test_only_blocks_that_all_run_at_once_wait_for_each_other():
    """Others might wait for blocks that cannot begin before they have ended."""
    waiting = {kernel.file.name for kernel in KERNELS.values() if WAITING.search(kernel.source)}
    cooperative = {kernel.file.name for kernel in KERNELS.values() if kernel.cooperative}
    assert waiting == cooperative == {"panels.cu", "two_sided.cu"}


def test_a_broken_kernel_is_noticed():
    with pytest.raises(AssertionError, match="error"):
        compile_kernel("__global__ void broken() { undeclared(); }", ("--gpu-architecture=sm_90",))


SIZES = {"int": 4, "unsigned": 4, "unsigned int": 4, "float": 4, "long long": 8, "double": 8}
SIZES |= {"i64": 8, "u64": 8}
STRUCTS = sorted({(kernel.file, struct) for kernel in KERNELS.values() for struct in kernel.structs}, key=str)

MEMBER = r"\*?\w+(?:\[\d+\])?"


def members(source: str, name: str) -> list[tuple[str, int]]:
    """Name and size of every member of a C struct, methods left out; structs in it have no padding."""
    body = re.search(rf"struct {name} \{{(.*?)\n?\}};", source, re.S)[1]
    body = re.sub(r"/\*.*?\*/|//[^\n]*|[^;{}]*\)[^;{}]*\{[^}]*\}", "", body, flags=re.S)
    found = []
    for declaration in filter(None, map(str.strip, body.split(";"))):
        kind, declared = re.fullmatch(
            rf"(?:const )?([\w ]+?) ({MEMBER}(?:, ?{MEMBER})*)", re.sub(r"\s*\*\s*", " *", declaration)
        ).groups()
        for member, count in re.findall(r"(\*?\w+)(?:\[(\d+)\])?", declared):
            one = 8 if member.startswith("*") else SIZES.get(kind)
            size = one or sum(size for _, size in members(source, kind))
            found.append((member.lstrip("*"), size * int(count or 1)))
    return found


@pytest.mark.parametrize(
    ("file", "struct"), STRUCTS, ids=lambda x: getattr(x, "__name__", getattr(x, "stem", ""))
)
def test_structs_are_those_of_the_source(file, struct):
    expected = [(name, ctypes.sizeof(kind)) for name, kind in struct._fields_]
    assert members(expanded(file), struct.__name__) == expected


def test_a_struct_that_differs_is_noticed():
    source = """struct Pair {
    const int *x, *y; /* two */
    int count;
    int f() const { return 1; }
};
struct Two { unsigned int* z; Pair pairs[2]; long long w; };"""
    assert members(source, "Pair") == [("x", 8), ("y", 8), ("count", 4)]
    assert members(source, "Two") == [("z", 8), ("pairs", 40), ("w", 8)]


LISTED = sorted({instance for listed in lists().values() for instance in listed})
"""What usual calls compile, each once."""


def test_what_is_compiled_ahead_is_declared():
    """Kernels with constants of their names; another call of that kind would find them in vain."""
    assert len(lists()) > 5
    for name, constants in LISTED:
        keys = {key for key, _ in constants}
        assert keys in [set(declared) for declared in INSTANCES[name]], name


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({name for name, _ in LISTED}))
def test_what_is_compiled_ahead_compiles(name):
    for constants in (constants for listed, constants in LISTED if listed == name):
        architecture = KERNELS[name].architecture or ARCHITECTURE
        assert f".entry {name}(" in compile_instance(name, architecture, dict(constants))
