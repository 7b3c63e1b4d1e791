"""The MPI examples print one fingerprint for any number of ranks."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytest.importorskip("mpi4py")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mpiexec") is None, reason="needs mpiexec")
@pytest.mark.parametrize("example", ["mpi_sums.py", "mpi_cg.py"])
def test_one_fingerprint_for_one_to_four_ranks(example):
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OPENBLAS_NUM_THREADS": "1",
        # Open MPI: more ranks than cores, and as root in a container.
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    fingerprints = []
    for ranks in (1, 2, 3, 4):
        done = subprocess.run(
            ["mpiexec", "-n", str(ranks), sys.executable, str(ROOT / "examples" / example)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert f"{ranks} rank(s)" in done.stdout
        fingerprints += re.findall(r"fingerprint +([0-9a-f]{16})", done.stdout)
    assert len(fingerprints) == 4
    assert len(set(fingerprints)) == 1
