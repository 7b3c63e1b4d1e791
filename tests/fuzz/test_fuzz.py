"""The fuzz commands run, report what is wrong, and repeat it; no function is left out of them."""

import json
import multiprocessing
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

import ozaki
from tests.fuzz import campaign, devices
from tests.fuzz.arrays import HOST_LAYOUTS, KINDS, SPECIAL, Spec, place, values
from tests.fuzz.device_cases import FAMILIES as DEVICE_FAMILIES
from tests.fuzz.device_products import SWEEPS, Call
from tests.fuzz.draw import Draw, Mismatch, check, check_same, difference, plain
from tests.fuzz.families import FAMILIES
from tests.fuzz.tally import run
from tests.inputs import FUNCTIONS, LINEAR_ALGEBRA
from tests.oracle import FORMATS, rounded, rounded_ratio, rounded_root
from tests.precision import double_precision_in_jax

FLOAT64 = FORMATS[np.dtype(np.float64)]


@pytest.fixture(autouse=True)
def precision_of_jax():
    """Cases ask JAX for double precision, which other tests do not expect."""
    if not find_spec("jax"):
        yield
        return
    with double_precision_in_jax():
        yield


@pytest.mark.parametrize("layout", HOST_LAYOUTS)
@pytest.mark.parametrize("shape", [(), (3,), (4, 5), (2, 3, 4), (0, 3), (3, 0)])
def test_layouts_keep_the_numbers(layout, shape):
    rng = np.random.default_rng(1)
    for dtype in (*FORMATS, np.dtype(np.complex64), np.dtype(np.int16)):
        x = values(rng, Spec(shape, dtype, "normal", layout))
        y = place(x, layout)
        expected = np.broadcast_to(x[:1], shape) if layout == "broadcast" and shape and shape[0] else x
        assert difference(plain(y), expected) is None


@pytest.mark.parametrize("kind", [*KINDS, SPECIAL])
@pytest.mark.parametrize("dtype", [*FORMATS, np.dtype(np.complex128), np.dtype(np.int8), np.dtype(bool)])
def test_kinds_of_numbers_are_of_their_dtype_and_finite(kind, dtype):
    x = values(np.random.default_rng(2), Spec((30, 20), np.dtype(dtype), kind, "C", 500))
    assert x.dtype == dtype
    assert x.shape == (30, 20)
    if kind != SPECIAL:
        assert np.isfinite(x).all()


def test_the_references_round_as_ieee_does():
    rng = np.random.default_rng(3)
    for x, y in (2.0 ** rng.integers(-1000, 1000, (300, 2)) * rng.random((300, 2))).tolist():
        (n, d), (p, q) = x.as_integer_ratio(), y.as_integer_ratio()
        assert rounded(n * p, 1 - (d * q).bit_length(), FLOAT64) == x * y
        assert rounded_ratio(n * q, d * p, 0, FLOAT64) == (x / y if y else 0)
        assert rounded_root(n, 1 - d.bit_length(), FLOAT64) == np.sqrt(x)


@pytest.mark.whole
@pytest.mark.parametrize("name", campaign.CHECKS)
def test_some_cases_of_every_family(name):
    tally = run({name: campaign.CHECKS[name]}, 60, 11, campaign.COMMAND, lambda _: None, most=6)
    assert tally.cases[name] > 0
    assert not tally.failed, tally.reproducers[0]


def test_every_public_function_is_in_a_family():
    """But for statistics of words, and functions of tensors that are those of arrays (tests/torch, jax).

    Functions of Dask arrays follow from the same table as others.
    """
    called = {name for family in FAMILIES.values() for name in family.functions.split()}
    called = {name if name.startswith("multiword.") else f"ozaki.{name}" for name in called}
    of_arrays = {f.name for f in FUNCTIONS if not f.name.startswith("ozaki.dask.")}
    of_arrays |= {name for name in LINEAR_ALGEBRA if name.rpartition(".")[2].islower()}
    of_tensors = {"ozaki.jax.average", *(f"ozaki.torch.{n}" for n in ("average", "cumsum", "einsum"))}
    assert of_arrays - called == {"multiword.underflow_counts", *of_tensors}
    assert campaign.CHECKS.keys() <= FAMILIES.keys()


