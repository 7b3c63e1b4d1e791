"""The pages' examples on PyTorch say what happens."""

import pytest

pytest.importorskip("torch")

from tests.docs.test_docs import NAMES, PAGES, examples, run_examples


@pytest.mark.parametrize("path", [p for p in PAGES if examples(p, "{.python .torch}")], ids=NAMES.get)
def test_examples_run(path):
    run_examples(path, examples(path, "{.python .torch}"), path.stem)
