"""Sums, means, norms and dot products: the exact value, rounded once.

api, cumulative, exactsum    the public functions, cumsum and ExactSum; `arguments` checks what comes in
statistics                   var, std, and nansum, nanmean, nanvar, nanstd
partial                      the exact sums of chunks in short form, which merge
textbook                     the literature's own algorithms: AccSum, NearSum, SumK
exact/                       what they are computed with: exact sums over axes, and their one rounding
"""
