"""Windows written out: the kernel without a GPU. `tests/gpu/test_torch.py` has the convolutions."""

import ctypes
from math import prod
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

from multiword.runtime.machine_code import OPTIONS
from ozaki.rowwise import windows
from ozaki.rowwise.windows import Piece, Windows
from tests.multiword.runtime.test_kernels_compile import ARCHITECTURE, OTHERS, compile_kernel
from tests.rowwise.test_cuda import TEAM, compiled, launched


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("word", windows._WORDS)
def test_compiles(word, wide):
    text = windows.source(256, 32, word, wide)
    for architecture in (ARCHITECTURE, *OTHERS):
        assert compile_kernel(text, (f"--gpu-architecture={architecture}", *OPTIONS))


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """The kernel on the host, by the bytes of its words, and whether places take 64 bits."""
    four = "struct uint4 { unsigned x, y, z, w; };\n"
    return {
        (word, wide): compiled(four + windows.source(TEAM, 5, word, wide), tmp_path_factory.mktemp("windows"))
        for word in windows._WORDS
        for wide in (False, True)
    }


@pytest.fixture
def kernel(libraries, monkeypatch):
    """The kernel in the place of a GPU's."""

    def of(word, wide, device):
        def launch(grid, block, arguments):
            x, out, shape = arguments
            described = windows.WindowShape.from_buffer_copy(shape)
            items = out.nbytes // (word * described.rows)
            assert grid[0] == -(-described.rows // 32) * -(-items // block[0])
            blocks = -(-described.rows // 5) * -(-items // TEAM)
            launched(libraries[word, wide], "write_windows", blocks, (x, out), described)

        return launch

    monkeypatch.setattr(windows, "_kernel", of)
    monkeypatch.setattr(windows, "refuse_captures", lambda _: None)


class OnDevice(np.ndarray):
    """An array that says of itself what one on a GPU does."""

    data = SimpleNamespace(ptr=512, device_id=0)


def written(x, asked, after):
    """The same by NumPy: (N, L…, groups, K…, C/groups)."""
    dims = range(1, x.ndim - 1)
    ends = [(0, 0), *[(max(b, 0), max(a, 0)) for b, a in zip(asked.before, after, strict=True)], (0, 0)]
    x = np.pad(x, ends)
    cut = [
        slice(max(-b, 0), x.shape[d] - max(-a, 0)) for d, b, a in zip(dims, asked.before, after, strict=True)
    ]
    spans = [d * (k - 1) + 1 for k, d in zip(asked.kernel, asked.dilation, strict=True)]
    found = sliding_window_view(x[:, *cut], spans, tuple(dims))  # (N, L…, C, spans…)
    found = found[:, *(slice(None, None, s) for s in asked.stride)]
    found = found[..., *(slice(None, None, d) for d in asked.dilation)]
    found = found[:, *(slice(n) for n in asked.lengths)]
    split = found.reshape(*found.shape[: x.ndim - 1], asked.groups, -1, *asked.kernel)
    return np.moveaxis(split, x.ndim, -1)


CASES = {
    "one dimension": ((3, 11, 6), Windows((3,), (2,), (2,), (1,), (5,), 1), (1,)),
    "two": ((2, 7, 9, 4), Windows((3, 2), (2, 1), (1, 3), (1, 0), (3, 7), 1), (0, 1)),
    "two, in groups": ((2, 7, 9, 6), Windows((3, 3), (1, 2), (1, 1), (1, 2), (7, 6), 3), (1, 2)),
    "two, cut": ((2, 8, 9, 4), Windows((1, 2), (1, 1), (1, 1), (-2, -1), (5, 8), 2), (-1, 1)),
    "three": ((2, 4, 5, 6, 2), Windows((2, 3, 2), (1, 2, 1), (2, 1, 1), (1, 1, 0), (4, 3, 5), 2), (1, 1, 0)),
    "as they are": ((2, 5, 4, 3), Windows((1, 1), (1, 1), (1, 1), (0, 0), (5, 4), 1), (0, 0)),
    "fewer": ((2, 9, 9, 2), Windows((3, 3), (2, 2), (1, 1), (1, 1), (4, 5), 1), (1, 1)),
}


@pytest.mark.parametrize("narrow", [1, 1 << 30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("kernel")
def test_windows_are_those_of_numpy(case, dtype, narrow, monkeypatch):
    """All of them; some samples, and lines; some places."""
    monkeypatch.setattr(windows, "_NARROW", narrow)
    windows._described.cache_clear()
    shape, asked, after = CASES[case]
    x = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    expected = written(x, asked, after)
    places, groups = prod(asked.kernel), asked.groups
    every = Piece((0, shape[0]), (0, asked.lengths[0]), (0, places))
    parts = every, every._replace(samples=(1, 2)), every._replace(lines=(1, asked.lengths[0]))
    for part in (*parts, every._replace(places=(places // 2, places))):
        samples, lines, some = (slice(*ends) for ends in part)
        chosen = expected[samples, lines].reshape(-1, groups, places, shape[-1] // groups)[:, :, some]
        found = windows.written_out(x.view(OnDevice), asked, part)
        assert found.dtype == dtype
        assert np.array_equal(found, chosen.reshape(*found.shape))


@pytest.mark.usefixtures("kernel")
def test_places_are_counted_in_64_bits_where_they_are_far_from_each_other():
    """A window has the first number at its second place, and the next window none."""
    x = np.arange(1.0, 5).reshape(1, 2, 2)
    asked = Windows((2,), (1 << 33,), (1 << 34,), (1 << 34,), (2,), 1)
    found = windows.written_out(x.view(OnDevice), asked, Piece((0, 1), (0, 2), (0, 2)))
    assert found.tolist() == [[[0, 0, 1, 2]], [[0, 0, 0, 0]]]
    one_by_one = Windows((1,), (1,), (1,), (0,), ((1 << 32) + 9,), 1)
    found = windows.written_out(x.view(OnDevice), one_by_one, Piece((0, 1), (1 << 32, (1 << 32) + 2), (0, 1)))
    assert not found.any()


@pytest.mark.parametrize(
    ("of_group", "address", "itemsize", "word"),
    [(16, 512, 4, 16), (12, 512, 4, 4), (32, 516, 4, 4), (8, 512, 8, 8), (48, 16, 8, 16)],
)
def test_several_numbers_are_copied_at_once_where_they_are_aligned(of_group, address, itemsize, word):
    assert windows._word(of_group, address, itemsize) == word
    assert ctypes.sizeof(windows.WindowShape) == 8 * 25
