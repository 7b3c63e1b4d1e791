"""Sequences of moduli, and what is known of their residues."""

import math
from itertools import combinations

import numpy as np
import pytest

from multiword.engines import WORDS
from multiword.engines.moduli import _beginnings, _coprimes, residue_system, root_of_minus_one
from tests.modular import M11
from tests.threads import in_threads

THREADS = 4


def test_one_search_within_another_finds_the_same_numbers():
    """As in a signal's handler, or in another thread between any two steps of this one."""
    largest = 261  # of no word: nothing of the sequence is there yet
    outer = _coprimes(largest, False)
    first = [next(outer) for _ in range(5)]
    inner = list(_coprimes(largest, False))
    assert first + list(outer) == inner == list(_coprimes(largest, False))
    assert all(math.gcd(p, q) == 1 for p, q in combinations(inner, 2))


def test_threads_find_the_same_systems():
    widths = [100, 300, 200, 300]
    expected = [residue_system("int8", bits, 64).moduli for bits in widths]
    for _ in range(20):
        _beginnings.clear()
        found = in_threads(lambda bits: residue_system("int8", bits, 64).moduli, widths)
        assert found == expected
    assert all(math.gcd(p, q) == 1 for p, q in combinations(expected[1], 2))


@pytest.mark.parametrize("word", ["int8", "fp64"])
def test_complex_numbers_have_two_images(word):
    """Modulo every p the images of (a + ib)(c + id) are the products of images, and tell both parts."""
    found = residue_system(word, 109.2, 1024, 2)
    rng = np.random.default_rng(0)
    for p, j in zip(found.moduli, found.roots, strict=True):
        assert p % 2 == 1
        assert j * j % p == p - 1
        a, b, c, d = (int(x) for x in rng.integers(0, p, 4))
        one, other = (a + j * b) * (c + j * d), (a - j * b) * (c - j * d)
        half = pow(2, -1, p)
        assert (one + other) * half % p == (a * c - b * d) % p
        assert (one - other) * half * pow(j, -1, p) % p == (a * d + b * c) % p


def test_a_root_of_minus_one_is_found_where_there_is_one():
    for p in range(3, 2000, 2):
        exists = any(j * j % p == p - 1 for j in range(p))
        root = root_of_minus_one(p)
        assert bool(root) == exists
        assert not root or root * root % p == p - 1


def test_complex_products_take_the_fewest_products():
    """Two of them a modulus, three by Karatsuba where moduli with a root of -1 are used up."""
    for bits, images, moduli in (
        (54.6, 2, 8),
        (109.2, 2, 15),
        (151.0, 2, 22),
        (152.0, 3, 20),
        (325.0, 3, 46),
    ):
        found = residue_system("int8", bits, 1024, 2)
        assert (found.images, len(found.moduli)) == (images, moduli)
    assert residue_system("fp64", 900.0, 1024, 2).images == 2


@pytest.mark.parametrize("word", ["int8", "fp64", M11])
@pytest.mark.parametrize("parts", [1, 2])
def test_moduli_leave_a_thousandth_of_a_bit_free(word, parts):
    """So that the integer quotient of C' and P can be told from float64 (`Weights`)."""
    moduli = residue_system(word, 300.0, 1024, parts).moduli
    for count in range(1, min(len(moduli), 20)):
        full = sum(map(math.log2, moduli[:count])) - 1
        for bits, enough in ((full - 2.0**-9, True), (full - 2.0**-11, False)):
            found = residue_system(word, bits, 1024, parts)
            if found.moduli[0] == moduli[0]:  # as many images
                assert (len(found.moduli) == count) == enough


@pytest.mark.parametrize("word", [WORDS["int8"], M11], ids=str)
@pytest.mark.parametrize("parts", [1, 2])
def test_there_are_moduli_for_all_that_a_word_is_said_to_hold(word, parts):
    for k in (1, 64, 1024, 1 << 20):
        found = residue_system(word, word.moduli.capacity, k, parts)
        assert found.k_block * (max(found.moduli) // 2) ** 2 < 2**word.exact_bits
