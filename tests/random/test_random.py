"""Random numbers: the paper's words, their places, what is made of them, the same for every sharding."""

from concurrent.futures import ThreadPoolExecutor

import mpmath
import numpy as np
import pytest

from multiword.runtime.compiled import numpy_forms
from ozaki.random import Generator, default_rng
from ozaki.random.philox import rounds, words

ALL = (1 << 64) - 1

METHODS = {
    "random": lambda g, n, **o: g.random(n, **o),
    "random float32": lambda g, n, **o: g.random(n, np.float32, **o),
    "uniform": lambda g, n, **o: g.uniform(-1e3, 0.7, n, **o),
    "uniform float32": lambda g, n, **o: g.uniform(0.1, 0.7, n, np.float32, **o),
    "standard_normal": lambda g, n, **o: g.standard_normal(n, **o),
    "standard_normal float32": lambda g, n, **o: g.standard_normal(n, np.float32, **o),
    "normal": lambda g, n, **o: g.normal(3.0, 0.1, n, **o),
    "integers": lambda g, n, **o: g.integers(-7, 10**15, n, **o),
    "bernoulli": lambda g, n, **o: g.bernoulli(0.3, n, **o),
}


@pytest.mark.parametrize(
    ("seed", "call", "counter", "expected"),
    [
        (0, 0, 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (ALL, ALL, ALL, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            0x299F31D0A4093822,
            0x0370734413198A2E,
            0x85A308D3243F6A88,
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
    ids=["zeros", "ones", "pi"],
)
def test_known_answers(seed, call, counter, expected):
    """Those that the authors publish."""
    found = rounds(*map(np.uint64, (seed, call, counter)))
    assert " ".join(f"{x:08x}" for x in found) == expected


@pytest.mark.parametrize("first", [0, 1, 2, 3, 4, 4 * (1 << 32) - 9, (1 << 64) - 70_000])
def test_words_of_any_place(first):
    expected = words(3, 2**40 + 1, first - first % 4, 70_000 - first % 4)[first % 4 :]
    assert words(3, 2**40 + 1, first, 5).tolist() == expected[:5].tolist()
    counters = np.uint64(first // 4) + np.arange(len(expected) // 4, dtype=np.uint64)
    defined = np.stack(rounds(np.uint64(3), np.uint64(2**40 + 1), counters), axis=1).reshape(-1)[first % 4 :]
    assert (defined[: len(expected)] == expected[: len(defined)]).all()
    with numpy_forms():
        assert (words(3, 2**40 + 1, first, len(expected)) == expected).all()


@pytest.mark.parametrize("name", METHODS)
def test_parts_of_a_result(name):
    """For every sharding; with any number of threads, calls in any order."""
    draw, n = METHODS[name], 100_001
    whole = draw(Generator(5), n)
    for first, count in ((0, 1), (1, 1), (2, 3), (99_999, 2), (33_333, 40_000)):
        assert draw(Generator(5), count, first=first).tobytes() == whole[first : first + count].tobytes()
    other = Generator(5)
    draw(other, 3)
    assert draw(other, n).tobytes() != whole.tobytes()
    other.call = 0
    assert draw(other, (11, 9091)).tobytes() == whole.tobytes()
    assert draw(Generator(6), n).tobytes() != whole.tobytes()
    assert draw(Generator(5), None) == whole[0]
    assert draw(Generator(5), (3, 0)).shape == (3, 0)


def test_threads_have_calls_of_their_own():
    rng = Generator(1)
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(lambda _: float(rng.random()), range(200)))
    assert len(set(drawn)) == 200
    assert rng.call == 200


def test_numbers_are_made_as_documented():
    """Against integers, and mpmath: every rounding that a docstring names, and no other."""
    n = 400
    w = [int(x) for x in words(9, 0, 0, 4 * n)]
    wide = [w[2 * i] | w[2 * i + 1] << 32 for i in range(2 * n)]
    assert Generator(9).random(n).tolist() == [(x >> 11) / 2**53 for x in wide[:n]]
    assert Generator(9).random(n, np.float32).tolist() == [(x >> 8) / 2**24 for x in w[:n]]
    for low, high in ((0, 1), (-5, 12), (-(1 << 63), 1 << 63), (3, 3 + 2**33 + 1), (-1, (1 << 63) - 1)):
        expected = [low + ((high - low) * x >> 64) for x in wide[:n]]
        assert Generator(9).integers(low, high, n).tolist() == expected
    assert Generator(9).bernoulli(0.25, n).tolist() == [x < 1 << 62 for x in wide[:n]]
    u = Generator(9).random(n)
    assert Generator(9).uniform(0.1, 0.7, n).tolist() == [x * (0.7 - 0.1) + 0.1 for x in u.tolist()]
    with mpmath.workprec(200):
        for i, z in enumerate(Generator(9).standard_normal(100).tolist()):
            k, m = (x >> 11 for x in wide[i // 2 * 2 :][:2])
            radius = float(mpmath.sqrt(-2 * float(mpmath.log(mpmath.mpf(k + 1) / 2**53))))
            angle = mpmath.mpf(m) / 2**52
            assert z == radius * float((mpmath.sinpi if i % 2 else mpmath.cospi)(angle))


def test_permutations_sort_words():
    wide = words(4, 0, 0, 2000).view(np.uint64).tolist()
    assert Generator(4).permutation(1000).tolist() == sorted(range(1000), key=wide.__getitem__)
    assert Generator(4).permutation(0).tolist() == []


def test_distributions():
    """Moments and frequencies within five standard errors, of fixed seeds."""
    n = 10**6
    for seed in range(3):
        rng = Generator(seed)
        z, u = rng.standard_normal(n), rng.random(n)
        for value, expected, deviation in (
            (z.mean(), 0, 1),
            (z.var(), 1, 2**0.5),
            ((z**3).mean(), 0, 15**0.5),
            ((z**4).mean(), 3, 96**0.5),
            ((z[:-1] * z[1:]).mean(), 0, 1),
            (u.mean(), 0.5, 12**-0.5),
            ((u[:-1] * u[1:]).mean(), 0.25, (7 / 144) ** 0.5),
            (rng.bernoulli(0.1, n).mean(), 0.1, 0.3),
        ):
            assert abs(value - expected) < 5 * deviation / n**0.5
        counts = np.bincount(rng.integers(7, size=n), minlength=7)
        assert (abs(counts - n / 7) < 5 * (n * 6 / 49) ** 0.5).all()


def test_refused():
    rng = Generator(0)
    for bad in (-1, 1 << 64):
        with pytest.raises(ValueError, match="seed"):
            Generator(bad)
    for call, message in (
        (lambda: rng.random(-1), "size"),
        (lambda: rng.random(3, first=-1), "first"),
        (lambda: rng.random(3, first=1 << 63), "2\\*\\*64 words"),
        (lambda: rng.integers(3, 3), "integers"),
        (lambda: rng.integers(1 << 64), "integers"),
        (lambda: rng.bernoulli(1.5), "p must"),
        (lambda: rng.bernoulli(float("nan")), "p must"),
        (lambda: rng.normal(0.0, -1.0), "scale"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    for call in (lambda: Generator(1.5), lambda: rng.random(2.5), lambda: rng.random(2, np.float16)):
        with pytest.raises(TypeError):
            call()
    first, second = default_rng(), default_rng()
    assert first.seed != second.seed
