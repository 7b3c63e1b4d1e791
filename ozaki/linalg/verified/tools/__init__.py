"""What proofs are made of, for all solvers alike; no solver imports another.

upward           arithmetic whose results are rounded upwards, and the sums and norms made of it
words            unevaluated sums, and the rounding that a bound decides
solution         the records that are returned, and the errors raised where there is no proof
scaling          by powers of two, and back again
preconditioner   approximate inverses, in words; `regularity`: the proof that they are
refinement       the loop that all refinement is
eigenvalues      enclosures from approximate eigenvectors
singular         exact null vectors; `integers`: exact determinants
"""
