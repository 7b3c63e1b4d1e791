"""`python -m ozaki`: products of files, the demonstration and its fingerprints, what is missing."""

import os
import stat
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from contextlib import redirect_stdout
from importlib.metadata import PackageNotFoundError
from io import BytesIO, StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

import ozaki
from multiword.engines import get_engine
from multiword.runtime import compiled, install
from ozaki.cli import compiling, demo, info
from ozaki.cli.command import main
from ozaki.cli.files import Observed, load_numbers, multiply_files
from ozaki.cli.output import OutputFile
from ozaki.elementary.record import FUNCTIONS
from ozaki.execution.executors import NAMES
from tests.matrices import matrices
from tests.oracle import rounded_product

ROOT = Path(__file__).parents[2]


@pytest.fixture
def files(tmp_path):
    a, b = matrices("wide6", 30, 50, 20)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    return tmp_path, a, b


def run(folder, *arguments):
    return main([str(folder / x) if x.endswith((".npy", ".npz", ".csv", ".mtx")) else x for x in arguments])


@pytest.mark.parametrize("accuracy", ["fp64", "exact", "40"])
def test_files_are_multiplied_as_by_the_function(files, capsys, accuracy):
    folder, a, b = files
    assert run(folder, "a.npy", "b.npy", "-o", "c.npy", "--accuracy", accuracy) == 0
    expected = ozaki.accurate_dgemm(a, b, accuracy=int(accuracy) if accuracy.isdigit() else accuracy)
    assert np.load(folder / "c.npy").tobytes() == expected.tobytes()
    assert ozaki.fingerprint(expected) in capsys.readouterr().out


@pytest.mark.parametrize(
    "options", [("--scheme", "slices"), ("--engine", "tensorcore"), ("--engine", "host")]
)
def test_no_scheme_or_engine_shows(files, options):
    folder, a, b = files
    assert run(folder, "a.npy", "b.npy", "-o", "c.npy", *options) == 0
    assert np.load(folder / "c.npy").tobytes() == ozaki.accurate_dgemm(a, b).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.int16, bool])
def test_other_dtypes_and_orders(tmp_path, dtype):
    a = np.asfortranarray(np.arange(12).reshape(3, 4).astype(dtype))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", np.eye(4))
    assert run(tmp_path, "a.npy", "b.npy", "-o", "c.npy") == 0
    c = np.load(tmp_path / "c.npy")
    assert c.dtype == np.float64
    assert c.tolist() == a.astype(float).tolist()


def test_complex_matrices(files):
    folder, a, b = files
    np.save(folder / "z.npy", a - 2j * a[::-1])
    assert run(folder, "z.npy", "b.npy", "-o", "c.npy") == 0
    assert np.load(folder / "c.npy").tobytes() == ozaki.accurate_zgemm(a - 2j * a[::-1], b).tobytes()


