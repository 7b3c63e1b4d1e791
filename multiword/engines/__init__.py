"""Engines: where one low-precision matrix product is computed."""

from multiword.engines._contract import PRODUCTS, Engine, Product, get_product
from multiword.engines._select import get_engine

__all__ = ["PRODUCTS", "Engine", "Product", "get_engine", "get_product"]
