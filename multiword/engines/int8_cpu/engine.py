"""The engine of int8 words on CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from multiword import tuning
from multiword.engines.host import Host
from multiword.engines.int8_cpu.kernels import INNER, KERNELS, LONGEST, Kernel, available_kernels
from multiword.engines.words import WORDS, Word
from multiword.formats import Format
from multiword.runtime.compiled import compiled

PRODUCT, AT_ONCE = "multiword.engines.int8_cpu.product", "multiword.engines.int8_cpu.at_once"
"""What is compiled, and not imported before a product needs it."""

_INT8 = WORDS["int8"]


def terms(kernel: Kernel | None, shape: tuple[int, int, int]) -> tuple[float, ...]:
    """Return what a product (m, k, n) takes time for: 1 call, the numbers of its operands, of its result, and
    its multiplications; those of int8 words with the padding to tiles, of fp64 words (None) without.
    """
    m, k, n = shape
    if kernel is not None:
        m, k, n = (-(-x // y) * y for x, y in zip(shape, kernel.tile, strict=True))
    return 1, (m + n) * k, shape[0] * shape[2], m * k * n


def seconds(kernel: Kernel | None, shape: tuple[int, int, int], bits: int) -> float:
    """Return about how long a real product with results of so many bits takes on one core."""
    rates = tuning.CPU_RATES if bits > 24 else tuning.CPU_RATES_SINGLE
    of_kernel = rates.get("fp64" if kernel is None else kernel.name, rates["avxvnni"])
    return sum(rate * term for rate, term in zip(of_kernel, terms(kernel, shape), strict=True))


class Int8Cpu(Host):
    """Products of residues through the byte products of a CPU: AMX, AVX-512 VNNI, AVX-VNNI, i8mm or dotprod.

    Integers are split into the residues of the moduli that a GPU takes, multiplied and rounded by code that
    LLVM compiles for this processor through numba. All else is as on the engine "host".

    Parameters
    ----------
    kernel : a name in `KERNELS`; by default the fastest that the processor has and the system permits.
    automatic : whether products that are faster on fp64 words are left to these.

    Raises
    ------
    ValueError : the processor lacks that kernel, or has none.

    >>> import ozaki, numpy as np
    >>> from multiword import get_engine
    >>> a = np.random.default_rng(0).standard_normal((200, 200))
    >>> bool((ozaki.matmul(a, a, engine="host") == ozaki.matmul(a, a)).all())
    True
    """

    mirrors: ClassVar[bool] = True
    longest_at_once = LONGEST
    default_words: ClassVar[Mapping[str, str]] = {"residues": "int8"}
    words: ClassVar[Mapping[str, Word]] = WORDS | {
        "int8": replace(_INT8, moduli=replace(_INT8.residue_moduli, k_block=LONGEST))
    }

    def __init__(self, kernel: str | None = None, automatic: bool = False) -> None:
        self._automatic = automatic
        self.name = "host" if automatic else "int8_cpu"
        self._forced = KERNELS[kernel] if kernel is not None else None
        if not automatic and self.kernel not in available_kernels():
            known = ", ".join(x.name for x in available_kernels()) or "none"
            raise ValueError(
                f"this processor has no byte products of kernel {kernel or 'any'}: it has {known}"
            )

    @property
    def kernel(self) -> Kernel | None:
        """The kernel; None where there is none."""
        return self._forced or next(iter(available_kernels()), None)

    @property
    def tile(self) -> tuple[int, int, int]:  # type: ignore[override]
        """As `CheckedEngine.tile`: those of the kernel."""
        return (1, 1, 1) if self.kernel is None else self.kernel.tile

    def reduces(self, word: str, shape: tuple[int, int, int]) -> bool:
        """Whether products of residues are computed here."""
        del shape
        return word == "int8" and self.kernel is not None and compiled(PRODUCT) is not None

    def prefers(self, shape: tuple[int, int, int], parts: int, bits: int) -> bool:
        """Whether products (m, k, n) are faster so than on fp64 words, or this engine was asked for."""
        if not self._automatic:
            return True
        m, k, n = shape
        as_real = m, parts * k, parts * n
        return seconds(self.kernel, as_real, bits) < seconds(None, as_real, bits)

    def _compute(self, kind: Word, a: np.ndarray, bt: np.ndarray, out: np.ndarray, *factors: float) -> None:
        m, k, n = shape = *a.shape[-2:], bt.shape[-2]
        if kind.name == "int8" and factors == (1, 0) and 0 < k <= LONGEST and self.multiplies_int8(shape):
            stacks = a.reshape(-1, m, k), bt.reshape(-1, n, k)
            out[...] = compiled(PRODUCT).multiply_int8(self.kernel, *stacks).reshape(out.shape)
        else:
            super()._compute(kind, a, bt, out, *factors)

    def multiplies_int8(self, shape: tuple[int, int, int]) -> bool:
        """Whether int8 products are computed by the kernel, not converted to float64 for the BLAS."""
        return self.reduces("int8", shape) and self.prefers(shape, 1, 53)

    def split_residues(
        self,
        parts: list[np.ndarray],
        scale: np.ndarray,
        system: Any,
        padding: int,
        weighted: bool,
        width: int,
    ) -> Any:
        """As `ozaki.residues.split.residues`, in the kernel's memory order; of a stack, (s, r, k) parts."""
        stacks, side = [x if x.ndim == 3 else x[None] for x in parts], 0 if weighted else 1
        return compiled(PRODUCT).split(self.kernel, system, stacks, scale, side, width)

    def multiply_words(self, a: Any, b: Any, system: Any, earlier: Any, cut: bool) -> Any:
        """The product of split words, added to that of earlier blocks of the inner dimension, if any.

        It keeps the words until it is rounded, unless these are one block of several.
        """
        if earlier is not None:
            return earlier.add(a, b)
        product = compiled(PRODUCT).Product(a, b, system)
        return product.multiplied() if cut else product

    def reconstruct_residues(
        self,
        y: Any,
        system: Any,
        scales: tuple[np.ndarray, np.ndarray],
        target: Format,
        out: np.ndarray,
        symmetric: bool = False,
    ) -> None:
        """As `ozaki.residues.reconstruct.reconstruct`; of a symmetric product, half of it is computed."""
        del system
        y.round(scales, target, out, symmetric)

    def seconds_at_once(self, shape: tuple[int, int, int], parts: int, single: bool) -> float:
        """About how long one thread takes for a product of 1 or 2 parts by `compiled_steps`."""
        m, k, n = shape
        call, _, results, products = terms(self.kernel, (m, k, parts * n))
        sizes = parts * (m + n) * -(-k // INNER), results, products
        of_call, *rates = tuning.INT8_CPU_AT_ONCE
        share = tuning.INT8_CPU_AT_ONCE_SINGLE if single else 1.0
        return call * of_call + share * sum(x * y for x, y in zip(rates, sizes, strict=True))

    def compiled_steps(self, system: Any, *of: Any) -> Any:
        """As `at_once.compiled_steps`, of this kernel."""
        return compiled(AT_ONCE).compiled_steps(self.kernel, system, *of)