def test_empty_products(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((3, 0)))
    np.save(tmp_path / "b.npy", np.ones((0, 2)))
    assert run(tmp_path, "a.npy", "b.npy", "-o", "c.npy") == 0
    assert np.load(tmp_path / "c.npy").tolist() == [[0, 0]] * 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a.npy", "nothing.npy", "-o", "c.npy"), "nothing.npy: No such file"),
        (("a.npy", "a.npy", "-o", "c.npy"), "a.npy is (30, 50), "),
        (("a.npy", "text.npy", "-o", "c.npy"), "text.npy is not a .npy file"),
        (("a.npy", "pickle.npy", "-o", "c.npy"), "pickle.npy is not a .npy file"),
        (("a.npy", "empty.npy", "-o", "c.npy"), "empty.npy is not a .npy file"),
        (("a.npy", "several.npz", "-o", "c.npy"), "archive of several arrays"),
        (
            ("a.npy", "cube.npy", "-o", "c.npy"),
            "must hold a matrix or vector of numbers, but it holds float64 of shape (3, 1, 1)",
        ),
        (("dates.npy", "b.npy", "-o", "c.npy"), "matrix or vector of numbers, but it holds datetime64[D]"),
        (("a.npy", "words.csv", "-o", "c.npy"), "words.csv is no table of numbers with commas"),
        (("long.csv", "b.npy", "-o", "c.npy"), "float64 cannot hold 9007199254740993 exactly"),
        (("a.npy", "b.npy", "-o", "c.mtx"), "results are .npy files, or .csv"),
        (("long.npy", "b.npy", "-o", "c.npy"), "cannot hold exactly"),
        (("large.npy", "b.npy", "-o", "c.npy"), "large.npy: "),
    ],
)
def test_bad_files_get_a_message_and_status_2(files, capsys, arguments, words):
    folder, *_ = files
    (folder / "text.npy").write_text("hello")
    (folder / "empty.npy").write_bytes(b"")
    np.save(folder / "pickle.npy", np.array([{}], object))
    np.savez(folder / "several.npz", np.eye(2), np.eye(2))
    np.save(folder / "cube.npy", np.ones((3, 1, 1)))
    (folder / "words.csv").write_text("one,two")
    (folder / "long.csv").write_text("9007199254740993,1")
    np.save(folder / "dates.npy", np.zeros((3, 3), "datetime64[D]"))
    np.save(folder / "long.npy", np.full((20, 30), 2**53 + 1))
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**9)}
    with (folder / "large.npy").open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
    assert run(folder, *arguments) == 2
    message = capsys.readouterr().err
    assert message.startswith("ozaki: ")
    assert words in message
    assert message.count("\n") == 1
    assert not (folder / "c.npy").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a.npy",), "two files"),
        (("a.npy", "b.npy", "d.npy"), "two files"),
        (("a.npy", "b.npy"), "missing output file; add -o c.npy"),
        (("-o", "c.npy"), "two files"),
        (("a.npy", "b.npy", "-o", "c.npy", "--accuracy", "most"), "'exact' or a number of bits"),
        (("a.npy", "b.npy", "-o", "c.npy", "--accuracy", "2201"), "between 1 and 2200"),
        (("run", "--accuracy", "most", "script.py"), "'exact' or a number of bits"),
        (("run", "--dtypes", "float16", "script.py"), "invalid choice: 'float16'"),
        (("run", "nowhere.py"), "there is no file nowhere.py"),
        (("run",), "required: script.py"),
        (("a.npy", "b.npy", "-o", "c.npy", "--engine", "abacus"), "abacus"),
    ],
)
def test_bad_command_lines(files, capsys, arguments, words):
    with pytest.raises(SystemExit) as stop:
        run(files[0], *arguments)
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere/c.npy", "there is no folder "),
        ("folder.npy", "folder.npy is a folder; -o needs the name of a file"),
        ("loop.npy", "loop.npy: Too many levels of symbolic links"),
        ("a.npy/c.npy", "a.npy/c.npy: Not a directory"),
    ],
)
def test_output_is_checked_before_the_inputs_are_read(files, capsys, name, words):
    """Of which one cannot be."""
    folder, *_ = files
    (folder / "folder.npy").mkdir()
    (folder / "loop.npy").symlink_to(folder / "loop.npy")
    before = sorted(folder.rglob("*"))
    assert run(folder, "nothing.npy", "b.npy", "-o", name) == 2
    message = capsys.readouterr().err
    assert message.startswith("ozaki: ")
    assert words in message
    assert message.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("protected", ["file", "folder"])
def test_output_without_permission_is_refused_before_inputs_are_read(files, capsys, monkeypatch, protected):
    """As for a user who may not write there; the tests' own user may be allowed to do everything."""
    folder, *_ = files
    (folder / "c.npy").touch()
    if protected == "file":
        monkeypatch.setattr(os, "access", lambda path, mode: False)
    else:
        monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    assert run(folder, "nothing.npy", "b.npy", "-o", "c.npy") == 2
    name = folder / "c.npy" if protected == "file" else folder
    assert capsys.readouterr().err == f"ozaki: {name}: Permission denied\n"


def refuse(**_):
    raise PermissionError(13, "Permission denied", "/some/temporary/name")


