"""The probes find what the models are made of, and the paper's conclusions with it."""

import io
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from multiword import GENERATIONS, Blocking, TensorCore, get_engine, get_generation
from multiword.probe import infer_blocking, print_report, probe, save_report, subtree_sizes, survey
from multiword.probe.__main__ import main
from multiword.probe.order import predicted_sizes
from multiword.probe.report import named_engine

MODELS = [(name, word) for name, g in GENERATIONS.items() for word in g.widths]


def conclusions(name):
    """What the paper concludes of a model's fp16 products (Fasi et al., "Conclusions", in their order)."""
    return {
        "products_exact": True,
        "alignment": "RZ",
        "rounding": "RZ",
        "subnormal_inputs": True,
        "order_matters": False,  # aligned to the largest: no order can matter
        "normalised_in_addition": False,
        "normalised_in_subtraction": False,
        "carry_bits": None,  # no sum of a block overflows: "3 extra bits for carries"
        "monotone": False,
        "extra_bits": 0 if name == "V100" else 1,
    }


HALF = {"result": "fp16", "rounding": "RN", "products_exact": True, "subnormal_sums": True, "monotone": None}
# "NVIDIA Ampere tensor cores": 2^-126 · 2^-1 is the subnormal 2^-127.
SUBNORMAL = dict.fromkeys(("subnormal_inputs", "subnormal_sums", "subnormal_accumulator"), True)
EXPECTED = [
    *((name, word, "fp32", {"result": "fp32", "rounding": "RZ"}) for name, word in MODELS),
    *((name, "fp16", "fp32", conclusions(name)) for name in ("V100", "T4", "A100")),
    *(("A100", word, "fp32", SUBNORMAL) for word in ("bf16", "tf32")),
    *((name, "fp16", "fp16", HALF) for name in ("V100", "T4", "A100", "H200")),
]


@pytest.mark.parametrize(("name", "word", "accumulate", "expected"), EXPECTED)
def test_probes_find_what_a_model_is_made_of(name, word, accumulate, expected):
    found, own = probe(TensorCore(name, accumulate=accumulate), word, size=64), get_generation(name)
    assert (found.engine, found.word, found.alignment) == (name, word, "RZ")
    assert (found.width, found.fraction_bits) == (own.widths[word], own.fraction_bits)
    assert found.subnormal_inputs
    assert {field: getattr(found, field) for field in expected} == expected
    assert found.carry_bits_at_least >= (3 if expected.get("order_matters") is False else 0)


@given(
    width=st.integers(4, 24),
    bits=st.integers(23, 30),
    alignment=st.sampled_from(["RZ", "RN", "RD"]),
    rounding=st.sampled_from(["RZ", "RN", "RD", "RU"]),
)
@settings(max_examples=25)
def test_probes_find_any_width_bits_and_rounding(width, bits, alignment, rounding):
    core = TensorCore("V100").with_arithmetic(
        widths={"fp16": width}, fraction_bits=bits, alignment=alignment, rounding=rounding, name="custom"
    )
    found = probe(core, "fp16", size=64)
    assert found.generation("custom") == core.generation
    assert found.exponent_is_sum
    assert found.normalised_in_addition is False
    assert found.normalised_in_subtraction is False


@pytest.mark.parametrize("carry", [2, 3])
def test_too_few_carry_bits_are_found(carry):
    """The paper's argument for the third bit: with two, sums of five terms wrap."""
    core = TensorCore("V100").with_arithmetic(carry_bits=carry)
    assert probe(core, "fp16", size=64).carry_bits == (2 if carry == 2 else None)
    # 8 = 1.875 + 1 + 1.5 + 1.75 + 1.875 becomes 0 with two bits
    row, c = np.array([[1, 1.5, 1.75, 1.875]]), np.array([[1.875]])
    assert core.gemm(np.ones((1, 4)), row.T, c)[0, 0] == (0 if carry == 2 else 8)


def test_the_papers_own_numbers_on_the_v100():
    """The examples as printed, with c in the accumulator."""
    u = 2.0**-24

    def dot(c, *terms, name="V100"):
        b = np.zeros((4, 1))
        b[: len(terms), 0] = terms
        return float(TensorCore(name).gemm(np.ones((1, 4)), b, np.array([[c]]))[0, 0])

    assert dot(0, 2, 2 * u + u) == 2
    assert dot(0, -2, -3 * u) == -2
    assert dot(-1 + u, 1) == 2 * u  # no guard digit: relative error 1
    assert dot(-1 + u, 1, name="T4") == u
    assert dot(1 - u, u, u, u, u) == 1 + 2 * u
    assert dot(1, u, u, u, u) == 1  # so not monotone
    assert dot(-1 + u, 1, -u) == 2 * u
    for place in range(4):
        terms = [1.0, 1.0, 1.0]
        terms.insert(place, 2 * u)
        assert dot(1 + 2.0**-22 + 2.0**-23, *terms) == 4 + 2.0**-21
    assert dot(1.875, 1, 1.5, 1.75, 1.875) == 8


@given(
    st.integers(2, 150),
    st.sampled_from([None, 1, 2, 4, 8]),
    st.sampled_from([None, 8, 24, 40, 64]),
    st.sampled_from([None, 16, 32, 64]),
    st.sampled_from([(16, 16), (3, 50)]),
)
@settings(max_examples=12)
def test_the_inferred_blocking_gives_the_same_bits(k, step, block_k, tile_k, shape):
    core = TensorCore("A100", blocking=Blocking(step, block_k, None, tile_k))
    inferred = infer_blocking(core, "fp16", *shape, k)
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((shape[0], k)), rng.standard_normal((k, shape[1]))
    assert np.array_equal(TensorCore("A100", blocking=inferred).gemm(a, b), core.gemm(a, b))


