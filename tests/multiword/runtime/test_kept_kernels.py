"""Texts are compiled once, whoever asks for them, and kept for other processes; companions beside them."""

import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from multiword.runtime import companions, kernels, machine_code
from multiword.runtime.kernels import KERNELS
from multiword.runtime.machine_code import Text


class NvrtcError(RuntimeError):
    pass


class Nvrtc:
    """NVRTC's functions, whose programs are their own text: what is compiled is told apart by it.

    A text with "#error" does not compile; each that has "#wait" is compiled when `free` is set.
    """

    def __init__(self):
        self.compiled, self.threads, self.version = [], set(), (12, 9)
        self.free = threading.Event()

    def getVersion(self):
        return self.version

    def getSupportedArchs(self):
        return 75, 80, 90, 100, 120

    def createProgram(self, source, name, headers, names):
        return [source]

    def compileProgram(self, program, options):
        self.compiled.append(program[0])
        self.threads.add(threading.get_ident())
        assert "#wait" not in program[0] or self.free.wait(10)
        if "#error" in program[0]:
            raise NvrtcError("NVRTC_ERROR_COMPILATION")
        program.append(repr(options))

    def getCUBIN(self, program):
        return "".join(program).encode()

    def getPTX(self, program):
        return b"PTX" + self.getCUBIN(program)

    def getProgramLog(self, program):
        return "the compiler's messages"

    def destroyProgram(self, program):
        program.clear()


@pytest.fixture
def nvrtc(monkeypatch, tmp_path):
    made, loaded = Nvrtc(), []

    def module(path):
        loaded.append(Path(path).read_bytes())
        function = SimpleNamespace(compile=lambda: None, shared_size_bytes=0)
        return SimpleNamespace(get_function=lambda name: function)

    def device(number):
        return SimpleNamespace(
            compute_capability=str(number), attributes={"MaxSharedMemoryPerBlockOptin": 1 << 16}
        )

    cupy = SimpleNamespace(cuda=SimpleNamespace(nvrtc=made, Device=device), RawModule=module)
    for x in (kernels, machine_code):
        monkeypatch.setattr(x, "import_cupy", lambda: cupy)
    monkeypatch.setattr(machine_code, "thread_count", lambda: 1)
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setattr(machine_code, "_queues", [])
    monkeypatch.setattr(machine_code, "_ended", [])
    for cached in (kernels._compile, kernels.block_memory, machine_code.target):
        cached.cache_clear()
    made.loaded = loaded
    yield made
    made.free.set()
    machine_code._end()
    for cached in (kernels._compile, kernels.block_memory, machine_code.target):
        cached.cache_clear()


def load(source, target="sm_90"):
    return Text(source, "text.cu", target).function("name")


def unwritable(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "file"))


def test_what_another_process_has_compiled_is_loaded(nvrtc, tmp_path):
    for _ in range(2):
        load("text")
    assert nvrtc.compiled == ["text"]
    assert len({*nvrtc.loaded}) == 1
    assert [file.suffix for file in (tmp_path / "kept").iterdir()] == [".cubin"]
    assert not machine_code._tasks


def test_damaged_code_is_compiled_anew(nvrtc, tmp_path, monkeypatch):
    load("text")
    (file,) = (tmp_path / "kept").iterdir()
    whole, module = file.read_bytes(), machine_code.import_cupy().RawModule

    def checked(path):
        if Path(path).read_bytes() != whole:
            raise RuntimeError("CUDA_ERROR_INVALID_IMAGE")
        return module(path)

    monkeypatch.setattr(machine_code.import_cupy(), "RawModule", checked)
    file.write_bytes(whole[:5])
    for _ in range(2):
        load("text")
    assert nvrtc.compiled == ["text", "text"]
    assert file.read_bytes() == whole


def test_nothing_is_written_where_cupy_is_told_so(nvrtc, tmp_path, monkeypatch):
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "1")
    for _ in range(2):
        load("text")
    assert nvrtc.compiled == ["text"]
    assert not (tmp_path / "kept").exists()


