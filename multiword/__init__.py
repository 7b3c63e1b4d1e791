"""Matrix products from low-precision words on block-FMA hardware."""

from multiword.batched import HalfComplex, batched_matmul, from_complex, from_planes, to_complex
from multiword.engines import PRODUCTS, Engine, Product, get_engine
from multiword.engines._generations import GENERATIONS, Generation, get_generation
from multiword.engines._tensorcore import TensorCore
from multiword.formats import FORMATS, Format, get_format

__all__ = [
    "FORMATS",
    "GENERATIONS",
    "PRODUCTS",
    "Engine",
    "Format",
    "Generation",
    "HalfComplex",
    "Product",
    "TensorCore",
    "batched_matmul",
    "from_complex",
    "from_planes",
    "get_engine",
    "get_format",
    "get_generation",
    "to_complex",
]
