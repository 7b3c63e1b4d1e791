"""Engines: where one low-precision matrix product is computed.

`contract` says what every engine does and checks, `words` what it multiplies; `host` and `cublas` are real
machines, `tensorcore` is the model of one (Fasi, Higham, Mikaitis and Pranesh, 2021): `generations` has its
parameters, `blockfma` its step, `fma` the IEEE arithmetic of its fp32 and fp64 units. `select` registers
engines by name, `machine` knows how fast measured devices are, and `fused` has products of residues that
are reduced before they are written.
"""

from multiword.engines.contract import (
    Engine,
    ResidueEngine,
    declared,
    multiplies_int8,
    prefers_residues,
    reduces_residues,
)
from multiword.engines.select import ENGINES, get_engine
from multiword.engines.words import C_TYPES, WORDS, Word, get_word

__all__ = [
    "C_TYPES",
    "ENGINES",
    "WORDS",
    "Engine",
    "ResidueEngine",
    "Word",
    "declared",
    "get_engine",
    "get_word",
    "multiplies_int8",
    "prefers_residues",
    "reduces_residues",
]
