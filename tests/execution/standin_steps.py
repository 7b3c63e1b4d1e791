"""Stand-ins for the steps of a product, for `test_captured`: kernels in Python, launched as the real ones.

The left operand says in its first element what bounds it has; the decision made of them is the real one, and
so are the statistics. A product is a @ b, plus the bits by which its integers were widened, plus the totals
of the operands' rows: so it tells which graph it came from.
"""

import ctypes
import math
from ctypes import c_int, c_void_p
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np

from multiword.runtime.kernels import KERNELS, Instance, Kernel, Struct
from multiword.runtime.readback import Readback
from multiword.runtime.tiles import StridedParts
from ozaki.certificate.counting import CERTIFIED, DECIDED
from ozaki.definition.scales import NORM_LIMITS, NormLimit
from ozaki.execution import cache, captured
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.product.steps import ScaledProduct
from ozaki.scaling.scales import norm_scales
from ozaki.scaling.statistics import NormScales, Rows, row_statistics
from tests.certificate.test_decision import TARGET, bounds

BITS, PAIRS, GRADED, UNLEVEL, NONFINITE = 100.0, 0.25, 0.5, 0.75, 1e6
"""What an operand's first element is made of: BITS for each bit that it needs, PAIRS where only a pairwise
bound says so, GRADED for an inner dimension that is equilibrated, to the same without it, UNLEVEL for one
that a few rows do not tell from that, NONFINITE for rows that are not finite."""


COSTLY = 200
"""Bits for which many more products are taken than usual."""


class Product(Struct):
    _fields_: ClassVar = [
        *((name, c_void_p) for name in ("a", "b", "totals_a", "totals_b", "out")),
        *((name, c_int) for name in ("m", "k", "n", "bits")),
    ]


class Overwritten(Struct):
    _fields_: ClassVar = [("a", c_void_p), ("out", c_void_p), ("count", c_int)]


class FirstElement(Struct):
    _fields_: ClassVar = [("a", c_void_p), ("target", ctypes.c_ulonglong)]


def at(address, shape, strides=None, dtype=np.float64):
    """The numbers at an address."""
    kind, strides = np.dtype(dtype), strides or (math.prod(shape[1:]), 1)[-len(shape) :]
    count = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    flat = np.frombuffer((ctypes.c_char * (kind.itemsize * count)).from_address(address), kind)
    return np.lib.stride_tricks.as_strided(flat, shape, [kind.itemsize * s for s in strides])


def row_sums(operand, to, scales):
    """The statistics of rows, and their norm scales."""
    kinds = zip((StridedParts, Rows, NormScales), (operand, to, scales), strict=True)
    x, to, scales = (kind.from_buffer_copy(given) for kind, given in kinds)
    statistics = row_statistics([at(x.part0, (x.rows, x.columns), (x.row_stride, x.column_stride))])
    at(to.exponent, (x.rows,), dtype=np.int32)[:] = statistics.exponent
    at(to.total, (x.rows,), dtype=np.int64)[:] = statistics.total
    at(to.square, (x.rows,), dtype=np.int64)[:] = statistics.square
    at(to.counts, statistics.counts.shape, dtype=np.int32)[:] = statistics.counts
    limit = NormLimit(scales.significand, scales.limit_bits, ())
    at(scales.scale, (x.rows,), dtype=np.int32)[:] = norm_scales(statistics, limit)


def multiply(given):
    x = Product.from_buffer_copy(given)
    product = at(x.a, (x.m, x.k)) @ at(x.b, (x.k, x.n))
    of_a, of_b = at(x.totals_a, (x.m, 1), dtype=np.int64), at(x.totals_b, (x.n,), dtype=np.int64)
    at(x.out, (x.m, x.n))[...] = product + of_a + of_b + x.bits


def overwrite(given):
    x = Overwritten.from_buffer_copy(given)
    if at(x.a, (1,))[0] >= NONFINITE:
        at(x.out, (x.count,))[...] = np.nan


def read_first(given):
    x = FirstElement.from_buffer_copy(given)
    at(x.target, (1,))[...] = at(x.a, (1,))


