"""Engines: where one low-precision matrix product is computed."""

from multiword.engines.contract import PRODUCTS, Engine, Product, get_product
from multiword.engines.select import get_engine

__all__ = ["PRODUCTS", "Engine", "Product", "get_engine", "get_product"]
