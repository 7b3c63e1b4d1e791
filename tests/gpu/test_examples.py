"""What users run, on a GPU: the examples, the pages' snippets, the command line."""

import re

import numpy as np
import pytest

import ozaki
from ozaki.cli import info
from tests.cli.test_cli import run as run_command
from tests.docs.test_docs import NAMES, PAGES, examples, run_examples
from tests.docs.test_examples import EXAMPLES, check, tutorials
from tests.matrices import matrices

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_with_the_same_bits(cupy, path, tmp_path):
    pytest.importorskip("matplotlib")
    device, host = check(path, tmp_path, "--gpu"), tutorials().shown(path)
    marks = [
        set(re.findall(r"\b[0-9a-f]{16}\b", x.split("ozaki.accurate_dgemm:")[-1])) for x in (device, host)
    ]
    assert marks[0] == marks[1]


@pytest.mark.parametrize("path", [p for p in PAGES if examples(p, "{.python .gpu}")], ids=NAMES.get)
def test_snippets_run(cupy, path):
    run_examples(path, examples(path, "python", "{.python .gpu}"), path.stem)


def test_the_command_line_lists_the_gpu_and_multiplies_files(cupy, tmp_path):
    assert len(info.devices()) >= 1
    works, text = info.engines()["cublas"]
    assert works, text
    libraries = info.libraries()
    assert not any("unusable" in libraries[name] for name in ("CuPy", "CUDA driver", "cuBLAS"))
    assert not any("CuPy" in text or "cuBLAS" in text for text in info.missing())
    a, b = matrices("wide6", 30, 50, 20)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    assert run_command(tmp_path, "a.npy", "b.npy", "-o", "c.npy", "--engine", "cublas") == 0
    assert np.load(tmp_path / "c.npy").tobytes() == ozaki.accurate_dgemm(a, b).tobytes()
