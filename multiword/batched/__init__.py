"""Products of batches of small half-precision and half-complex matrices.

After Abdelfattah, Tomov and Dongarra, "Matrix multiplication on batches of small matrices in half
and half-complex precisions" (2020). `api` is the public function, `problem` a checked call, `host` the
definition of its result in NumPy, `gpu/` the kernels; `roofline` has the paper's equations (1) and (2).
"""

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
