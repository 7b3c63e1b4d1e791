"""Stand-ins for the steps of a product, for `test_captured`: kernels in Python, launched as the real ones.

The left operand says in its first element what the certificate will ask for. A product is a @ b, plus the
bits by which its integers were widened, plus the operands' row sums: so it tells which graph it came from.
"""

import ctypes
from collections import OrderedDict
from ctypes import c_int, c_void_p
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np

from multiword.runtime import kernels
from multiword.runtime.kernels import Kernel, Struct
from multiword.runtime.readback import Readback
from ozaki.certificate.decision import Ask, Certificate
from ozaki.execution import cache, captured
from ozaki.product.factor import Factor
from ozaki.product.steps import ScaledProduct

BITS, PAIRS, GRADED, NONFINITE = 100.0, 0.25, 0.5, 1e6
"""What an operand's first element is made of: BITS for each bit that it asks for, PAIRS for a pairwise
bound, GRADED for an inner dimension that is equilibrated, to the same without it, NONFINITE for rows that are
not finite."""


COSTLY = 200
"""Bits for which many more products are taken than usual."""


class Sums(Struct):
    _fields_: ClassVar = [("x", c_void_p), ("sums", c_void_p), ("rows", c_int), ("k", c_int), ("step", c_int)]


class Product(Struct):
    _fields_: ClassVar = [
        *((name, c_void_p) for name in ("a", "b", "sums_a", "sums_b", "out")),
        *((name, c_int) for name in ("m", "k", "n", "bits")),
    ]


class Overwritten(Struct):
    _fields_: ClassVar = [("a", c_void_p), ("out", c_void_p), ("count", c_int)]


class Asked(Struct):
    _fields_: ClassVar = [("a", c_void_p), ("answer", ctypes.c_ulonglong)]


def at(address, shape, strides=None):
    """The numbers at an address."""
    count = 1 + sum((n - 1) * s for n, s in zip(shape, strides or (shape[-1], 1), strict=True))
    flat = np.ctypeslib.as_array((ctypes.c_double * count).from_address(address))
    return np.lib.stride_tricks.as_strided(flat, shape, [8 * s for s in strides or (shape[-1], 1)])


def row_sums(given):
    x = Sums.from_buffer_copy(given)
    strides = (x.k, 1) if x.step == 1 else (1, x.step)
    at(x.sums, (1, x.rows))[0] = at(x.x, (x.rows, x.k), strides).sum(axis=1)


def multiply(given):
    x = Product.from_buffer_copy(given)
    whole = at(x.a, (x.m, x.k)) @ at(x.b, (x.k, x.n))
    extra = at(x.sums_a, (x.m, 1), (1, 1)) + at(x.sums_b, (1, x.n))
    at(x.out, (x.m, x.n))[...] = whole + extra + x.bits


def overwrite(given):
    x = Overwritten.from_buffer_copy(given)
    if at(x.a, (1, 1))[0, 0] >= NONFINITE:
        at(x.out, (1, x.count))[...] = np.nan


def ask(given):
    x = Asked.from_buffer_copy(given)
    at(x.answer, (1, 1))[...] = at(x.a, (1, 1))