@pytest.mark.parametrize("existing", [True, False], ids=["target", "dangling"])
def test_output_is_written_through_links(files, existing):
    folder, a, b = files
    (folder / "real").mkdir()
    target, link, outer = folder / "real" / "c.npy", folder / "link.npy", folder / "outer.npy"
    link.symlink_to(Path("real") / "c.npy")
    outer.symlink_to(link)
    if existing:
        target.write_text("old")
        target.chmod(0o640)
    assert run(folder, "a.npy", "b.npy", "-o", "outer.npy") == 0
    assert outer.is_symlink()
    assert link.is_symlink()
    assert np.load(target).tobytes() == ozaki.accurate_dgemm(a, b).tobytes()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640 or not existing
    assert [path.name for path in target.parent.iterdir()] == ["c.npy"]


def test_output_to_a_fifo_reaches_its_reader(files):
    folder, a, b = files
    os.mkfifo(folder / "c.npy")
    received = []
    reader = threading.Thread(target=lambda: received.append((folder / "c.npy").read_bytes()), daemon=True)
    reader.start()
    assert run(folder, "a.npy", "b.npy", "-o", "c.npy") == 0
    reader.join(timeout=30)
    assert stat.S_ISFIFO((folder / "c.npy").stat().st_mode)
    np.save(folder / "expected.npy", ozaki.accurate_dgemm(a, b))
    assert received == [(folder / "expected.npy").read_bytes()]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_to_devices(files, capsys):
    folder, *_ = files
    arguments = [str(folder / "a.npy"), str(folder / "b.npy"), "-o"]
    assert main([*arguments, "/dev/null"]) == 0
    assert main([*arguments, "/dev/full"]) == 2
    assert capsys.readouterr().err == "ozaki: /dev/full: No space left on device\n"
    assert all(stat.S_ISCHR(os.stat(name).st_mode) for name in ("/dev/null", "/dev/full"))


@pytest.mark.parametrize("name", ["b.npy", "link.npy"])
def test_output_never_replaces_an_input(files, capsys, name):
    folder, _, b = files
    (folder / "link.npy").symlink_to("b.npy")
    assert run(folder, "a.npy", "b.npy", "-o", name) == 2
    assert "is one of the inputs" in capsys.readouterr().err
    assert np.load(folder / "b.npy").tobytes() == b.tobytes()


@pytest.mark.parametrize(("left", "right"), [((30, 50), (50,)), ((50,), (50, 20)), ((50,), (50,))], ids=str)
def test_vectors(tmp_path, left, right):
    a, b = (np.arange(np.prod(shape), dtype=float).reshape(shape) for shape in (left, right))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    assert run(tmp_path, "a.npy", "b.npy", "-o", "c.npy") == 0
    c = np.load(tmp_path / "c.npy")
    assert (c.shape, c.tolist()) == ((a @ b).shape, (a @ b).tolist())


def test_text_goes_in_and_comes_out_exactly(files):
    folder, a, b = files
    io = pytest.importorskip("scipy.io")
    np.savetxt(folder / "a.csv", a, delimiter=",", fmt="%.17g")
    io.mmwrite(folder / "b.mtx", b, precision=17)
    assert run(folder, "a.csv", "b.mtx", "-o", "c.csv") == 0
    c = np.loadtxt(folder / "c.csv", delimiter=",")
    assert c.tobytes() == ozaki.accurate_dgemm(a, b).tobytes()


def test_pipes(files):
    folder, a, b = files
    command = [sys.executable, "-m", "ozaki", "-", str(folder / "b.npy"), "-o", "-"]
    bytes_of_a = (folder / "a.npy").read_bytes()
    done = subprocess.run(command, cwd=ROOT, input=bytes_of_a, capture_output=True, timeout=120, check=True)
    assert np.load(BytesIO(done.stdout)).tobytes() == ozaki.accurate_dgemm(a, b).tobytes()
    assert b"fingerprint" in done.stderr
    with pytest.raises(SystemExit):
        main(["-", "-", "-o", "c.npy"])


class Interrupted(StringIO):
    """An output at whose first line Ctrl-C comes."""

    def write(self, _):
        raise KeyboardInterrupt