def test_a_full_disk_keeps_nothing(nvrtc, tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(machine_code.os, "replace", full)
    load("text")
    assert not [*(tmp_path / "kept").iterdir()]


def test_other_texts_another_compiler_and_another_architecture_compile_anew(nvrtc):
    for source, target, version in (
        ("one", "sm_90", (12, 9)),
        ("two", "sm_90", (12, 9)),
        ("one", "sm_90", (13, 0)),
        ("one", "sm_80", (13, 0)),
    ):
        nvrtc.version = version
        load(source, target)
    assert nvrtc.compiled == ["one", "two", "one", "one"]
    assert len({*nvrtc.loaded}) == 3


def test_a_folder_that_cannot_be_written_to_is_done_without(nvrtc, monkeypatch, tmp_path):
    unwritable(monkeypatch, tmp_path)
    for _ in range(2):
        load("text")
    assert nvrtc.compiled == ["text"]
    assert [code[:4] for code in nvrtc.loaded] == [b"text"] * 2


def test_kernels_are_compiled_for_the_device_or_for_their_own_architecture(nvrtc):
    own = next(kernel for kernel in KERNELS.values() if kernel.architecture)
    other = next(kernel for kernel in KERNELS.values() if not kernel.architecture)
    for kernel in (own, other):
        function = kernels._compile(kernel.name, (("M", 64),), 90)
        assert function.max_dynamic_shared_size_bytes == 1 << 16
        assert b"#define M 64\n" + kernel.source.encode() in nvrtc.loaded[-1]
    kernels.from_text("printed", "printed", 80)
    targets = [code.rpartition(b"=")[2].rstrip(b"',)") for code in nvrtc.loaded]
    assert targets == [b"sm_90a", b"sm_90", b"sm_80"]
    with pytest.raises(RuntimeError, match=r"8\.0 \(Ampere\) or later"):
        kernels.from_text("printed", "printed", 75)


def test_a_gpu_newer_than_the_compiler_has_ptx(nvrtc):
    """Of the newest architecture that the compiler knows and the GPU is not older than."""
    assert [machine_code.target(x) for x in (103, 120, 121, 130)] == [
        "compute_100",
        "sm_120",
        "compute_120",
        "compute_120",
    ]
    load("text", "compute_120")
    assert nvrtc.loaded[0].startswith(b"PTXtext")


def test_what_does_not_compile_says_why_each_time(nvrtc):
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"text\.cu for sm_90: the compiler's messages"):
            load("#error")
    assert len(nvrtc.compiled) == 2
    assert not machine_code._tasks


def in_threads(work, count=4):
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def until(true):
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.parametrize("writable", [True, False])
def test_threads_that_ask_at_once_wait_for_one(nvrtc, monkeypatch, tmp_path, writable):
    if not writable:
        unwritable(monkeypatch, tmp_path)
    threads = in_threads(lambda: load("#wait"))
    until(lambda: nvrtc.compiled)
    time.sleep(0.05)
    nvrtc.free.set()
    for thread in threads:
        thread.join()
    assert len(nvrtc.compiled) == 1
    assert len(nvrtc.loaded) == 4


def texts(*sources):
    return [Text(source, "text.cu", "sm_90") for source in sources]


def test_texts_are_compiled_ahead_in_threads_unless_there_is_one_core(nvrtc, monkeypatch):
    machine_code.compile_ahead(texts("one"))
    assert not nvrtc.compiled
    monkeypatch.setattr(machine_code, "thread_count", lambda: 3)
    load("one")
    ahead = texts("one", "two", "three", "#error", "four", "five")
    machine_code.compile_ahead(ahead)
    until(lambda: not machine_code._tasks)
    assert sorted(nvrtc.compiled) == ["#error", "five", "four", "one", "three", "two"]
    assert len(nvrtc.threads - {threading.get_ident()}) <= 3  # that of the first one, and two
    assert [text.kept for text in ahead] == [True, True, True, False, True, True]
    with pytest.raises(RuntimeError, match="messages"):
        load("#error")


def test_what_waits_for_a_thread_is_compiled_by_whoever_asks(nvrtc, monkeypatch):
    monkeypatch.setattr(machine_code, "thread_count", lambda: 2)
    machine_code.compile_ahead(texts("#wait", "two"))
    until(lambda: nvrtc.compiled)
    load("two")
    assert nvrtc.compiled == ["#wait", "two"]
    nvrtc.free.set()
    load("#wait")
    assert nvrtc.compiled == ["#wait", "two"]


def test_at_the_end_nothing_more_is_begun_and_what_has_begun_is_waited_for(nvrtc, monkeypatch):
    monkeypatch.setattr(machine_code, "thread_count", lambda: 2)
    machine_code.compile_ahead(texts("#wait", "two", "three"))
    until(lambda: nvrtc.compiled)
    threading.Timer(0.05, nvrtc.free.set).start()
    machine_code._end()
    assert nvrtc.free.is_set()
    assert nvrtc.compiled == ["#wait"]
    load("two")  # as a handler that comes later may
    machine_code.compile_ahead(texts("four"))
    assert nvrtc.compiled == ["#wait", "two"]
    assert not machine_code._tasks


