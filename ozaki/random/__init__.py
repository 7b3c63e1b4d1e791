"""Random numbers by their place: the same on a laptop and a GPU, and for any number of workers."""

# ruff: noqa: F401  # what is public says so where it is defined; the imports are for editors, and for `__all__`

from multiword.public import public_names
from ozaki.random.generator import Generator, default_rng

__all__ = public_names(__name__)