def decide(target):
    """A decision that asks what the first element of A says."""
    first = (yield Ask.COUNTS).first
    what = first % NONFINITE % 1
    if what in (GRADED, PAIRS):
        assert not (yield Ask.EQUILIBRATE)
    if what == PAIRS:
        assert (yield Ask.PAIRS) == first
    return Certificate(int(first % NONFINITE // BITS), 0.0, what == PAIRS)


class Steps:
    """The steps of a product, and the kernels that they launch."""

    Residues = SimpleNamespace

    def __init__(self, gpu):
        self.gpu, self.scheme, self.panel, self.bytes, self.raising = gpu, "residues", 1 << 30, 0, []
        self.functions = {"sums": row_sums, "product": multiply, "overwrite": overwrite, "asked": ask}

    def install(self, monkeypatch) -> None:
        """Take the place of the steps."""
        monkeypatch.setattr(kernels, "KERNELS", {})
        self.kernels = {name: Kernel(name, Path(__file__)) for name in self.functions}
        monkeypatch.setattr(Kernel, "compiled", lambda kernel, **_: self.launcher(kernel))
        monkeypatch.setattr("ozaki.product.factor.row_statistics", self.statistics)
        monkeypatch.setattr("ozaki.product.factor.norm_scales", lambda statistics, limit: statistics)
        monkeypatch.setattr("ozaki.product.factor.statistics_and_scales", self.statistics_and_scales)
        monkeypatch.setattr(captured, "steps", self)
        monkeypatch.setattr(captured, "decide", decide)
        monkeypatch.setattr(cache, "_cached", OrderedDict())

    def launcher(self, kernel):
        def launch(grid, block, values, shared_mem=0):
            self.gpu.launch(self.functions[kernel.name], [x.tobytes() for x in values])

        return launch

    def statistics(self, parts):
        (x,) = parts
        sums = self.gpu.empty((1, len(x)))
        step = 1 if x.strides[1] == 8 else x.strides[1] // 8
        self.kernels["sums"]((1,), (1,), (Sums(x=x, sums=sums, rows=len(x), k=x.shape[1], step=step),))
        return sums

    def statistics_and_scales(self, parts, limit):
        return 2 * (self.statistics(parts),)

    def norm_scaled(self, a, b, request, bits=0):
        scheme = self.norm_scheme(a, b, request, bits)
        return ScaledProduct((a.statistics, b.statistics), scheme)

    def norm_scheme(self, a, b, request, bits=0):
        return self.choose_scheme(((a.rows, a.k, b.rows), bits), request)

    def choose_scheme(self, specification, request):
        """A specification is a shape and the bits by which integers are wider."""
        shape, bits = specification
        return SimpleNamespace(
            name=self.scheme,
            specification=SimpleNamespace(shape=shape),
            roomy_specification=specification,
            bits=bits,
        )

    def choose_panels(self, scheme, shape, workspace):
        return SimpleNamespace(rows=self.panel, columns=self.panel, bytes=self.bytes)

    def split_once(self, scaled, a, b, request):
        if self.raising:
            raise self.raising.pop(0)

    def execute(self, scaled, a, b, request, out):
        """Above and below, for pointers into the middle of the arrays."""
        half = a.rows // 2
        for rows in (slice(0, half), slice(half, None)):
            if len(left := a.matrix[rows]):
                sums = a.statistics[:, rows]
                arrays = {"a": left, "b": b.matrix, "sums_a": sums, "sums_b": b.statistics, "out": out[rows]}
                given = Product(**arrays, m=len(left), k=a.k, n=b.rows, bits=scaled.scheme.bits)
                self.kernels["product"]((1,), (1,), (given,))

    def overwrite_nonfinite(self, a, b, scales, out, stack=1):
        given = Overwritten(a=a[0], out=out, count=out.size)
        self.kernels["overwrite"]((1,), (1,), (given,))

    def asked(self, a):
        """What the first element of A asks for, once it is there."""
        answer = Readback(1)
        self.kernels["asked"]((1,), (1,), (Asked(a=a.matrix, answer=int(answer.address)),))
        answer.send()
        return lambda: answer.wait()[0]

    def bounds(self, a, b, request, scales, stack=1):
        first = self.asked(a)

        def wait():
            return SimpleNamespace(first=first(), nonfinite=first() >= NONFINITE)

        return SimpleNamespace(wait=wait)

    def pairwise(self, a, b, request, pending):
        return self.asked(a)

    def inner_exponents(self, a, b, scales):
        return self.asked(a)

    def equilibrated(self, a, b, request, scales, exponents):
        """The factors without GRADED, where that is what the first element asks for."""
        if exponents() % 1 != GRADED:
            return None
        matrix = self.gpu.asarray(a.matrix)
        matrix[0, 0] -= GRADED
        other = self.gpu.asarray(b.matrix)
        return [0], Factor(matrix, 0, equilibrated=True), Factor(other, 1, equilibrated=True)

    # Integers that lose nothing: their bits say which moduli they take.

    def wide_scales(self, a, b, request, bits):
        return a.statistics, b.statistics

    def bounded(self, a, b, request, scales, found):
        return ScaledProduct(scales, self.norm_scheme(a, b, request, int(found.first % NONFINITE // BITS)))

    def is_costly(self, scheme, usual):
        return scheme.bits >= COSTLY