def test_a_wrong_bit_is_found_and_repeated(monkeypatch, capsys):
    def wrong(draw: Draw) -> None:
        x = draw.array("x", (draw.size("n", 1, 9),), (np.dtype(np.float64),), "normal")
        check_same("off by one bit", np.nextafter(plain(x), np.inf), plain(x))

    monkeypatch.setitem(campaign.CHECKS, "wrong", wrong)
    assert campaign.main(["--minutes", "0.001", "--only", "wrong"]) == 1
    shown = capsys.readouterr().out
    assert "--seed 0 --only 'wrong' --case 0" in shown
    assert "1  wrong: off by one bit" in shown or "wrong: off by one bit" in shown
    assert campaign.main(["--only", "wrong", "--case", "0"]) == 1
    assert "x: float64" in capsys.readouterr().out


def test_an_unexpected_error_is_a_mismatch():
    def failing(_: Draw) -> None:
        raise KeyError("nothing")

    tally = run({"f": failing}, 0.01, 0, "tests.fuzz.campaign", lambda _: None)
    assert tally.failed["f"] == tally.cases["f"] > 0
    assert {sort for _, sort in tally.mismatches} == {"KeyError: 'nothing'"}


def test_processes_share_a_campaign_and_its_counts_are_written(tmp_path, capsys):
    counts = tmp_path / "counts.json"
    arguments = ["--only", "fingerprint", "--cases", "3", "--processes", "2", "--json", str(counts)]
    assert campaign.main(arguments) == 0
    found = json.loads(counts.read_text())
    assert found["families"]["fingerprint"]["cases"] == found["cases"] == 6
    assert (found["mismatches"], found["remarks"]) == (0, [])
    assert "fingerprint      6" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_campaign_that_is_stopped_has_its_counts(tmp_path, number):
    counts = tmp_path / "counts.json"
    options = ["--only", "fingerprint", "--minutes", "9", "--processes", "2", "--json", str(counts)]
    process = subprocess.Popen([sys.executable, "-m", campaign.COMMAND, *options], stdout=subprocess.PIPE)
    while not counts.exists():  # which the parent makes once its processes are begun
        time.sleep(0.1)
        assert process.poll() is None
    process.send_signal(number)
    shown, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert b"fingerprint" in shown
    assert json.loads(counts.read_text())["remarks"] == []


def test_a_run_that_is_stopped_still_has_its_table():
    def stopped(draw: Draw) -> None:
        if draw.chance(0.1):
            raise KeyboardInterrupt

    tally = run({"f": stopped}, 60, 0, "tests.fuzz.campaign", lambda _: None)
    assert "all" in tally.table()


@pytest.mark.whole
@pytest.mark.parametrize("name", DEVICE_FAMILIES)
def test_every_family_runs_on_both_sides(name):
    device = devices.Device(dry=True)
    for case in (0, 5, 81, 142 * 2 + 33) if name in SWEEPS else range(6):
        _, mismatch = devices.one(name, case, 5, device)
        assert mismatch is None or mismatch.sort == "NaN bits", mismatch


def test_a_difference_between_devices_is_found():
    spec, calls = Spec((3,), np.dtype(np.float64), "normal", "C"), []

    def function(_, x):
        calls.append(1)
        return [x["x"] + (len(calls) == 6) * 1e-9]  # the third call on the other side alone

    with pytest.raises(Mismatch, match="call 3 of 3"):
        devices.compare(Call({"x": spec}, function), Draw(0), devices.Device(dry=True))

    def refusing(_, x):
        calls.append(1)
        if len(calls) % 2:
            raise ValueError("no")
        return []

    with pytest.raises(Mismatch, match="no"):
        devices.compare(Call({"x": spec}, refusing), Draw(0), devices.Device(dry=True))


