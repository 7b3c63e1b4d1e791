"""One correct rounding of an exact value, and the error-free transformations."""
