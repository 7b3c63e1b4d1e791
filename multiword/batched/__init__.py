"""Products of batches of small half-precision and half-complex matrices.

After Abdelfattah, Tomov and Dongarra, "Matrix multiplication on batches of small matrices in half
and half-complex precisions" (2020). `api` is the public function, `problem` a checked call, `host` the
definition of its result in NumPy, `gpu/` the kernels; `roofline` has the paper's equations (1) and (2).
"""

# ruff: noqa: F401  # what is public says so where it is defined; the imports are for editors, and for `__all__`

from multiword.batched.api import batched_matmul
from multiword.batched.halfcomplex import HalfComplex, from_complex, from_planes, to_complex
from multiword.batched.roofline import attainable_flops, bytes_moved, least_seconds, operational_intensity
from multiword.public import public_names

__all__ = sorted(
    (*public_names(__name__), "HalfComplex", "batched_matmul", "from_complex", "from_planes", "to_complex")
)
