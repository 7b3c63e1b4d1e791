"""Sums and products of Dask arrays: lazy, and with the bits of the function on the whole array.

Exact sums merge, and residues of partial products add, so no chunking, number of workers, scheduler or
lost worker can be seen in a result. `ozaki.sum`, `ozaki.matmul` and relatives come here with Dask arrays.

    reductions     the public reductions, one for every row of `ozaki.sums.table`
    accumulators   the exact sums of a chunk, merged as a tree (`ozaki.sums.partial`)
    elementary     functions of each number, chunk by chunk
    cumulative     running sums, each chunk after the exact sum of those before it
    groups         sums by group
    rolling        windows, each chunk with what it needs of its neighbours
    products       a product in blocks; `statistics`: of its rows and columns; `decision`: the certificate,
                   one for all blocks; `integers`: of integers, modulo a few numbers
    covariances    of exact means and a product
    sparse         products of chunks that are sparse matrices
    flox           reductions by group for flox, whose state are exact sums; imported by its own name
    arguments      what comes in, whole arrays and chunks; `tasks`: what all graphs share

Wants Dask (extra `dask`), which is imported here and nowhere else in the package.
"""

from ozaki.dask.covariances import LAZY as _COVARIANCES
from ozaki.dask.cumulative import cumsum  # noqa: F401
from ozaki.dask.elementary import ELEMENTARY as _ELEMENTARY
from ozaki.dask.groups import LAZY as _GROUPS
from ozaki.dask.products import matmul  # noqa: F401
from ozaki.dask.reductions import LAZY as _LAZY
from ozaki.dask.rolling import LAZY as _ROLLING
from ozaki.public import forms_in as _forms_in

globals().update(_LAZY | _ROLLING | _GROUPS | _COVARIANCES | _ELEMENTARY)
__all__ = _forms_in("dask")


def __dir__() -> list[str]:
    """The public names."""
    return list(__all__)
