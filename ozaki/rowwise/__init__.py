"""Functions of rows: softmax and its logarithms, norms of layers and of channels, other means.

api           the functions, each a formula of exact sums and elementary functions
rows          how they take arrays: axes, blocks of rows, weights
standardized  channels of networks' norms, and their derivatives
host          on a CPU float32 rows, by `loops_numba` and `norms_numba`, and powers of float64 ones, by
              `powers_numba`
cuda          rows on a GPU: `enclosed.cu` computes in plain float64; what that leaves in doubt, `rows.cu`
              or, for long rows, `parts.cu`, by the steps of `steps.cuh`
norms_cuda, slopes_cuda, standardized_cuda, sums_of_rows, windows
              on a GPU float32 norms, the derivative of softmax, channels, the gradient of an embedding, and
              windows, of which convolutions are products
"""
