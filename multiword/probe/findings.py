"""The results of the probes of one word format, as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from multiword.engines.generations import Generation
from multiword.public import public_in


@public_in("multiword.probe", "Probes")
@dataclass(frozen=True)
class Findings:
    """How an engine adds the products of one word format; None for questions that do not arise.

    Attributes
    ----------
    engine, word : the probed engine and word format.
    result : the format of the accumulator and the result, "fp32" or "fp16".
    width : products added in one step.
    fraction_bits : F, the bits kept below the largest exponent of a step.
    alignment : how the terms are cut to them.
    rounding : how the exact sum is rounded to the result.
    carry_bits : bits above the largest exponent's, if a sum could overflow them.
    carry_bits_at_least : a lower bound of them.
    exponent_is_sum : a product's exponent is the sum of its factors', not that of its value.
    products_exact : products are not rounded.
    order_matters : the position of a term within a step changes the result.
    normalised_in_addition, normalised_in_subtraction : sums within a step are normalised.
    monotone : a larger term never gave a smaller sum.
    subnormal_inputs, subnormal_sums, subnormal_accumulator : subnormals are not flushed to zero.

    >>> from multiword import TensorCore
    >>> from multiword.probe import probe
    >>> findings = probe(TensorCore("H200"), "bf16")
    >>> findings.width, findings.extra_bits, findings.monotone
    (16, 2, False)
    """

    engine: str
    word: str
    result: str
    width: int
    fraction_bits: int
    alignment: str
    rounding: str
    carry_bits: int | None
    carry_bits_at_least: int
    exponent_is_sum: bool
    products_exact: bool
    order_matters: bool | None
    normalised_in_addition: bool | None
    normalised_in_subtraction: bool | None
    monotone: bool | None
    subnormal_inputs: bool
    subnormal_sums: bool | None
    subnormal_accumulator: bool | None

    @property
    def extra_bits(self) -> int:
        """Alignment bits beyond the 23 of fp32's fraction."""
        return self.fraction_bits - 23

    def generation(self, name: str | None = None) -> Generation:
        """Return the `Generation` of these findings; ValueError if the model cannot have it."""
        numbers = ({self.word: self.width}, self.fraction_bits, self.carry_bits, self.alignment)
        rounding = "RZ" if self.result == "fp16" else self.rounding
        return Generation(name or f"{self.engine} as found", *numbers, rounding)

    def as_dict(self) -> dict[str, object]:
        """Return the findings as plain values for JSON."""
        return asdict(self)
