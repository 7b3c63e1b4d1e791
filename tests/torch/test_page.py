"""The page on PyTorch says what happens."""

import pytest

pytest.importorskip("torch")

from tests.test_docs import DOCS, examples, run_examples


def test_examples_run():
    path = DOCS / "pytorch-jax.md"
    run_examples(path, examples(path, "{.python .torch}"), path.stem)
