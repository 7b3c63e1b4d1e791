"""Random calls of sums and conversions for both kinds of arrays; all families together."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

import multiword
import ozaki
from ozaki.public import PUBLIC
from tests.fuzz.arrays import COMPLEX, INTEGERS, REAL
from tests.fuzz.device_functions import OF_NUMBERS_AND_ROWS
from tests.fuzz.device_products import PRODUCTS, Call, writable
from tests.fuzz.draw import Draw
from tests.fuzz.exact_sums import FLOATS, chosen_axis, common_dtype, form, targets
from tests.fuzz.exact_words import STORED
from tests.fuzz.shared import SHARED
from tests.fuzz.solvers import SOLVERS
from tests.oracle import part_dtype
from tests.reductions import ONE_ARRAY, REAL_RESULTS


def _shape(draw: Draw) -> tuple[int, ...]:
    """Of 0 to 4 dimensions; one in four has an empty axis."""
    ndim = int(draw.rng.choice([0, 1, 1, 2, 2, 3, 3, 4]))
    most = {0: 1, 1: 3000, 2: 80, 3: 16, 4: 7}[ndim]
    shape = [int(draw.rng.choice([1, 2, 3, int(draw.rng.integers(1, most + 1)), most])) for _ in range(ndim)]
    if ndim and draw.chance(0.25):
        shape[int(draw.rng.integers(ndim))] = 0
    return tuple(shape)


def reduction(name: str) -> Callable[[Draw], Call]:
    """A reduction over any axes, into any dtype, with or without out."""

    def family(draw: Draw) -> Call:
        specs = {"x": draw.spec("x", _shape(draw), (*FLOATS, *FLOATS, *INTEGERS))}
        shape, source = specs["x"].shape, specs["x"].dtype
        axis, axes = chosen_axis(draw, len(shape))
        keepdims, dtype = draw.pick("keepdims", False, True), targets(draw, source)
        real, options = name in REAL_RESULTS, {}
        if real and dtype is not None:
            dtype = part_dtype(dtype)
        if draw.chance(0.2):
            result = dtype or (np.dtype(np.float64) if source.kind in "iub" else source)
            result = part_dtype(result) if real and draw.chance(0.8) else result
            specs["out"] = writable(draw, form(shape, axes, keepdims), result)
        if "ddof" in PUBLIC[name].parameters:
            options["ddof"] = draw.pick("ddof", 0, 0, 1, 2, 0.5)
        options |= {"axis": axis, "dtype": dtype, "keepdims": keepdims}

        def function(_: ModuleType, x: dict) -> list:
            return [getattr(ozaki, name)(x["x"], out=x.get("out"), **options)]

        return Call(specs, function)

    return family


def dot(draw: Draw) -> Call:
    """dot along an axis, of arrays that broadcast; vdot."""
    shape = _shape(draw)
    specs = {"x": draw.spec("x", shape, (*FLOATS, *FLOATS, *INTEGERS))}
    other = tuple(1 if draw.chance(0.15) else n for n in shape)
    specs["y"] = draw.spec("y", other, (*FLOATS, *FLOATS, *INTEGERS))
    name = draw.pick("call", "dot", "dot", "vdot")
    options: dict = {}
    if name == "dot" and shape:
        options = {
            "axis": draw.size("axis", -len(shape), len(shape) - 1),
            "keepdims": draw.pick("keepdims", False, True),
        }
    both = common_dtype(*(np.zeros(0, spec.dtype) for spec in specs.values()))
    if both is not None and (dtype := targets(draw, both)) is not None:
        options["dtype"] = dtype

    def function(_: ModuleType, x: dict) -> list:
        return [getattr(ozaki, name)(x["x"], x["y"], **options)]

    return Call(specs, function)


def cumsum(draw: Draw) -> Call:
    """Running sums along an axis or of the flattened array."""
    shape = _shape(draw)
    specs = {"x": draw.spec("x", shape, (*FLOATS, *FLOATS, *INTEGERS))}
    axis = None if not shape or draw.chance(0.3) else draw.size("axis", -len(shape), len(shape) - 1)
    dtype = targets(draw, specs["x"].dtype)

    def function(_: ModuleType, x: dict) -> list:
        return [ozaki.cumsum(x["x"], axis=axis, dtype=dtype)]

    return Call(specs, function)


def exactsum(draw: Draw) -> Call:
    """ExactSum: the state's bytes, and what it rounds to."""
    dtype = draw.pick("dtype", *FLOATS)
    shape = tuple(draw.size("length", 1, 6) for _ in range(int(draw.rng.integers(0, 3))))
    lead = (draw.size("lead", 0, 400),)
    given = (
        (dtype,)
        if draw.chance(0.7) or dtype.kind == "c"
        else (np.dtype(np.float16), np.dtype(np.int8), dtype)
    )
    given = tuple(t for t in given if np.can_cast(t, dtype, "safe"))
    specs = {name: draw.spec(name, (*lead, *shape), given) for name in ("x", "y", "z")}
    target = draw.pick("round", None, *(COMPLEX if dtype.kind == "c" else REAL))

    def function(_: ModuleType, x: dict) -> list:
        one, other = ozaki.ExactSum(dtype, shape), ozaki.ExactSum(dtype, shape)
        one.add(x["x"]).merge(other.add_products(x["y"], x["z"]))
        return [one.to_bytes(), one.round(target)]

    return Call(specs, function)


