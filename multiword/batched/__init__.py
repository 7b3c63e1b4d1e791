"""Products of batches of small half-precision and half-complex matrices."""

from multiword.batched.api import batched_matmul
from multiword.batched.halfcomplex import HalfComplex, from_complex, from_planes, to_complex
from multiword.batched.roofline import attainable_flops, bytes_moved, least_seconds, operational_intensity

__all__ = [
    "HalfComplex",
    "attainable_flops",
    "batched_matmul",
    "bytes_moved",
    "from_complex",
    "from_planes",
    "least_seconds",
    "operational_intensity",
    "to_complex",
]
