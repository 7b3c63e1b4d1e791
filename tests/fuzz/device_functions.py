"""Random calls of elementary functions and of functions of rows for both kinds of arrays."""

from types import ModuleType

import numpy as np

import ozaki
from ozaki.elementary.api import float_of
from ozaki.elementary.record import FUNCTIONS, PARTS
from ozaki.public import PUBLIC
from tests.fuzz.arrays import COMPLEX, REAL
from tests.fuzz.device_products import Call, writable
from tests.fuzz.draw import Draw
from tests.fuzz.exact_sums import chosen_axis
from tests.rowwise.definitions import DEFINITIONS

_NAMES = tuple(sorted(PUBLIC.keys() & (FUNCTIONS.keys() | PARTS.keys())))
_SHAPES = ((), (0,), (1,), (3, 0, 2), (40,), (300,), (7, 30), (3, 5, 8), (5000,))


def elementary(draw: Draw) -> Call:
    """A function of one argument or of two that broadcast, with or without out and where."""
    name, shape = draw.pick("call", *_NAMES), draw.pick("shape", *_SHAPES)
    specs = {"x": draw.spec("x", shape, (*REAL, *(COMPLEX if name in PARTS else ())))}
    dtype, mask = specs["x"].dtype, None
    if name in FUNCTIONS and FUNCTIONS[name].arguments == 2:
        other = tuple(1 if draw.chance(0.2) else n for n in shape)
        specs["y"] = draw.spec("y", other, (dtype,))
    if dtype.kind == "f" and draw.chance(0.3):
        specs["out"] = writable(draw, shape, np.dtype(float_of(dtype)))
        mask = draw.rng.random(shape) < 0.7 if draw.chance(0.5) else None

    def function(xp: ModuleType, x: dict) -> list:
        arguments, options = [x[key] for key in ("x", "y") if key in x], {"out": x.get("out")}
        if mask is not None:
            options["where"] = xp.asarray(mask)
        return [getattr(ozaki, name)(*arguments, **options)]

    return Call(specs, function)


def rows(draw: Draw) -> Call:
    """A function of rows over any axes, with weights and biases; one in four of many or long rows."""
    name = draw.pick("call", *sorted(DEFINITIONS))
    shape = draw.pick("shape", *(s for s in _SHAPES if s))
    if draw.chance(0.25):
        shape = draw.pick("shape", (400, 40), (30, 513), (300, 4097), (20_000,), (3, 17_001), (40_000, 2))
    specs = {"x": draw.spec("x", shape, REAL)}
    axis, axes = chosen_axis(draw, len(shape))
    parameters, options = PUBLIC[name].parameters, {"axis": axis}
    if "keepdims" in parameters:
        options["keepdims"] = draw.pick("keepdims", False, True)
    for key in ("weight", "bias"):
        if key in parameters and draw.chance(0.5):
            specs[key] = draw.spec(key, tuple(shape[a] for a in sorted(axes)), (specs["x"].dtype,))

    def function(_: ModuleType, x: dict) -> list:
        return [getattr(ozaki, name)(**x, **options)]

    return Call(specs, function)


OF_NUMBERS_AND_ROWS = {"elementary functions": elementary, "functions of rows": rows}
