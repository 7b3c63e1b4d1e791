"""Matrix products from low-precision words on block-FMA hardware."""

# ruff: noqa: F401  # what is public says so where it is defined; the imports are for editors, and for `__all__`

from importlib import import_module
from types import ModuleType

from multiword.batched import HalfComplex, batched_matmul, from_complex, from_planes, to_complex
from multiword.engines import WORDS as PRODUCTS
from multiword.engines import Engine, get_engine
from multiword.engines import Word as Product
from multiword.engines.generations import GENERATIONS, Blocking, Generation, get_generation
from multiword.engines.tensorcore import TensorCore
from multiword.formats import FORMATS, Format, get_format
from multiword.fp32.api import matmul, matmul_plan
from multiword.fp32.bounds import BoundRow, bound_table, conversion_bound, error_bound
from multiword.fp32.plan import Plan
from multiword.fp32.schemes import SCHEMES, Scheme, get_scheme
from multiword.public import public_names
from multiword.rounding import round_to
from multiword.statistics import (
    expected_length,
    leading_zeros_probability,
    significand_lengths,
    underflow_counts,
    underflow_probability,
)
from multiword.words import join, split

__all__ = public_names(__name__)


def __getattr__(name: str) -> ModuleType:
    """Import `multiword.probe` on first use."""
    if name == "probe":
        return import_module("multiword.probe")
    raise AttributeError(f"module 'multiword' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names; `multiword.probe` is one, imported or not."""
    return [*__all__, "probe"]
