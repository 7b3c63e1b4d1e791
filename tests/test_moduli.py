"""Sequences of moduli that threads extend at the same time."""

import math
import time
from itertools import combinations
from types import SimpleNamespace

from ozaki.residues import system
from tests.threads import in_threads

THREADS = 4


def test_every_number_is_appended_once(monkeypatch):
    looking = []

    def gcd(p, product):
        """Waits a while for all threads to look for the next number before one of them appends it."""
        looking.append(p)
        deadline = time.monotonic() + 0.05
        while len(looking) < THREADS and time.monotonic() < deadline:
            time.sleep(0.001)
        return math.gcd(p, product)

    monkeypatch.setattr(system, "math", SimpleNamespace(gcd=gcd, prod=math.prod))
    sequence = [256]
    assert in_threads(lambda _: system._extend(sequence, 1), range(THREADS)) == [True] * THREADS
    assert sequence == [256, 255]


def test_threads_find_the_same_systems():
    widths = [100, 300, 200, 300]
    expected = [system.residue_system("int8", bits, 64).moduli for bits in widths]
    for _ in range(20):
        system._coprimes.cache_clear()
        found = in_threads(lambda bits: system.residue_system("int8", bits, 64).moduli, widths)
        assert found == expected
    assert all(math.gcd(p, q) == 1 for p, q in combinations(expected[1], 2))