def test_an_interrupted_demo_is_one_line(capsys):
    with redirect_stdout(Interrupted()):
        assert main([]) == 130
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_an_ascii_locale_shows_the_demo_in_60_columns():
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "60"}
    command = [sys.executable, "-m", "ozaki"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines()[:16])) <= 60
    first = done.stdout.split("different results")[0]
    sums = {word for word in first.split() if word.count(".") == 1 and len(word) > 9}
    assert len(sums) > 2
    assert "..." not in first


def test_all_that_first_calls_compile_can_be_before():
    if not compiled.compiles():
        pytest.skip("no numba")
    functions = [function for group in compiling.declared(compiling.modules()) for function in group]
    assert len(set(map(id, functions))) == len(functions)
    texts = [function.py_func for function in functions]
    found = Counter((text.__module__, text.__qualname__) for text in texts)
    assert found["ozaki.linalg.small.loops_numba", "svd"] == len("dD")
    assert found["ozaki.rounding.digits_numba", "round_digits"] == 1
    kinds = "float32", "float32_last", "float64", "float64_last"
    loops = {("ozaki.elementary.loops_numba", f"{name}_{kind}") for name in FUNCTIONS for kind in kinds}
    assert loops <= found.keys()


def test_everything_can_be_compiled_before(capsys, monkeypatch):
    monkeypatch.setattr(compiling, "modules", lambda: ("ozaki.random.philox_numba",))
    assert main(["compile"]) == (0 if compiled.compiles() else 1)
    assert "s; kept in" in capsys.readouterr().out or not compiled.compiles()


@pytest.mark.slow
@pytest.mark.parametrize(("make", "dtype"), compiling.CALLS, ids=lambda x: getattr(x, "__name__", x))
def test_what_is_called_to_compile_for_a_gpu(make, dtype):
    make(np, dtype)  # which raises nothing: on a GPU the kernels are compiled then


@pytest.mark.parametrize("moment", ["planned", "written"])
def test_an_interrupted_command_leaves_the_old_file(files, capsys, monkeypatch, moment):
    folder, *_ = files
    (folder / "c.npy").write_text("old")

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    if moment == "written":
        monkeypatch.setattr(np, "save", interrupt)
    before = sorted(folder.iterdir())
    with redirect_stdout(Interrupted() if moment == "planned" else sys.stdout):
        assert run(folder, "a.npy", "b.npy", "-o", "c.npy") == 130
    assert capsys.readouterr().err == "ozaki: interrupted; no file was changed\n"
    assert sorted(folder.iterdir()) == before
    assert (folder / "c.npy").read_text() == "old"


@pytest.mark.parametrize("step", ["numpy.save", "os.replace"])
def test_an_output_that_fails_leaves_the_old_file(tmp_path, monkeypatch, step):
    (tmp_path / "c.npy").write_text("old")
    output = OutputFile(tmp_path / "c.npy")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(step, fail)
    with pytest.raises(OSError, match=r"No space left on device: '.*c\.npy'"):
        output.write(np.eye(3))
    assert [path.name for path in tmp_path.iterdir()] == ["c.npy"]
    assert (tmp_path / "c.npy").read_text() == "old"


def test_results_are_ordinary_files(tmp_path):
    OutputFile(tmp_path / "c.npy").write(np.eye(3))
    (tmp_path / "other").touch()
    assert (tmp_path / "c.npy").stat().st_mode == (tmp_path / "other").stat().st_mode