def fingerprint(draw: Draw) -> Call:
    """Fingerprints of any array."""
    specs = {"x": draw.spec("x", _shape(draw), (*FLOATS, *INTEGERS))}
    return Call(specs, lambda _, x: [ozaki.fingerprint(x["x"])])


def rounding(draw: Draw) -> Call:
    """round_to, split and join, half-complex conversions."""
    part = draw.pick("call", "round_to", "split", "complex")
    if part == "complex":
        specs = {"x": draw.spec("x", _shape(draw), (*COMPLEX, *REAL[:3]))}
        word = draw.pick("word", "fp16", "bf16")

        def function(_: ModuleType, x: dict) -> list:
            half = multiword.from_complex(x["x"], word)
            return [half.pairs, multiword.to_complex(half), multiword.from_planes(half.real, half.imag).pairs]

        return Call(specs, function, one_nan=False)
    mode = draw.pick("rounding", "RN", "RZ", "RNA")
    if part == "round_to":
        specs = {"x": draw.spec("x", _shape(draw), REAL[:3])}
        name = draw.pick("format", *STORED)
        return Call(specs, lambda _, x: [multiword.round_to(x["x"], name, mode)], one_nan=False)
    specs = {"x": draw.spec("x", _shape(draw), (np.dtype(np.float32),))}
    word, count, scaled = (
        draw.pick("word", "fp16", "bf16", "tf32"),
        draw.size("words", 1, 4),
        draw.pick("scaled", False, True),
    )

    def function(_: ModuleType, x: dict) -> list:
        words = multiword.split(x["x"], word, count, scaled=scaled, rounding=mode)
        return [*words, multiword.join(words, scaled=scaled)]

    return Call(specs, function, one_nan=False)


def moments(draw: Draw) -> Call:
    """moment, skew and kurtosis over any axes."""
    specs = {"x": draw.spec("x", _shape(draw), (*REAL, *REAL, *INTEGERS))}
    (axis, _), name = chosen_axis(draw, len(specs["x"].shape)), draw.pick("f", "moment", "skew", "kurtosis")
    options: dict = {"axis": axis, "keepdims": draw.pick("keepdims", False, True)}
    options["dtype"] = targets(draw, specs["x"].dtype)
    if name == "moment":
        options |= {
            "order": draw.pick("order", 2, 3, 3, 4, 4, 1, 6),
            "center": draw.pick("center", None, None, 0.5),
        }
    else:
        options["bias"] = draw.pick("bias", True, False)
    return Call(specs, lambda _, x: [getattr(ozaki, name)(x["x"], **options)])


