"""Scale: which integers stand for the rows of A and the columns of B."""
