"""From residues to rounded values on the host, against exact rationals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiword.engines import get_engine
from multiword.engines.moduli import ResidueSystem, residue_system
from multiword.engines.words import symmetric
from multiword.formats import FORMATS
from multiword.runtime.compiled import compiled
from ozaki.residues.reconstruct import COMPILED_FORM, _round_compiled, reconstruct
from ozaki.residues.reconstruct_cuda import COLUMNS, Weights, launch_shape
from ozaki.residues.reduction import reduce
from ozaki.residues.scheme import Residues
from ozaki.schemes import ProductSpecification
from tests import oracle
from tests.cells import cells
from tests.oracle import images_of, nearest


def residues_of(integers, system):
    """The (1, N, 1, n) products that stand for some integers."""
    rows = [
        [float(symmetric(x * w, p)) for x in integers]
        for p, w in zip(system.moduli, system.weights, strict=True)
    ]
    return np.array(rows)[None, :, None]


def check(integers, system, row=0, column=0, name="fp64"):
    out = np.empty((1, len(integers)), FORMATS[name].dtype)
    scales = np.array([-row], np.int32), np.full(len(integers), -column, np.int32)
    with np.errstate(over="ignore"):
        reconstruct(residues_of(integers, system), system, scales, FORMATS[name], out)
    expected = [oracle.rounded(x, row + column, oracle.FORMATS[out.dtype]) for x in integers]
    assert out[0].tolist() == expected


def hard_integers(bits):
    """Ties and their neighbours, cancellations of any length, powers of two, zero."""
    found = [0, 1, -1]
    for middle in (2**53 + 1, 2**53 + 3, 2**54 - 1, 2**53, 2**53 + 2**29, 2**53 + 3 * 2**29):
        for shift in range(0, bits - 55, 7 if bits < 1000 else 37):
            found += [(middle << shift) + delta for delta in (-(2**10), -1, 0, 1, 2**8)]
    found += [(1 << i) + delta for i in range(0, bits - 1, 5) for delta in (-1, 0, 1)]
    return found + [-x for x in found]


@cells(bits=[20, 60, 109, 131, 200, 400, 1100], k=[1, 64, 1024, 1 << 20], name=["fp64", "fp32"])
def test_hard_integers_of_any_system(bits, k, name):
    for exponent in (0, -100):
        check(hard_integers(bits), residue_system("fp64", bits, k), exponent, name=name)


@given(
    st.lists(st.integers(-(2**109), 2**109) | st.integers(-(2**60), 2**60), min_size=1, max_size=6),
    st.integers(-1200, 900),
    st.integers(-200, 200) | st.integers(-1200, 1200),
    st.sampled_from(["fp64", "fp64", "fp32"]),
)
def test_reconstruction_rounds_once(integers, row, column, name):
    check(integers, residue_system("fp64", 109.2, 1024), row, column, name)


@pytest.mark.parametrize(("bits", "wide"), [(109.2, 102), (178, 134), (178, 177), (400, 300)])
def test_floats_are_enough_for_all_but_a_few(bits, wide):
    rng = np.random.default_rng(3)
    system = residue_system("fp64", bits, 1024)
    words = rng.integers(1, 1 << 51, (500, 8)).tolist()
    integers = [sum(x << 51 * i for i, x in enumerate(word)) >> 8 * 51 - wide for word in words]
    residue = residues_of(integers, system)[0]
    zero = np.zeros(1, np.int32), np.zeros((1, 500), np.int32)
    undecided = _round_compiled(
        *(compiled(COMPILED_FORM), np.empty((1, 500))), residue, slice(0, 1), system, zero, FORMATS["fp64"]
    )[1]
    assert len(undecided) == 0


@pytest.mark.parametrize("p", [67108863, 67108861, 5931641, 255, 251])
def test_residues_of_integers_next_to_one_half(p):
    rng = np.random.default_rng(0)
    for bits, beyond in ((51, 0), (53, 2)):
        multiples = rng.integers(-(2**bits) // p + 2, 2**bits // p - 2, 10000) * p
        for half in ((p - 1) // 2, (p + 1) // 2):
            x = multiples + half
            y = reduce(x.astype(np.float64), float(p), 1 / p).astype(np.int64)
            assert ((x - y) % p == 0).all()
            assert abs(y).max() <= (p - 1) // 2 + beyond


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("k", [1, 2, 7, 8, 9, 1000, 1024, 1025, 1 << 20])
def test_products_of_residues_are_exact(k, parts):
    largest = max(residue_system("fp64", 120, k, parts).moduli) // 2 + 2
    assert k * largest**2 * parts <= 2**53 - 2**27


HALF = Fraction(2) ** -1 * Fraction(float(2 ** (-(2.0**-10)))) * (1 + Fraction(1, 2**40))
"""|C'|/P is below this: `residue_system` leaves more than 2**-10 of a bit free."""


