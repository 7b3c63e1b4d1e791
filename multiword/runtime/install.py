"""What to do where an optional package is missing."""

from __future__ import annotations

NAME = "ozaki-multiword"


def command(extra: str) -> str:
    """Return the command that installs an extra: from a clone, or from an index if the package came from one.

    >>> command("torch")  # doctest: +SKIP
    "pip install '.[torch]' in a clone of the repository"
    """
    from importlib.metadata import PackageNotFoundError, distribution  # which would slow every import

    try:
        origin = distribution(NAME).read_text("direct_url.json")  # PEP 610: of what came from no index
    except PackageNotFoundError:
        origin = "a source tree"
    in_a_clone = f"pip install '.[{extra}]' in a clone of the repository"
    return in_a_clone if origin else f"pip install '{NAME}[{extra}]'"


def missing(what: str, extra: str) -> ImportError:
    """Return the error of a function that needs an extra, with the command that installs it.

    >>> raise missing("ozaki.jax needs JAX", "jax")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ImportError: ozaki.jax needs JAX: pip install '...[jax]'...
    """
    alternative = "; or cuda12, if nvidia-smi shows a CUDA version below 13" if extra == "cuda13" else ""
    return ImportError(f"{what}: {command(extra)}{alternative}")
