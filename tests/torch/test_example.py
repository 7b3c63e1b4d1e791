"""The example runs, and prints what the page shows."""

import re

import pytest

pytest.importorskip("torch")

from tests.docs.test_docs import DOCS, examples
from tests.docs.test_examples import ROOT, check, form


@pytest.mark.slow
def test_it_prints_what_the_page_shows(tmp_path):
    pytest.importorskip("matplotlib")
    output = check(ROOT / "examples" / "reproducible_training.py", tmp_path)
    printed = "\n".join(line for line in output.splitlines() if not line.startswith("figure"))
    (shown,) = examples(DOCS / "pytorch-jax.md", "text")
    assert form(printed) == form(shown)
    marks = [re.findall(r"\b[0-9a-f]{16}\b", text) for text in (printed, shown)]
    assert marks[0] == marks[1]
