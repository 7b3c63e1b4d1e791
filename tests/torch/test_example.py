"""The example runs, and prints what the page shows."""

import re

import pytest

pytest.importorskip("torch")

import torch

import ozaki.torch
from tests.docs.test_docs import DOCS, examples
from tests.docs.test_examples import ROOT, check, form
from tests.docs.test_programs import program


def test_two_epochs_do_not_depend_on_the_order_and_the_cut(monkeypatch):
    """The program's float32 network, for as long as an ordinary run allows."""
    pytest.importorskip("matplotlib")
    training = program("reproducible_training")
    monkeypatch.setattr(training, "EPOCHS", 2)
    ways = [(torch.float32, False, 512, 0), (torch.float32, True, 32, 0)]
    native = training.trained(training.train_network, ways, gpu=False)
    with ozaki.torch.reproducible(dtypes=training.DTYPES, sums=True):
        ours = training.trained(training.train_network, ways, gpu=False)
    marks = [[training.fingerprint(parameters) for _, parameters in runs] for runs in (native, ours)]
    assert marks[0][0] != marks[0][1]
    assert marks[1][0] == marks[1][1]
    assert not training.difference(*ours).any()


@pytest.mark.slow
def test_it_prints_what_the_page_shows(tmp_path):
    pytest.importorskip("matplotlib")
    output = check(ROOT / "examples" / "reproducible_training.py", tmp_path)
    printed = "\n".join(line for line in output.splitlines() if not line.startswith("figure"))
    (shown,) = examples(DOCS / "pytorch-jax.md", "text")
    assert form(printed) == form(shown)
    marks = [re.findall(r"\b[0-9a-f]{16}\b", text) for text in (printed, shown)]
    assert marks[0] == marks[1]