def parts_of(first):
    """The bits that the first element of A is made of, and PAIRS, GRADED, UNLEVEL or nothing."""
    return int(first % NONFINITE // BITS), first % NONFINITE % 1


def bounds_from_counts(first):
    """Bounds by which a product needs these bits, or more than a counting bound can say."""
    bits, what = parts_of(first)
    excess = math.inf if what else 0.75 * 2.0**bits
    return bounds(excess)._replace(nonfinite=bool(first >= NONFINITE), log2_squares=(bits, bits))


def certified(first):
    """Whether these bounds are enough, without an Inf or NaN."""
    return parts_of(first) == (0, 0) and first < NONFINITE


FUNCTIONS = {"row_sums": row_sums, "product": multiply, "overwrite": overwrite, "first_element": read_first}
"""The kernels' Python forms, by name; `row_sums` is a kernel of the library."""

LAUNCHED = {name: Kernel(name, Path(__file__)) for name in FUNCTIONS if name != "row_sums"}
for name in LAUNCHED:  # which are no kernels to compile
    del KERNELS[name]


LIMIT = NORM_LIMITS["fp64"][4]
"""The norm limit of the operands' short rows."""


class Steps:
    """The steps of a product, and the kernels that they launch; `bytes` is what a number of one takes."""

    Residues = SimpleNamespace
    SPARE_BITS = 5

    def __init__(self, gpu):
        self.gpu, self.scheme, self.bytes, self.raising, self.decides = gpu, "residues", 0, [], False

    def install(self, monkeypatch) -> None:
        """Take the place of the steps, and of compiled kernels."""
        for owner, name, stand_in in (
            (Instance, "compiled", lambda instance: self.launcher(instance.kernel)),
            (captured, "steps", self),
        ):
            monkeypatch.setattr(owner, name, stand_in)
        cache.forget()

    def launcher(self, kernel):
        def launch(grid, block, values, shared_mem=0):
            self.gpu.launch(FUNCTIONS[kernel.name], [x.tobytes() for x in values])

        return launch

    def may_be_decided(self, pair):
        return self.decides

    def decided_scales(self, pair):
        """What takes a few bits more, and no more evidence, the GPU decides."""
        scales, bounds = self.both_norm_scales(pair), self.bounds(pair, None)

        def settled():
            first, state = bounds.first(), bounds.settled()
            few = first < NONFINITE and parts_of(first)[1] == 0 and parts_of(first)[0] <= self.SPARE_BITS
            return DECIDED if state is None and few else state

        return scales, SimpleNamespace(wait=bounds.wait, settled=settled)

    def scales_at_once(self, pair, wider=None):
        return None

    def both_norm_scales(self, pair, bits=0):
        return pair.a.norm_scales(LIMIT), pair.b.norm_scales(LIMIT)

    def norm_scheme(self, pair, bits=0):
        return self.choose_scheme((pair.shape, bits), pair.request)

    def choose_scheme(self, specification, request):
        """A specification is a shape and the bits by which integers are wider."""
        shape, bits = specification
        return SimpleNamespace(
            name=self.scheme,
            specification=SimpleNamespace(shape=shape),
            roomy_specification=specification,
            bits=bits,
            k_block=shape[1],
            tile=(1, 1, 1),
            operand_bytes=lambda: 0,
            product_bytes=lambda: self.bytes,
        )

    def split_once(self, pair, scaled, bounds=None):
        """Nothing: a product reads its factors where they are."""

    def in_limbs(self, specification, request):
        """None: products in limbs fit any memory."""

    def is_in_half_its_panels(self, pair, scheme):
        """Symmetric products are launched in panels: captured products have none."""
        return pair.symmetric

    def execute(self, pair, scaled, out):
        """Above and below, for pointers into the middle of the arrays."""
        if self.raising and (error := self.raising.pop(0)):
            raise error
        a, b = pair.a, pair.b
        half = a.rows // 2
        for rows in (slice(0, half), slice(half, None)):
            if len(left := a.matrix[rows]):
                totals = {"totals_a": a.statistics.total[rows], "totals_b": b.statistics.total}
                arrays = {"a": left, "b": b.matrix, "out": out[rows], **totals}
                given = Product(**arrays, m=len(left), k=a.k, n=b.rows, bits=scaled.scheme.bits)
                LAUNCHED["product"]((1,), (1,), (given,))

    def overwrite_nonfinite(self, a, b, scales, out, stack=1):
        given = Overwritten(a=a[0], out=out, count=out.size)
        LAUNCHED["overwrite"]((1,), (1,), (given,))

    def first_element(self, a):
        """The first element of A, once it is on the host."""
        readback = Readback(1)
        LAUNCHED["first_element"]((1,), (1,), (FirstElement(a=a.matrix, target=int(readback.address)),))
        readback.send()
        return lambda: readback.wait()[0]

    def bounds(self, pair, scales, stack=1):
        first = self.first_element(pair.a)
        return SimpleNamespace(
            wait=lambda: bounds_from_counts(first()),
            settled=lambda: CERTIFIED if certified(first()) else None,
            first=first,
        )

    def pairwise(self, pair, pending):
        first = self.first_element(pair.a)
        return lambda: (2.0**-50, 0.75 * 2.0 ** parts_of(first())[0] * TARGET.unit_roundoff)

    def is_level(self, pair, scales):
        first = self.first_element(pair.a)
        return lambda: first() % 1 not in (GRADED, UNLEVEL)

    def inner_exponents(self, pair, scales):
        return self.first_element(pair.a)

    def equilibrated(self, pair, scales, exponents):
        """The factors without GRADED, where the first element has that."""
        if exponents() % 1 != GRADED:
            return None
        matrix = self.gpu.asarray(pair.a.matrix)
        matrix[0, 0] -= GRADED
        other = self.gpu.asarray(pair.b.matrix)
        factors = Factor(matrix, 0, equilibrated=True), Factor(other, 1, equilibrated=True)
        return [0], Pair(*factors, pair.request)

    # Integers that lose nothing: their bits say which moduli they take.

    def wide_scales(self, pair, bits):
        return self.both_norm_scales(pair)

    def bounded(self, pair, scales, bounds):
        return ScaledProduct(scales, self.norm_scheme(pair, bounds.log2_squares[0]))

    def is_costly(self, scheme, usual):
        return scheme.bits >= COSTLY
