"""Sums and products of Dask arrays: lazy, and with the bits of the function on the whole array.

Exact sums merge, and residues of partial products add, so no chunking, number of workers, scheduler or
lost worker can be seen in a result. `ozaki.sum`, `ozaki.matmul` and relatives come here with Dask arrays.

    reductions, deviations   the public functions; `arguments` checks what comes in
    accumulators             the exact sums of a chunk, merged as a tree; `extracted`: in a short form, for
                             fields; `rounding`: what becomes of them
    cumulative               running sums, each chunk after the exact sum of those before it
    products                 a product in pieces; `scales`: statistics of whole rows, from those of blocks;
                             `equilibration` of the inner dimension; `certificate`: one decision for all
                             pieces; `known`: what tasks know of it; `request`: what comes in
    trees                    what all tree reductions have in common
    memory                   a task that runs out of memory is named

Wants Dask (extra `dask`), which is imported here and nowhere else in the package.
"""

from ozaki.dask.cumulative import cumsum
from ozaki.dask.deviations import nanstd, nanvar, std, var
from ozaki.dask.products import matmul
from ozaki.dask.reductions import dot, mean, nanmean, nansum, norm, sum, vdot

__all__ = [
    "cumsum",
    "dot",
    "matmul",
    "mean",
    "nanmean",
    "nanstd",
    "nansum",
    "nanvar",
    "norm",
    "std",
    "sum",
    "var",
    "vdot",
]