def test_subtrees_are_counted_as_predicted():
    blocking = Blocking(step=8, block_k=88, tile_k=32)
    core = TensorCore("H200", blocking=blocking)
    pairs = [(0, 1), (3, 100), (254, 3), (90, 91), (100, 170), (176, 180), (254, 250)]
    sizes = subtree_sizes(core, "bf16", 10, 6, 255, pairs)
    assert sizes.tolist() == predicted_sizes(blocking, 255, pairs).tolist()
    assert sizes[:3].tolist() == [8, 176, 255]


A100 = TensorCore("A100")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: probe(get_engine("host")), ValueError, r"increasing k|no block FMA|contiguous parts"),
        (
            lambda: probe(TensorCore("A100", blocking=Blocking(block_k=16)), size=64),
            ValueError,
            "adds by Blocking",
        ),
        (lambda: probe(A100, "fp64"), ValueError, "known are fp16, bf16, tf32"),
        (lambda: infer_blocking(A100, "fp16", 4, 4, 1), ValueError, "k must be at least 2"),
        (lambda: subtree_sizes(A100, "fp32", 4, 4, 8, [(0, 1)]), ValueError, "known are fp16, bf16, tf32"),
        (lambda: subtree_sizes(A100, "fp16", 0, 4, 8, [(0, 1)]), ValueError, "at least 1"),
        *(
            (
                lambda p=p: subtree_sizes(A100, "fp16", 4, 4, 8, [p]),
                ValueError,
                "different positions from 0 to 7",
            )
            for p in ((1, 1), (0, 8), (-1, 3))
        ),
        (lambda: probe("V100"), TypeError, r"such as TensorCore\('V100'\), got 'V100'"),
        (lambda: survey(["V100"]), TypeError, "got 'V100'"),
        (lambda: infer_blocking("V100", "fp16", 4, 4, 8), TypeError, "got 'V100'"),
    ],
)
def test_engines_without_a_block_fma_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_report_prints_and_saves(tmp_path, capsys):
    found, notes = survey([TensorCore("V100"), TensorCore("A100"), get_engine("host")])
    assert [f"{f.engine} {f.word}" for f in found] == ["V100 fp16", "A100 fp16", "A100 bf16", "A100 tf32"]
    print_report(found, notes)
    printed = capsys.readouterr().out
    assert "V100" in printed
    assert "Not probed" in printed
    save_report(tmp_path / "probe.json", found, notes, command="test")
    saved = json.loads((tmp_path / "probe.json").read_text())
    assert saved["findings"][0]["fraction_bits"] == 23
    assert saved["command"] == "test"


@pytest.fixture(scope="module")
def surveyed():
    """What is found of six generations, and notes."""
    return survey(named_engine(name) for name in ("V100", "V100/fp16", "T4", "A100", "H200", "B200"))


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_table_fits_the_terminal(surveyed, width):
    found, notes = surveyed
    out = io.StringIO()
    print_report(found, notes, Console(file=out, width=width))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert sum(line.count(word) for line in lines for word in ("fp16 ", "bf16 ", "tf32 ")) == 13
    assert out.getvalue().count("Products exact") == {60: 3, 80: 2, 200: 1}[width]


def test_the_command_line(tmp_path, capsys):
    path = tmp_path / "out.json"
    assert main(["V100", "V100/fp16", "--word", "fp16", "--json", str(path)]) == 0
    results = [f["result"] for f in json.loads(path.read_text())["findings"]]
    assert results == ["fp32", "fp16"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["K80"], f"unknown engine 'K80'; known are cublas, {', '.join(GENERATIONS)}\n"),
        (["host"], "unknown engine 'host'; known are cublas, V100"),
        (["tensorcore/fp16"], "unknown engine 'tensorcore'"),
        (["V100/fp8"], "unknown accumulator 'fp8'; known are fp16, fp32"),
        (["V100", "--json", "/nowhere/at/all.json"], "/nowhere/at/all.json is no file that can be written"),
        (["V100", "--json", "."], ". is no file that can be written"),
    ],
)
def test_invalid_arguments_raise_clear_errors(arguments, message, capsys):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert err.startswith(f"multiword.probe: {message}")
    assert not out


def test_what_cannot_be_probed_has_no_table(capsys):
    assert main(["V100", "--word", "bf16"]) == 1
    assert capsys.readouterr().out == "Not probed: V100 has no bf16 products; it has fp16, fp32, fp64, int8\n"


def test_runs_say_what_is_being_probed(capsys):
    assert main(["A100", "--word", "bf16"]) == 0
    assert capsys.readouterr().err == "multiword.probe: probing A100, bf16 …\n"


def test_the_probes_are_there_once_multiword_is_imported():
    """In a process of its own, in which nothing else has imported them."""
    code = (
        "import sys, multiword; assert 'multiword.probe' not in sys.modules; "
        "print(multiword.probe.probe(multiword.TensorCore('V100')).width); multiword.nothing"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == "4\n"
    assert "AttributeError: module 'multiword' has no attribute 'nothing'" in ran.stderr
