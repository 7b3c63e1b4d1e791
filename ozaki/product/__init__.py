"""A product as its steps: scale, split, multiply, reconstruct. `ozaki.execution` runs them."""
