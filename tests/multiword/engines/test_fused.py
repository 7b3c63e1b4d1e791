"""The arithmetic of the kernel of residue products, in NumPy; and the tiles that it is cut into."""

import math

import numpy as np
import pytest

from multiword.engines import residues
from multiword.engines.fused import (
    HOPPER,
    HOPPER_ALONE,
    HOPPER_HALF,
    LARGE,
    MIDDLE,
    SMALL,
    choose_tile,
    count_tiles,
    narrowed,
)
from multiword.engines.moduli import residue_system
from multiword.engines.residues import LONGEST
from multiword.runtime.kernels import KERNELS
from multiword.runtime.machine_code import OPTIONS
from tests.multiword.runtime.test_kernels_compile import compile_kernel
from tests.standin import Gpu


def reduced(x, p, weight):
    """What the kernel computes: bytes times weights in the low bits of a float, and one quotient."""
    modulus = residues._modulus(p, weight)
    weights = np.array([modulus.weights], "<i4").view(np.int8).astype(np.int64)
    octets = (x.astype("<u4") ^ np.uint32(1 << 31)).view(np.uint8).reshape(-1, 4)
    total = octets @ weights + modulus.start
    inverse, magic = np.float64(np.float32(modulus.inverse)), 12582912.0
    value = total.astype(np.int32).view(np.float32).astype(np.float64) - magic
    quotient = (value * inverse + magic).astype(np.float32).view(np.int32)
    return (total - quotient.astype(np.int64) * p).astype(np.int8)


@pytest.mark.parametrize("p", residue_system("int8", 329.0, 4096).moduli)
def test_sums_of_any_size_are_reduced_exactly(p):
    rng = np.random.default_rng(p)
    edges = np.array([-(2**31), 2**31 - 1, -1, 0, 1, p // 2, -(p // 2), p - p // 2, LONGEST << 14])
    x = np.concatenate([rng.integers(-(2**31), 2**31, 100_000), rng.integers(-1000, 1000, 1000), edges])
    for weight in (1, 2, p // 2, p - 1):
        if math.gcd(weight, p) == 1:
            expected = (x * weight + p // 2) % p - p // 2
            assert np.array_equal(reduced(x, p, weight), expected)


def test_the_largest_tile_that_keeps_the_machine_busy_is_chosen(monkeypatch):
    Gpu(multiprocessors=132).install(monkeypatch)
    chosen = [choose_tile(n, n, count, True) for n, count in ((4096, 14), (512, 14), (256, 14), (16, 14_000))]
    assert chosen == [HOPPER, HOPPER, MIDDLE, SMALL]
    assert [choose_tile(n, n, 14 * 256, True) for n in (128, 200, 64)] == [HOPPER_ALONE, HOPPER, MIDDLE]
    assert [choose_tile(m, 640, 14, True) for m in (640, 1104)] == [HOPPER_ALONE, HOPPER]
    assert [choose_tile(n, n, 14, True) for n in (300, 272)] == [HOPPER_ALONE, HOPPER_ALONE]
    assert [choose_tile(m, n, 14, True) for m, n in ((256, 512), (128, 1000))] == [HOPPER_HALF, HOPPER_HALF]
    assert [choose_tile(n, n, 14, False) for n in (4096, 256)] == [LARGE, MIDDLE]


def test_tiles_are_as_wide_as_it_takes():
    for tile in (HOPPER, HOPPER_ALONE):
        widths = [narrowed(tile, n).n for n in (1, 16, 100, 200, 256, 257, 300, 513, 1000)]
        assert widths == [16, 16, 112, 208, 256, 144, 160, 176, 256]
        assert all(count_tiles(narrowed(tile, n), 1, n) == -(-n // tile.n) for n in range(1, 2000))
    assert [narrowed(HOPPER_HALF, n).n for n in (257, 300, 512)] == [96, 112, 128]
    assert narrowed(LARGE, 5) is LARGE


@pytest.mark.parametrize("tile", [HOPPER, HOPPER_ALONE, narrowed(HOPPER, 16), narrowed(HOPPER_ALONE, 240)])
def test_a_block_has_the_shared_memory_that_its_kernel_lays_out(tile):
    """Stages, sums that are finished, and for each stage two barriers and a target."""
    kernel = KERNELS["multiply_residues_wgmma"]
    laid_out = "STAGES * (STAGE_BYTES + 16 + sizeof(Target)) + BM * STAGED_BYTES"
    options = (f"--gpu-architecture={kernel.architecture}", *OPTIONS)
    text = kernel.text(tuple(tile.constants.items()))
    compile_kernel(f'{text}static_assert({laid_out} <= {tile.shared}, "shared memory");', options)


def test_k_is_shared_out_where_blocks_leave_multiprocessors_idle(monkeypatch):
    Gpu(multiprocessors=132).install(monkeypatch)
    # 14 products of 1000 x 16 are 56 clusters of two blocks; of 16 x 16, 14 blocks; one of 2048 x 1536, 96.
    shared = [residues.share_of_k(*sizes) > 0 for sizes in ((1000, 16384, 16, 14), (16, 16384, 16, 14))]
    assert shared == [False, True]
    assert residues.share_of_k(2048, 16384, 1536, 1) == 0


@pytest.mark.parametrize(
    ("n", "below", "width"), [(304, 0, 160), (400, 0, 208), (512, 1, 256), (608, 0, 208), (704, 1, 256)]
)
def test_a_symmetric_product_is_computed_the_quicker_way(monkeypatch, n, below, width):
    """Below the diagonal in squares, or whole in narrow tiles: as timed in `benchmarks/notes-fused.md`."""
    Gpu(multiprocessors=132).install(monkeypatch)
    launched = []

    def kernel(grid, block, arguments, shared, **constants):
        launched.append((arguments[-1].symmetric, constants["BN"]))

    monkeypatch.setattr(residues, "_ON_HOPPER", kernel)
    monkeypatch.setattr(residues.TensorMap, "of", lambda *_: None)
    monkeypatch.setattr(residues, "_residue_matrices", lambda *_: None)
    words = np.empty((15, 1, n, 16), np.int8)
    residues.launch(words, words, (255,), words, False, symmetric=True)
    assert launched == [(below, width)]


@pytest.mark.parametrize("tile", [HOPPER, LARGE, MIDDLE, SMALL])
def test_tiles_fit_the_devices_that_they_are_for(tile):
    assert tile.shared * tile.blocks <= (227 << 10)
    assert tile.wgmma or tile.shared <= (99 << 10)  # compute capability 8.6, 8.9 and 12.0
    assert tile.threads * tile.blocks <= 2048
