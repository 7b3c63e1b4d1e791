"""Engines: where one low-precision matrix product is computed.

`contract` says what every engine does and checks; `host` and `cublas` are real machines,
`tensorcore` is the model of one (Fasi, Higham, Mikaitis and Pranesh, 2021): `generations` has its
parameters, `blockfma` its step, `fma` the IEEE arithmetic of its fp32 and fp64 units. `select` finds
an engine by name, `machine` knows how fast measured devices are, and `fused` has products of residues that
are reduced before they are written.
"""

from multiword.engines.contract import PRODUCTS, Engine, Product, ResidueEngine, get_product, reduces_residues
from multiword.engines.select import get_engine

__all__ = ["PRODUCTS", "Engine", "Product", "ResidueEngine", "get_engine", "get_product", "reduces_residues"]
