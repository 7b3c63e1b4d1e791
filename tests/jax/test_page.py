"""The pages' examples on JAX say what happens."""

import pytest

pytest.importorskip("jax")

from tests.docs.test_docs import NAMES, PAGES, examples, run_examples


@pytest.mark.parametrize("path", [p for p in PAGES if examples(p, "{.python .jax}")], ids=NAMES.get)
def test_examples_run(path):
    run_examples(path, examples(path, "{.python .jax}"), path.stem)
