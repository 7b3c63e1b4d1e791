"""Sums, means, norms and dot products: the exact value, rounded once (Rump, Ogita and Oishi; Kulisch)."""
