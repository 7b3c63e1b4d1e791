"""Choices and launches of batched products, which need no GPU to be checked."""

import struct
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from multiword.batched.gpu.device import by_cublas
from multiword.batched.gpu.kernels import FALLBACKS, _parameters
from multiword.batched.gpu.plans import (
    BLOCK_BYTES,
    KERNELS,
    Layout,
    Tuning,
    choose,
    resident_launch,
    table,
    tiled_launch,
)
from tests.multiword.batched.cases import sample_case


@pytest.mark.parametrize("is_complex", [False, True])
def test_every_choice_has_a_launch(is_complex):
    """The measured table covers every size and batch, and what it chooses fits, if need be through memory."""
    for n in (*range(1, 70), 100, 101, 127, 150, 199, 256, 400):
        for k in (n, 16):
            for batch in (1, 10, 1000, 10**6):
                case = replace(sample_case(n, n, k, complex=is_complex), batch=batch)
                tuning = choose(case)
                assert tuning.kernel in KERNELS
                if tuning.kernel == "cublas":
                    continue
                kinds = (tuning, replace(tuning, direct=False), *FALLBACKS)
                plans = [
                    tiled_launch(case, x) if x.kernel == "tiled" else resident_launch(case, x, 132)
                    for x in kinds
                ]
                plan, first = next((plan, x) for plan, x in zip(plans, kinds, strict=True) if plan)
                assert plan.shared <= BLOCK_BYTES
                if first.kernel == "tiled":
                    assert plan.sizes[3] >= batch
                else:
                    assert plan.grid * plan.sizes[1] >= batch


def test_cublas_multiplies_strided_real_matrices_only():
    listed = Layout(0, 224, True, True, 16)
    for changes in ({}, {"complex": True}, {"a": listed}, {"b": listed}):
        case = sample_case(224, 224, 224, **changes)
        assert by_cublas(case, Tuning("cublas")) == (not changes)
        assert not by_cublas(case, Tuning("tiled"))
    for row in (r for name, rows in table()["choices"].items() if "complex" in name for r in rows):
        assert all(table()["tunings"][i]["kernel"] != "cublas" for i in row["best"])


@given(
    st.tuples(*[st.integers(1, 80)] * 3), st.integers(1, 500), st.sampled_from([2, 4, 8, 16]), st.booleans()
)
@example((16, 48, 32), 300, 16, False)  # with gaps between the rows, as the next
@example((20, 7, 8), 300, 16, True)
def test_plans_move_whole_aligned_pieces(sizes, batch, alignment, is_complex):
    """Rows divide into pieces; leading dimensions and strides in shared memory keep them aligned."""
    m, n, k = sizes
    size = 4 if is_complex else 2
    a = Layout(m * k, k, True, False, max(alignment, size))
    case = replace(sample_case(m, n, k, complex=is_complex, a=a), batch=batch)
    plan = resident_launch(case, Tuning("resident"), 132)
    c = dict(plan.constants)
    assert c["A_LD"] >= k
    if c["A_FLAT"]:
        assert c["A_LD"] == k
        assert c["A_STRIDE"] == m * k
    else:
        assert k * size % c["A_VEC"] == 0
        assert c["A_LD"] * size % c["A_VEC"] == 0
        assert c["A_STRIDE"] * size % 16 == 0
    assert plan.sizes[2] >= plan.sizes[1] * c["A_STRIDE"] * size + 16
    assert (plan.grid - 1) * plan.sizes[1] < batch <= plan.grid * plan.sizes[1]


def test_parameters_are_packed_as_the_kernels_read_them():
    """int64 strides, int32 leading dimensions and sizes, float32 scalars: A, B, C and the result in order."""
    case = replace(sample_case(5, 6, 7, acc16=True), c=Layout(300, 60, True, False, 2))
    launch = resident_launch(case, Tuning("plain"), 132)
    stacks = {name: SimpleNamespace(layout=getattr(case, name)) for name in ("a", "b", "c", "out")}
    problem = SimpleNamespace(alpha=0.1, beta=1e9 - 2j)
    packed = _parameters(SimpleNamespace(case=case, problem=problem, **stacks), launch).value
    numbers = struct.unpack("4q4i4i4f", packed.tobytes())
    assert numbers[:8] == (35, 42, 300, 30, 7, 6, 60, 6)
    assert numbers[8:12] == launch.sizes
    assert numbers[12:] == (0.0999755859375, 0.0, float("inf"), -2.0)  # rounded to fp16 first
