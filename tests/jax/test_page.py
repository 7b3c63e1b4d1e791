"""The page on JAX says what happens."""

import pytest

pytest.importorskip("jax")

from tests.test_docs import DOCS, examples, run_examples


def test_examples_run():
    path = DOCS / "pytorch-jax.md"
    run_examples(path, examples(path, "{.python .jax}"), path.stem)