def test_a_difference_is_found_among_products_that_are_compared_together():
    spec, calls = Spec((3,), np.dtype(np.float64), "normal", "C"), []

    def function(_, x):
        calls.append(1)
        return [x["x"] + (len(calls) == 3) * 1e-9]  # of the second call, the first side

    draws = [Draw([0, 0, case], case=case) for case in range(4)]
    found = devices.compare_together([Call({"x": spec}, function)] * 4, draws, devices.Device(dry=True))
    assert [mismatch is None for mismatch in found] == [True, False, True, True]


def test_results_are_fetched_together():
    fetched = []

    class OnDevice(np.ndarray):
        def get(self):
            fetched.append(self.size)
            return np.asarray(self)

    xp = SimpleNamespace(ascontiguousarray=np.ascontiguousarray)
    xp.concatenate = lambda arrays: np.concatenate(arrays).view(OnDevice)
    rng = np.random.default_rng(0)
    for shapes in ([(2, 3), (0, 4), (5,), ()], [(0,)], []):
        arrays = [rng.standard_normal(shape) for shape in shapes]
        arrays += [x.astype(np.float32).T for x in arrays] + [x + 1j for x in arrays]
        for one, other in zip(devices.fetched_together(arrays, xp), arrays, strict=True):
            assert difference(one, other) is None
    assert len(fetched) == 1


@pytest.mark.parametrize("name", SWEEPS)
def test_sweeps_have_every_width_and_inner_dimension(name):
    cases = [case for part, cases in devices.sweep_units([name]) for case in cases if part == name]
    assert sorted(cases) == list(range(SWEEPS[name][3] * 2 * 71))
    found = set()
    for case in cases[: 2 * 71]:
        specs = DEVICE_FAMILIES[name](Draw([0, 0, case], case=case)).specs
        found.add((specs["a"].shape[1], specs["a"].dtype.kind))
    assert found == {(k, kind) for k in range(71) for kind in "fc"}


def test_processes_share_the_widths(monkeypatch):
    monkeypatch.setitem(SWEEPS, "slices, fp16 words", (*SWEEPS["slices, fp16 words"][:3], 3))
    seen = []

    class Noted(devices.Share):
        def run_together(self, _, cases):
            seen.append(cases)
            return True

    devices.share_counters(multiprocessing.get_context("spawn").Array("q", 3))
    try:
        shares = [Noted(rank, 2, 0, True) for rank in range(2)]
        assert all(share.sweep(["slices, fp16 words"], np.inf) for share in shares)
    finally:
        devices.share_counters(None)
    assert sorted(cases.start for cases in seen) == [0, 142, 284]
    assert not any(share.remarks for share in shares)


@pytest.mark.parametrize("name", ["fingerprint", pytest.param("slices, fp16 words", marks=pytest.mark.slow)])
def test_a_dry_run_in_two_processes(capsys, name):
    devices.main(["--dry", "--minutes", "0.02", "--processes", "2", "--only", name])
    shown = capsys.readouterr().out
    assert name in shown
    assert "died" not in shown


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cupy", None)  # as if it were not installed
    assert devices.main([]) == 0
    assert "no GPU (ModuleNotFoundError: " in capsys.readouterr().out


def test_sweeps_reach_every_number_of_moduli():
    """Every count that int8 and fp64 words can have, short of the widest data."""
    for name, (scheme, word, step, count) in SWEEPS.items():
        if scheme == "residues":
            found = set()
            for k in (1, 8, 60):
                x = np.full((1, k), 1.5)
                found |= {ozaki.plan(x, x.T, accuracy=1 + step * i, word=word).pieces for i in range(count)}
            assert max(found) >= 32
            assert set(range(min(found), max(found) + 1)) == found, name


def test_checks_tell_what_they_compared():
    with pytest.raises(Mismatch, match="reason"):
        check("sort", False, "reason")
    assert difference(np.float64([np.nan, 1]), np.float64([-np.nan, 1])) is None
    assert "0x1.0" in difference(np.float32([1]), np.float32([2]))
    assert difference(np.float32([0.0]), np.float32([-0.0])) is not None
