"""`python -m ozaki`: products of files, the demonstration and its fingerprints, what is missing."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import ozaki
from multiword.engines import get_engine
from ozaki.__main__ import main
from ozaki.cli import demo, info
from ozaki.cli.files import Observed, multiply_files, save
from tests.cases import matrices
from tests.exact import rounded_product

ROOT = Path(__file__).parents[1]


@pytest.fixture
def files(tmp_path):
    a, b = matrices("wide6", 30, 50, 20)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    return tmp_path, a, b


def run(folder, *arguments):
    return main([str(folder / x) if x.endswith((".npy", ".npz")) else x for x in arguments])


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
        (("a.npy", "a.npy", "-o", "c.npy"), "shapes do not fit"),
        (("a.npy", "text.npy", "-o", "c.npy"), "text.npy is not a .npy file"),
        (("a.npy", "pickle.npy", "-o", "c.npy"), "pickle.npy is not a .npy file"),
        (("a.npy", "empty.npy", "-o", "c.npy"), "empty.npy is not a .npy file"),
        (("a.npy", "several.npz", "-o", "c.npy"), "archive of several arrays"),
        (
            ("a.npy", "vector.npy", "-o", "c.npy"),
            "must hold a matrix of numbers, but it holds float64 of shape (3,)",
        ),
        (("dates.npy", "b.npy", "-o", "c.npy"), "must hold a matrix of numbers, but it holds datetime64[D]"),
        (("a.npy", "b.npy", "-o", "folder/c.npy"), "not a directory"),
    ],
)
def test_bad_files_get_a_message_and_status_2(files, capsys, arguments, words):
    folder, *_ = files
    (folder / "text.npy").write_text("hello")
    (folder / "empty.npy").write_bytes(b"")
    np.save(folder / "pickle.npy", np.array([{}], object))
    np.savez(folder / "several.npz", np.eye(2), np.eye(2))
    np.save(folder / "vector.npy", np.ones(3))
    np.save(folder / "dates.npy", np.zeros((3, 3), "datetime64[D]"))
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
        (("a.npy", "b.npy"), "-o c.npy"),
        (("-o", "c.npy"), "two files"),
        (("a.npy", "b.npy", "-o", "c.npy", "--accuracy", "most"), "fp64, exact or a number"),
        (("a.npy", "b.npy", "-o", "c.npy", "--accuracy", "2201"), "fp64, exact or a number"),
        (("a.npy", "b.npy", "-o", "c.npy", "--engine", "abacus"), "abacus"),
    ],
)
def test_bad_command_lines(files, capsys, arguments, words):
    with pytest.raises(SystemExit) as stop:
        run(files[0], *arguments)
    assert stop.value.code == 2
    assert words in capsys.readouterr().err


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    (tmp_path / "c.npy").mkdir()
    with pytest.raises(OSError, match=r"c\.npy"):
        save(tmp_path / "c.npy", np.eye(3))
    assert [path.name for path in tmp_path.iterdir()] == ["c.npy"]


def test_results_are_ordinary_files(tmp_path):
    save(tmp_path / "c.npy", np.eye(3))
    (tmp_path / "other").touch()
    assert (tmp_path / "c.npy").stat().st_mode == (tmp_path / "other").stat().st_mode


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


def test_demo_prints_the_fingerprints_of_every_machine(capsys):
    """A fresh interpreter, as a user starts it; the whole demonstration takes seconds."""
    done = subprocess.run(
        [sys.executable, "-m", "ozaki"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for fingerprint in demo.FINGERPRINTS.values():
        assert fingerprint in done.stdout
    assert done.stdout.count("as on every machine") == len(demo.FINGERPRINTS)


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
    monkeypatch.setattr(demo, "CASES", {"Hilbert": demo.hilbert})
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
    assert np.__version__ in text
    monkeypatch.setattr(info, "find_spec", lambda name: None)
    commands = "\n".join(info.missing())
    for extra in ("cuda13", "cuda12", "examples", "test"):
        assert f"[{extra}]" in commands


def test_info_with_everything_installed(capsys, monkeypatch):
    monkeypatch.setattr(info, "missing", list)
    assert main(["info"]) == 0
    assert "missing" in capsys.readouterr().out


@pytest.mark.gpu
def test_gpu_is_listed_and_multiplies_files(files, capsys):
    pytest.importorskip("cupy")
    assert len(info.devices()) >= 1
    works, text = info.engines()["cublas"]
    assert works, text
    libraries = info.libraries()
    assert not any("unusable" in libraries[name] for name in ("CuPy", "CUDA driver", "cuBLAS"))
    assert not any("CuPy" in text or "cuBLAS" in text for text in info.missing())
    folder, a, b = files
    assert run(folder, "a.npy", "b.npy", "-o", "c.npy", "--engine", "cublas") == 0
    assert np.load(folder / "c.npy").tobytes() == ozaki.accurate_dgemm(a, b).tobytes()
