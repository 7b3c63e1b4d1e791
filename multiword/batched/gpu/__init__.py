"""Batched products on a GPU: layouts of the operands, the fastest kernel, its launch.

`storage` describes a call's matrices in memory; `plans` derives from that, and from measurements
(`choices.json`), the constants of a kernel and its launch; `kernels` has the kernels (`resident.cu`,
`tiled.cu`); `device` chooses between them and cuBLAS, and `launches` caches launches for calls of the same
kind. The definition of the result, in NumPy, is `multiword.batched.host`.
"""