def systems(word: str, counts, inner, images: int = 1):
    """Every system of so many moduli: what `residue_system` returns for the most bits that they hold."""
    for k in inner:
        bits = {1: 330.0, 2: 150.0, 3: 330.0}[images] if word == "int8" else 4450.0
        sequence = residue_system(word, bits, k, min(images, 2))
        assert sequence.images == images
        for count in counts:
            if count <= len(sequence.moduli):
                yield ResidueSystem(sequence.word, sequence.k_block, sequence.moduli[:count], images)


COUNTS = {
    "int8": (range(1, 50), [1024]),
    "fp64": ((*range(1, 30), 60, 120, 240), [1 << i for i in range(21)]),
}


WORDS_AND_IMAGES = [("int8", 1), ("int8", 2), ("int8", 3), ("fp64", 1), ("fp64", 2)]


@pytest.mark.parametrize(("word", "images"), WORDS_AND_IMAGES)
def test_margins_of_every_system(word, images):
    """What the kernel's quotient leaves out stays within what is free, and all its sums are exact."""
    seen = 0
    for system in systems(word, *COUNTS[word], images):
        n, product, weights = len(system.moduli), system.product, Weights.of(system)
        size, base = weights.group, weights.base_bits
        groups = [system.moduli[i : i + size] for i in range(0, n, size)]
        whole = [*(product // math.prod(group) for group in groups), -product]
        assert [sum(d << base * i for i, d in enumerate(row)) for row in weights.digits] == whole
        largest = [sum((p // 2 + 2) * (math.prod(group) // p) for p in group) for group in groups]
        *digits, of_product = weights.digits
        sums = [
            sum(x * abs(d) for x, d in zip(largest, column, strict=True))
            for column in zip(*digits, strict=True)
        ]
        # What is left of the leading sum is C' over its weight; of the others, anything.
        quotient = sum(Fraction(p // 2 + 2, p) for p in system.moduli) + 1
        assert sums[-1] <= 2**53
        assert all(x + quotient * abs(d) <= 2**53 for x, d in zip(sums[:-1], of_product, strict=False))
        assert max(abs(x) for row in weights.digits for x in row) <= 2**53
        left_out = sum(x << base * i for i, x in enumerate(sums[: -weights.quotient_digits]))
        # Horner's scheme rounds once a digit, and the table's factor once.
        rounding = Fraction(n * (weights.quotient_digits + 1), 2**52)
        assert Fraction(left_out, product) + rounding < Fraction(1, 2) - HALF
        seen += 1
    assert seen > ({1: 40, 2: 20, 3: 40}[images] if word == "int8" else 600)


@pytest.mark.parametrize(("word", "images"), WORDS_AND_IMAGES)
def test_the_capacity_of_a_system_is_nearly_all_that_it_holds(word, images):
    """The bits for which these moduli are chosen, and a hundredth of one more for which they are not."""
    for system in systems(word, range(1, 22), [1024], images):
        found = [residue_system(word, system.capacity + more, 1024, min(images, 2)) for more in (0, 0.01)]
        if found[0].images == images:  # few bits take two images, however few moduli three would have
            assert found[0] == system
            assert found[1] != system


def test_room_for_others_changes_no_modulus():
    for word, bits, parts in (("int8", 130.3, 1), ("int8", 140.0, 2), ("int8", 329.0, 1), ("fp64", 200.0, 1)):
        asked = ProductSpecification((9, 70, 8), 1, parts, (61, 64), bits, FORMATS["fp64"])
        scheme = Residues(asked, word, get_engine("host"))
        room = scheme.roomy_specification
        assert room.widths == (64, 64)
        assert room.bits >= bits
        assert Residues(room, word, get_engine("host")).system == scheme.system  # beyond, in other words


def extremes(system):
    """C' as far from 0 as the system allows, ties of both formats and their neighbours there and below."""
    limit = int(HALF * system.product)
    found = [0, 1, limit, limit - 1, limit - (limit >> 9), limit // 3]
    for precision in (53, 24):
        for bits in {limit.bit_length() - 1, limit.bit_length() * 2 // 3}:
            shift = bits - precision - 1
            if shift >= 0:
                tie = (2 ** (precision - 1) + 12345) * 2 + 1
                found += [(tie << shift) + d for d in (-1, 0, 1)]
    found = [x for x in found if 0 <= x <= limit]
    return found + [-x for x in found]


def products_of(real, imaginary, system):
    """Products of residues that stand for these integers, each any number of its residue class."""
    y = images_of(np.array(real, object), np.array(imaginary, object), system)
    moduli = np.array(system.moduli, object)[:, None]
    free = np.random.default_rng(0).integers(-20, 20, y.shape)
    y = (y + moduli // 2) % moduli - moduli // 2 + free * moduli
    return y.astype(system.word.result)[:, :, None]


@pytest.mark.parametrize("xp", ["numpy", pytest.param("cupy", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    ("word", "images", "k", "counts"),
    [
        ("int8", 1, 1024, range(1, 50)),
        ("int8", 2, 1024, range(1, 25)),
        ("int8", 3, 1024, range(1, 50, 5)),
        *(("fp64", 1, k, range(1, 100, 1 + k // 8)) for k in (2, 8, 16, 32, 256, 1024, 4096)),
        ("fp64", 2, 16, range(1, 80, 7)),
    ],
)
def test_the_largest_integers_of_every_system(xp, word, images, k, counts):
    xp = pytest.importorskip(xp)
    for system in systems(word, counts, [k], images):
        integers = extremes(system)
        turned = integers[::-1]  # the imaginary part
        y = xp.asarray(products_of(integers, turned, system))
        exponent = -min(900, system.product.bit_length())
        scales = xp.zeros(1, xp.int32), xp.full(len(integers), -exponent, xp.int32)
        out = xp.empty((1, len(integers)), np.float64 if images == 1 else np.complex128)
        with np.errstate(over="ignore"):
            reconstruct(y, system, scales, FORMATS["fp64"], out)
        found = out if isinstance(out, np.ndarray) else out.get()
        expected = [nearest(x * Fraction(2) ** exponent) for x in integers]
        assert found.real[0].tolist() == expected, (len(system.moduli), k)
        if images > 1:
            assert found.imag[0].tolist() == expected[::-1], (len(system.moduli), k)


@pytest.mark.parametrize("word", COLUMNS)
def test_blocks_are_full_and_cover_all_columns(word):
    """More than half of the 256 threads that kernels are compiled for; no block lies beyond the columns."""
    for n in [*range(1, 3000), 100_001]:
        for stride in (n, -(-n // 16) * 16):
            y = np.empty((1, 1, 0, stride), word)
            (parts, below), (across, down), constants = launch_shape(y, 10**6, n)
            columns = across * constants["VECTOR"]
            assert 128 < across * down <= 256
            assert (parts - 1) * columns < n <= parts * columns
            assert below == min(-(-(10**6) // down), 65535)