def test_the_end_waits_though_it_is_interrupted(nvrtc, monkeypatch):
    """Else the compiler would go while it runs, and the process crash."""

    def interrupt(number, frame):
        threading.Timer(0.1, nvrtc.free.set).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(machine_code, "thread_count", lambda: 2)
    machine_code.compile_ahead(texts("#wait"))
    until(lambda: nvrtc.compiled)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            machine_code._end()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert nvrtc.free.is_set()


def test_what_is_cancelled_at_the_end_is_compiled_by_who_has_asked_for_it(nvrtc, monkeypatch):
    task = Text.task
    monkeypatch.setattr(Text, "task", lambda text: (task(text), machine_code._end())[0])
    load("text")
    assert nvrtc.compiled == ["text"]


def test_handlers_that_ask_within_wait_for_nothing(nvrtc, monkeypatch):
    """A handler, while the threads are being started, has nothing compiled ahead."""
    monkeypatch.setattr(machine_code, "thread_count", lambda: 2)
    start = machine_code.queue_for

    def interrupted(threads):
        machine_code.compile_ahead(texts("one"))
        return start(threads)

    monkeypatch.setattr(machine_code, "queue_for", interrupted)
    machine_code.compile_ahead(texts("two"))
    until(lambda: not machine_code._tasks)
    assert nvrtc.compiled == ["two"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_child_process_waits_for_no_thread_of_its_parent(nvrtc, monkeypatch):
    monkeypatch.setattr(machine_code, "thread_count", lambda: 2)
    machine_code.compile_ahead(texts("#wait", "two"))
    until(lambda: nvrtc.compiled)
    if not (child := os.fork()):
        signal.alarm(10)
        nvrtc.free = threading.Event()
        nvrtc.free.set()
        load("#wait")
        machine_code.compile_ahead(texts("three"))
        until(lambda: not machine_code._tasks)
        os._exit(0 if nvrtc.compiled == ["#wait", "#wait", "three"] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_an_interrupted_compilation_goes_on(nvrtc):
    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            load("#wait")
    finally:
        signal.signal(signal.SIGALRM, before)
    nvrtc.free.set()
    load("#wait")
    assert nvrtc.compiled == ["#wait"]


LISTS = {
    "short": [("reconstruct", (("A", 1),)), ("multiply_residues_wgmma", ())],
    "long": [
        ("reconstruct", (("A", 2),)),
        ("anywhere", ()),
        ("reconstruct", (("A", 1),)),
        ("undeclared", ()),
    ],
}


@pytest.mark.parametrize("damaged", ["", "[1]", '{"a": 3}', '{"a": [["b", 3]]}', "\x00"])
def test_damaged_lists_are_none(damaged, tmp_path, monkeypatch):
    (tmp_path / "companions.json").write_text(damaged)
    monkeypatch.setattr(companions, "FILES", [tmp_path / "companions.json", tmp_path / "none"])
    companions.lists.cache_clear()
    assert companions.lists() == {}
    companions.lists.cache_clear()


@pytest.fixture
def listed(monkeypatch):
    read = []
    monkeypatch.setattr(companions, "lists", lambda: read.append(1) or LISTS)
    monkeypatch.setattr(companions, "_begun", set())
    monkeypatch.setattr(machine_code, "thread_count", lambda: 2)
    return read


def compiled(nvrtc):
    until(lambda: not machine_code._tasks)
    names = [re_name for source in nvrtc.compiled for re_name in KERNELS if f" {re_name}(" in source]
    return len(nvrtc.compiled), {*names}


def test_a_kernel_brings_the_shortest_list_that_has_it(nvrtc, listed):
    kernels._compile("reconstruct", (("A", 1),), 90)
    assert compiled(nvrtc)[0] == 2
    kernels._compile("multiply_residues_wgmma", (), 90)
    kernels._compile("row_sums", (), 90)
    assert compiled(nvrtc)[0] == 3
    kernels._compile("anywhere", (), 90)
    assert compiled(nvrtc)[0] == 5


def test_kernels_of_another_architecture_are_left_out(nvrtc, listed):
    kernels._compile("reconstruct", (("A", 1),), 80)
    count, names = compiled(nvrtc)
    assert count == 1
    assert "multiply_residues_wgmma" not in names


def test_lists_are_not_read_where_all_is_on_disk(nvrtc, listed):
    """Nor where there is one core."""
    kernels._compile("anywhere", (), 90)
    assert listed
    until(lambda: not machine_code._tasks)
    listed.clear()
    companions._begun.clear()
    kernels._compile.cache_clear()
    kernels._compile("anywhere", (), 90)
    assert not listed


def test_lists_are_not_read_where_there_is_one_core(nvrtc, listed, monkeypatch):
    monkeypatch.setattr(machine_code, "thread_count", lambda: 1)
    kernels._compile("anywhere", (), 90)
    assert not listed
