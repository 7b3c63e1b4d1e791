"""Random numbers by their place: the same on a laptop and a GPU, and for any number of workers."""

from ozaki.random.generator import Generator, default_rng

__all__ = ["Generator", "default_rng"]
