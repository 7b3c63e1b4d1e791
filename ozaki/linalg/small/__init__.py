"""Matrices of order up to 64, one or a stack: texts, which numba compiles as they stand, and a GPU printed.

language        what the texts may say: loops whose iterations go in any order, and a few functions of numbers
leaves          LU, Cholesky and QR panels, forward substitution
reflections_numba, products_numba   QR panels and products of real numbers on a CPU, eight columns at once
two_sided       reductions to tridiagonal and to bidiagonal form
products        "normwise" products, exactly in slices, rounded once
factorizations  LU, triangular systems, Cholesky and QR of one matrix
spectra         eigenpairs and singular triplets of one matrix
calls           a stack: memory and threads
printing        what texts call, in CUDA; `multiword/runtime/printing.py` prints them
"""
