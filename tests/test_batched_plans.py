"""Choices and launches of batched products, which need no GPU to be checked."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiword.batched.choices import WAYS, choose
from multiword.batched.plans import BLOCK_BYTES, Blocking, plan_tiled, plan_whole, sample_case
from multiword.batched.storage import Layout


@pytest.mark.parametrize("is_complex", [False, True])
def test_every_choice_has_a_launch(is_complex):
    """The measured table covers every size and batch, and its plans fit the device."""
    for n in (*range(1, 70), 100, 101, 127, 150, 199, 256, 400):
        for k in (n, 16):
            for batch in (1, 10, 1000, 10**6):
                case = replace(sample_case(n, n, k, complex=is_complex), batch=batch)
                blocking = choose(case)
                assert blocking.way in WAYS
                if blocking.way == "tiled":
                    assert plan_tiled(case, blocking).sizes[3] >= batch
                elif blocking.way != "cublas":
                    plan = plan_whole(case, blocking, 132)
                    assert plan is None or plan.shared <= BLOCK_BYTES
                    assert plan is None or plan.grid * plan.sizes[1] >= batch


@given(
    st.tuples(*[st.integers(1, 80)] * 3), st.integers(1, 500), st.sampled_from([2, 4, 8, 16]), st.booleans()
)
def test_plans_move_whole_aligned_pieces(sizes, batch, alignment, is_complex):
    """Rows divide into pieces; leading dimensions and strides in shared memory keep them aligned."""
    m, n, k = sizes
    size = 4 if is_complex else 2
    a = Layout(m * k, k, True, False, max(alignment, size))
    case = replace(sample_case(m, n, k, complex=is_complex, a=a), batch=batch)
    plan = plan_whole(case, Blocking("whole"), 132)
    if plan is None:
        return
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
