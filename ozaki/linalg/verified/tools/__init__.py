"""What proofs are made of, for all solvers alike; no solver imports another.

upward           arithmetic whose results are rounded upwards
words            unevaluated sums, and the rounding that a bound decides
solution         the records that are returned, and the errors raised where there is no proof
equilibration    exact scaling by powers of two
preconditioner   approximate inverses, in words; `regularity`: the proof that they are; `refinement`: its use
eigenvalues      enclosures from approximate eigenvectors
singular         exact null vectors; `integers`: exact determinants
"""
