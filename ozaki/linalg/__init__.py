"""Linear algebra with the same bits on every machine; with proofs in `ozaki.linalg.verified`."""
