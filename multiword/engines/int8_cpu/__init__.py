"""Products of int8 words on CPUs, reduced modulo their moduli and rounded before they leave the cache.

`kernels` are the instructions, as data; `steps` what is computed with them on vectors, as LLVM code, which
`emit` writes; `loops` the loops around the steps, and `tables` the numbers that they read; `packed` the
memory order; `product` the two calls, `split` and `Product`; `engine` the engine.
"""