def rolling(draw: Draw) -> Call:
    """Rolling sums, means, variances and deviations, of windows of any length."""
    shape, wide = _shape(draw) or (5,), (np.dtype(np.float64), np.dtype(np.float32))
    specs = {"x": draw.spec("x", shape, (*3 * wide, *REAL, *INTEGERS))}
    name, axis = draw.pick("of", "sum", "mean", "var", "std"), draw.size("axis", -len(shape), len(shape) - 1)
    window = draw.pick("window", 1, 2, 7, 100, 500, 10**6)
    least, center = draw.pick("min_count", None, 0, 1, window), draw.pick("center", False, True)
    options = {"dtype": targets(draw, specs["x"].dtype)}
    if name in ("var", "std"):
        options["ddof"] = draw.pick("ddof", 0, 1, 1, 1, 0.5)
    function = getattr(ozaki, f"rolling_{name}")
    return Call(specs, lambda _, x: [function(x["x"], window, axis, least, center, **options)])


def weights(draw: Draw) -> Call:
    """average, var and std with weights of the array's shape, or of its axes."""
    shape = _shape(draw)
    specs, name = {"x": draw.spec("x", shape, (*REAL, *COMPLEX))}, draw.pick("f", "average", "var", "std")
    axis, axes = chosen_axis(draw, len(shape))
    along = tuple(shape[a] for a in sorted(axes))
    of_weights = draw.pick("shape of weights", shape, along if axis is not None else shape)
    specs["w"] = draw.spec("w", of_weights, (*REAL[:3], *INTEGERS))
    kind = draw.pick("weights", "aweights", "fweights")
    ddof = draw.pick("ddof", 0, 1, 0.5)

    def function(_: ModuleType, x: dict) -> list:
        if name == "average":
            return [ozaki.average(x["x"], axis, x["w"])]
        return [getattr(ozaki, name)(x["x"], axis, ddof=ddof, **{kind: _magnitudes(x["w"])})]

    return Call(specs, function)


def group_averages(draw: Draw) -> Call:
    """group_average of vectors and rows, with a weight for each label or each number; groups may be empty."""
    n, count, lead = draw.size("n", 1, 300), draw.size("groups", 1, 9), draw.pick("lead", (), (3,))
    specs = {"x": draw.spec("x", (*lead, n), (*REAL, *COMPLEX, *INTEGERS))}
    specs["w"] = draw.spec("w", draw.pick("shape of weights", (n,), (*lead, n)), (*REAL[:3], *INTEGERS))
    labels, positive = draw.rng.integers(0, count, n), draw.pick("magnitudes", True, True, False)

    def function(xp: ModuleType, x: dict) -> list:
        w = _magnitudes(x["w"]) if positive else x["w"]
        return [ozaki.group_average(x["x"], xp.asarray(labels), count, w)]

    return Call(specs, function)


def _magnitudes(x: Any) -> Any:
    """|x|, by its sign's bit: CuPy's own takes subnormal float32 numbers for zeros."""
    if x.dtype.kind != "f":
        return abs(x)
    word = np.dtype(f"u{x.itemsize}")
    return (x.view(word) & word.type((1 << (8 * x.itemsize - 1)) - 1)).view(x.dtype)


def convolutions(draw: Draw) -> Call:
    """convolve and correlate."""
    kinds = (*FLOATS, *FLOATS, *INTEGERS)
    sizes = draw.size("n", 1, 400), draw.size("m", 1, 60)
    specs = {name: draw.spec(name, (n,), kinds) for name, n in zip("av", sizes, strict=True)}
    name, mode = draw.pick("f", "convolve", "correlate"), draw.pick("mode", "full", "same", "valid")
    return Call(specs, lambda _, x: [getattr(ozaki, name)(x["a"], x["v"], mode)])


FAMILIES: dict[str, Callable[[Draw], Call]] = {
    **PRODUCTS,
    **SHARED,
    **SOLVERS,
    **OF_NUMBERS_AND_ROWS,
    **{name: reduction(name) for name in ONE_ARRAY},
    "dot, vdot": dot,
    "cumsum": cumsum,
    "moment, skew, kurtosis": moments,
    "rolling sums": rolling,
    "average, var and std with weights": weights,
    "group_average": group_averages,
    "convolve, correlate": convolutions,
    "ExactSum": exactsum,
    "fingerprint": fingerprint,
    "round_to, split, half-complex": rounding,
}
