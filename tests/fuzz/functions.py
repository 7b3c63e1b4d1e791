"""Elementary functions of numbers of every size, in every dtype, against their values by integers."""

import numpy as np

import ozaki
from multiword.runtime.compiled import numpy_forms
from ozaki.elementary.evaluate import by_integers
from ozaki.elementary.record import FUNCTIONS, PARTS
from ozaki.public import PUBLIC
from tests.fuzz.draw import Draw, check, check_same
from tests.rowwise.definitions import DEFINITIONS, POSITIVE

_NAMES = tuple(name for name, f in FUNCTIONS.items() if f.arguments == 1 and name in PUBLIC)
_SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0)


def elementary(draw: Draw) -> None:
    """A few numbers, near one another or of any exponent, and what IEEE 754 treats apart."""
    name, dtype = draw.pick("function", *_NAMES), np.dtype(draw.pick("dtype", "float32", "float64"))
    rng, n = np.random.default_rng(draw.size("seed", 0, 2**31)), draw.size("length", 1, 40)
    with np.errstate(all="ignore"):
        far = draw.pick("spread", 1, 8, 60, 1074)
        x = np.ldexp(rng.standard_normal(n), rng.integers(-far, far // 2 + 1, n)).astype(dtype)
        x[:: max(1, n // 3)] = rng.choice(_SPECIAL)
    result, function = getattr(ozaki, name)(x), FUNCTIONS[name]
    inside = (x >= function.low) & (x <= function.high)
    for condition, _ in function.special:
        inside &= ~np.array([bool(condition(float(v))) for v in x])
    check_same(f"{name}: integers", result[inside], by_integers(name, dtype, [x[inside]]))
    check(f"{name}: NaN", bool(np.isnan(result[np.isnan(x)]).all()), f"{x!r}")
    with numpy_forms():
        check_same(f"{name}: NumPy's form", getattr(ozaki, name)(x), result)


def rows(draw: Draw) -> None:
    """Rows of a few numbers, against the formula in fractions, and in another order."""
    name = draw.pick("function", *DEFINITIONS)
    rng, n = np.random.default_rng(draw.size("seed", 0, 2**31)), draw.size("length", 1, 40)
    x = np.ldexp(rng.standard_normal((2, n)), rng.integers(-draw.pick("spread", 1, 8, 60), 8, (2, n)))
    x = np.abs(x) if name in POSITIVE else x
    reduced, function = "keepdims" in PUBLIC[name].parameters, getattr(ozaki, name)
    result = function(x, axis=1, **({"keepdims": True} if reduced else {}))
    check_same(name, result, np.array([DEFINITIONS[name](row.tolist()) for row in x]))
    order = rng.permutation(n)
    again = function(x[:, order], axis=1)
    check_same(f"{name}: another order", again, result[:, 0] if reduced else result[:, order])


def complex_numbers(draw: Draw) -> None:
    """A few complex numbers, of any exponent or about the unit circle, part by part."""
    name, dtype = draw.pick("function", *PARTS), np.dtype(draw.pick("dtype", "complex64", "complex128"))
    rng, n = np.random.default_rng(draw.size("seed", 0, 2**31)), draw.size("length", 1, 20)
    far, turn = draw.pick("spread", 0, 1, 60, 1000), rng.uniform(-4, 4, n)
    parts = np.ldexp([np.cos(turn), np.sin(turn)], rng.integers(-far, far // 4 + 1, (2, n)))
    with np.errstate(all="ignore"):
        z = (parts[0] + 1j * parts[1]).astype(dtype)
    result = getattr(ozaki, name)(z)
    found = [result] if len(PARTS[name]) == 1 else [result.real, result.imag]
    for part, values in zip(PARTS[name], found, strict=True):
        x = [z.imag, z.real] if part == "atan2" else [z.real, z.imag]
        inside = np.isfinite(z)
        for condition, _ in FUNCTIONS[part].special:
            inside &= ~np.array([bool(condition(*map(float, v))) for v in zip(*x, strict=True)])
        expected = by_integers(part, values.dtype, [v[inside] for v in x])
        check_same(f"{name}: {part} by integers", np.ascontiguousarray(values)[inside], expected)
    with numpy_forms():
        check_same(f"{name}: NumPy's form", getattr(ozaki, name)(z), result)


CHECKS = {
    "elementary functions": elementary,
    "functions of complex numbers": complex_numbers,
    "functions of rows": rows,
}
