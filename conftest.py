"""Modules of optional packages that are not installed are not searched for examples."""

from importlib.util import find_spec

collect_ignore = [f"ozaki/{name}" for name in ("torch", "jax") if find_spec(name) is None]
