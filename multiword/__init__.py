"""Matrix products from low-precision words on block-FMA hardware."""

from multiword.engines import PRODUCTS, Engine, Product, get_engine
from multiword.formats import FORMATS, Format, get_format

__all__ = ["FORMATS", "PRODUCTS", "Engine", "Format", "Product", "get_engine", "get_format"]