def exactly_a_float(value):
    return int(float(value)) == value


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, ">i8"])
def test_integers_are_multiplied_exactly_or_refused(tmp_path, capsys, dtype):
    """Every integer near a power of two, against Python's integers: none is rounded in silence."""
    limits = np.iinfo(dtype)
    near = {s * (2**e + d) for e in (0, 31, 32, 52, 53, 54, 62, 63) for d in range(-3, 4) for s in (1, -1)}
    near |= {2**62 + 2**k for k in range(9, 13)} | {limits.min, limits.max}
    refused = 0
    for value in sorted(v for v in near if limits.min <= v <= limits.max):
        np.save(tmp_path / "a.npy", np.array([[1, value]], dtype))
        np.save(tmp_path / "b.npy", np.array([[0.0], [1.0]]))
        if exactly_a_float(value):
            assert load_numbers(tmp_path / "a.npy").tolist() == [[1, value]]
        else:
            assert run(tmp_path, "a.npy", "b.npy", "-o", "c.npy", "--accuracy", "exact") == 2
            assert "integers of more than 53 bits" in capsys.readouterr().err
            refused += 1
    assert refused > 10


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="longdouble is float64 here")
@pytest.mark.parametrize(
    ("dtype", "instead"), [(np.longdouble, "np.float64"), (np.clongdouble, "np.complex128")]
)
def test_longdouble_is_refused(tmp_path, capsys, dtype, instead):
    np.save(tmp_path / "a.npy", np.eye(2, dtype=dtype))
    np.save(tmp_path / "b.npy", np.eye(2))
    assert run(tmp_path, "a.npy", "b.npy", "-o", "c.npy") == 2
    message = capsys.readouterr().err
    assert f"{np.dtype(dtype)}, which" in message
    assert f"x.astype({instead})" in message


def test_version(capsys, monkeypatch):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"ozaki-multiword {ozaki.__version__}\n"
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"{name} 1.2.3")
    assert ozaki.__version__ == "ozaki-multiword 1.2.3"

    def not_installed(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", not_installed)
    assert ozaki.__version__ == "0+unknown"
    with pytest.raises(AttributeError, match="has no attribute '__author__'"):
        _ = ozaki.__author__


def started(*arguments, **options):
    """A fresh interpreter, as a user starts it."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, **options)


def printed(*arguments):
    done = started(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


SCRIPT = """
import sys, numpy
from ozaki import cupy

mode = cupy._modes.entered()[-1]
print(sys.argv[1:], numpy.ones(2) @ numpy.ones(2), mode.accuracy, mode.minimum, *sorted(mode.dtypes))
raise ValueError("of the script")
"""


@pytest.mark.parametrize("accuracy", ["normwise", "exact", "40"])
def test_a_script_is_run_in_the_mode(tmp_path, accuracy):
    pytest.importorskip("cupy")
    (tmp_path / "script.py").write_text(SCRIPT)
    options = "--accuracy", accuracy, "--minimum", 7, "--dtypes", "float64", "--dtypes", "float32"
    done = started("-m", "ozaki", "run", *options, tmp_path / "script.py", "-o", "--fast")
    assert done.stdout == f"['-o', '--fast'] 2.0 {accuracy} 7 float32 float64\n"
    assert done.stderr.endswith("ValueError: of the script\n")
    (tmp_path / "script.py").write_text("raise SystemExit(0)")
    done = started("-m", "ozaki", "run", tmp_path / "script.py")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "no CuPy product was replaced\n"
    (tmp_path / "script.py").write_text("raise SystemExit(3)")
    assert started("-m", "ozaki", "run", tmp_path / "script.py").returncode == 3


RECORDS = """
from ozaki import cupy

cupy._modes.entered()[-1].calls.record("dot", ((2, 3), (3, 1)), "float64", 5)
"""


def test_the_products_that_were_replaced_are_shown(tmp_path, capsys):
    """Of a script that has them noted, which takes no GPU."""
    pytest.importorskip("cupy")
    (tmp_path / "script.py").write_text(RECORDS)
    assert main(["run", str(tmp_path / "script.py")]) == 0
    shown = capsys.readouterr().err
    assert shown.splitlines()[0].split() == ["function", "shapes", "dtype", "products", "seconds"]
    assert shown.splitlines()[1] == "dot       2x3 3x1  float64  5         0.000000"


def test_a_script_without_cupy_is_not_run(tmp_path):
    (tmp_path / "cupy.py").write_text("raise ImportError")
    (tmp_path / "script.py").write_text("print('run')")
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    done = started("-m", "ozaki", "run", tmp_path / "script.py", env=os.environ | {"PYTHONPATH": path})
    assert (done.returncode, done.stdout) == (2, "")
    assert "ozaki.cupy needs CuPy: pip install " in done.stderr


def test_version_and_help_from_the_shell():
    assert "ozaki-multiword " in printed("-m", "ozaki", "--version")
    assert "a.npy b.npy -o c.npy" in printed("-m", "ozaki", "--help")


WATCHED = """
import sys
import numpy as np

sizes, matmul = [], np.matmul


def watched(a, b, *arguments, **options):
    sizes.append(max(a.size, b.size))
    return matmul(a, b, *arguments, **options)


np.matmul = watched
from ozaki.cli.command import main

status = main(sys.argv[1:])
print("largest operand", max(sizes))
sys.exit(status)
"""


def test_the_command_multiplies_nothing_but_the_product(tmp_path):
    """The machine is not measured for the plan that is printed: a 2 x 2 product takes no larger one."""
    np.save(tmp_path / "a.npy", np.array([[1.0, 2.0], [3.0, 4.0]]))
    a, c = tmp_path / "a.npy", tmp_path / "c.npy"
    output = printed("-c", WATCHED, a, a, "-o", c)
    assert np.load(c).tolist() == [[7, 10], [15, 22]]
    assert int(output.split("largest operand ")[1]) < 1000


def test_progress_reaches_the_plans_total(files):
    """What an observed engine reports adds up to the products of the plan, and more only by a certificate."""
    _, a, b = files
    done = []
    observed = Observed(get_engine("host"), done.append)
    for scheme in ("residues", "slices"):
        done.clear()
        result = ozaki.accurate_dgemm(a, b, accuracy="exact", scheme=scheme, engine=observed)
        plan = ozaki.plan(a, b, accuracy="exact", scheme=scheme)
        assert sum(done) == plan.products * a.size * b.shape[1]
        assert len(done) == plan.products
        assert result.tobytes() == ozaki.accurate_dgemm(a, b, accuracy="exact").tobytes()


def test_progress_is_shown_on_a_terminal_only(files):
    folder, *_ = files
    for terminal in (True, False):
        with open(os.devnull, "w") as nowhere:
            console = Console(file=nowhere, force_terminal=terminal, record=True, width=100)
            multiply_files(folder / "a.npy", folder / "b.npy", folder / "c.npy", {}, console)
        text = console.export_text()
        assert "fingerprint" in text
        assert ("multiplying" in text) == terminal


def test_demo_prints_the_fingerprints_of_every_machine():
    """The whole demonstration takes seconds."""
    output = printed("-m", "ozaki")
    for fingerprint in demo.FINGERPRINTS.values():
        assert fingerprint in output
    assert output.count("as on every machine") == len(demo.FINGERPRINTS)
    counts = [line.split("│")[-2].strip() for line in output.splitlines() if "different results" in line]
    assert counts == ["1", "1"]  # of sums and of products, each computed in several ways


def test_demo_says_so_when_the_ways_differ():
    console = Console(record=True, width=100)
    assert not demo.show_ways(console, "title", ("theirs", "ours"), {"one": (1.0, 1.0), "two": (1.0, 2.0)})
    assert demo.show_ways(console, "title", ("theirs", "ours"), {"one": (None, 1.0), "two": (2.0, 1.0)})


def test_the_demos_exact_fingerprint_is_that_of_pythons_integers():
    expected = [rounded_product(*make()) for make in demo.CASES.values()]
    assert demo.combined_fingerprint(expected) == demo.FINGERPRINTS["exact"]


@pytest.mark.parametrize(
    "variant", [{"word": "int8"}, {"scheme": "slices"}, {"engine": "tensorcore"}], ids=str
)
@pytest.mark.parametrize("accuracy", demo.FINGERPRINTS)
def test_other_ways_to_the_demos_bits(accuracy, variant):
    found = [ozaki.accurate_dgemm(*make(), accuracy=accuracy, **variant) for make in demo.CASES.values()]
    assert demo.combined_fingerprint(found) == demo.FINGERPRINTS[accuracy]


def test_demo_says_so_when_bits_differ(monkeypatch, capsys):
    monkeypatch.setattr(demo, "FINGERPRINTS", {"exact": "0" * 16})
    assert main([]) == 1
    assert "NOT the expected 0000000000000000" in capsys.readouterr().out


def test_demo_errors_are_exact():
    a, b = demo.hilbert(3)
    exact = a @ b
    assert demo.error(exact, a, b) == 0
    exact[0, 1] += 0.5 * exact[0, 0]
    assert demo.error(exact, a, b) == 0.5
    assert exact[1, 1] == 60  # lcm(1, ..., 5)


def test_info_names_engines_and_what_is_missing(capsys, monkeypatch):
    assert main(["info"]) == 0
    text = capsys.readouterr().out
    assert "engine host" in text
    assert all(f"executor {name}" in text for name in NAMES)
    assert np.__version__ in text
    assert "numba" in text
    assert "pytest" not in text
    for name in ("cupy", *info.EXTRAS.values()):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    commands = "\n".join(info.missing())
    for extra in ("[cuda13]", "cuda12", "[examples]", "[dask]"):
        assert extra in commands


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'ozaki-multiword[torch]'"),
        ('{"dir_info": {}}', "pip install '.[torch]' in a clone of the repository"),
        (PackageNotFoundError, "pip install '.[torch]' in a clone of the repository"),
    ],
)
def test_the_command_that_installs_an_extra(monkeypatch, origin, command):
    """From an index that has the package, if it came from there; else from the clone that it came from."""

    def distribution(name):
        if origin is PackageNotFoundError:
            raise PackageNotFoundError(name)
        return SimpleNamespace(read_text=lambda _: origin)

    monkeypatch.setattr("importlib.metadata.distribution", distribution)
    assert str(install.missing("this needs PyTorch", "torch")) == f"this needs PyTorch: {command}"


def test_info_of_a_machine_with_everything_installed():
    console = Console(record=True, width=100)
    console.print(info.table_of({"CuPy": "14"}, ["NVIDIA H200"], {"cublas": (True, "int8 products")}, []))
    assert [line.rstrip() for line in console.export_text().splitlines()] == [
        "CuPy           14",
        "GPU 0          NVIDIA H200",
        "engine cublas  int8 products",
        "missing        nothing",
    ]


REAL = "%%MatrixMarket matrix array real general\n1 1\n"
COORDINATE = "%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "1_0", "cannot hold 1_0"),
        ("a.csv", "1e400", "cannot hold 1e400"),
        ("a.csv", "-0.1e-400", "cannot hold -0.1e-400"),
        ("a.csv", "", "is empty"),
        ("a.mtx", "hello", "a.mtx is no Matrix Market file"),
        ("a.mtx", "%%MatrixMarket matrix coordinate real general\n1 1 2\n1 1 1e16\n1 1 1\n", "twice"),
        ("a.mtx", REAL + "1e400\n", "line 3: float64 cannot hold 1e400"),
        ("a.mtx", REAL + "-1e-400\n", "cannot hold -1e-400"),
        ("a.mtx", REAL + "9007199254740993\n", "cannot hold 9007199254740993 exactly"),
        ("a.mtx", REAL.replace("real", "integer") + "1" * 400, "... of 400 characters"),
        ("a.mtx", REAL.replace("real", "integer") + "9223372036854775809", "9223372036854775809 exactly"),
        ("a.mtx", REAL.replace("real", "complex") + "1 1e400", "cannot hold 1e400"),
        ("a.mtx", REAL + "1_0\n", "cannot hold 1_0"),
        ("a.mtx", REAL, "it has 0 entries, not 1"),
        ("a.mtx", REAL + "1 2\n", "line 3: 1 numbers are expected, not 2"),
        ("a.mtx", REAL.replace("1 1", "1"), "line 2 must hold the numbers of rows and columns, not '1'"),
        ("a.mtx", REAL.replace("1 1", "1 -1"), "not '1 -1'"),
        ("a.mtx", REAL.replace("real", "fuzzy"), "unknown kind of matrix: array fuzzy general"),
        ("a.mtx", COORDINATE + "1 1 1\n1 2 5", "outside of its 1 rows and 1 columns"),
        ("a.mtx", COORDINATE + "1 1 1\n0 1 5", "outside of its 1 rows"),
        ("a.mtx", COORDINATE + "1 1 1\n99999999999999999999 1 5", "line 3: "),
        ("a.mtx", COORDINATE + f"{2**33} {2**33} 0\n", f"no memory for {2**33} x {2**33} float64 numbers"),
        ("a.mtx", COORDINATE + f"{10**30} 1 0\n", "no memory for 1"),
        ("a.mtx", COORDINATE.replace("general", "symmetric") + "1 2 0\n", "2 columns are not symmetric"),
    ],
)
def test_numbers_that_would_be_lost_are_refused(tmp_path, capsys, name, content, words):
    (tmp_path / name).write_text(content)
    assert run(tmp_path, name, name, "-o", "c.npy") == 2
    message = capsys.readouterr().err
    assert words in message
    assert message.count("\n") == 1


MARKET = "%%MatrixMarket matrix "
KINDS_OF_MATRIX = {
    "array real general\n2 3\n1\n2\n3\n4\n5\n6\n": [[1, 3, 5], [2, 4, 6]],
    "array integer symmetric\n2 2\n1\n2\n3\n": [[1, 2], [2, 3]],
    "array real skew-symmetric\n3 3\n1\n2\n3\n": [[0, -1, -2], [1, 0, -3], [2, 3, 0]],
    "array complex hermitian\n2 2\n1 0\n2 5\n3 0\n": [[1, 2 - 5j], [2 + 5j, 3]],
    "array real general\n0 3\n": np.zeros((0, 3)),
    "coordinate real general\n% why\n\n2 3 2\n2 1 0.1\n1 3 -inf\n": [[0, 0, -np.inf], [0.1, 0, 0]],
    "coordinate pattern symmetric\n2 2 2\n1 1\n2 1\n": [[1, 1], [1, 0]],
    "coordinate complex hermitian\n2 2 1\n2 1 3 4\n": [[0, 3 - 4j], [3 + 4j, 0]],
    "coordinate integer general\n1 2 2\n1 1 18446744073709551616\n1 2 -9007199254740994\n": [
        [2.0**64, -(2.0**53) - 2]
    ],
}


@pytest.mark.parametrize("text", KINDS_OF_MATRIX)
def test_matrix_market_files(tmp_path, text):
    (tmp_path / "a.mtx").write_text(MARKET + text)
    x, expected = load_numbers(tmp_path / "a.mtx"), np.array(KINDS_OF_MATRIX[text])
    assert x.dtype == (np.complex128 if "complex" in text else np.float64)
    assert (x + 0).tobytes() == (expected.astype(x.dtype) + 0).tobytes()  # −0 of mirrored zeros aside


def test_matrix_market_files_are_read_as_scipy_reads_them(tmp_path):
    io, sparse = pytest.importorskip("scipy.io"), pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(1)
    dense = rng.standard_normal((7, 5))
    square = np.rint(9 * rng.standard_normal((6, 6)))
    matrices = [dense, dense * 1j + 2, sparse.coo_array(np.where(dense > 0, dense, 0)), square + square.T]
    for x in [*matrices, square - square.T, sparse.coo_array(square - square.T)]:
        io.mmwrite(tmp_path / "a.mtx", x)
        expected = x.toarray() if sparse.issparse(x) else x
        assert np.array_equal(load_numbers(tmp_path / "a.mtx"), expected)


def test_tables_with_a_byte_order_mark(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf1,-inf\r\n0e5,4\r\n")
    assert load_numbers(tmp_path / "a.csv").tolist() == [[1, -np.inf], [0, 4]]


def test_complex_results_are_no_text(files, capsys):
    folder, *_ = files
    np.save(folder / "z.npy", np.eye(2) * 1j)
    assert run(folder, "z.npy", "z.npy", "-o", "c.csv") == 2
    assert "complex" in capsys.readouterr().err
    assert not (folder / "c.csv").exists()
