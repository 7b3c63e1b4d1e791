"""Status codes become exceptions that name routine and status."""

import pytest

from multiword.engines.libcublas import CublasError
from multiword.runtime.libcuda import CudaError
from multiword.runtime.status import StatusError, checked


@pytest.mark.parametrize(
    ("error", "exhausted", "said"),
    [
        (CublasError, 3, r"f returned status 3 \(CUBLAS_STATUS_ALLOC_FAILED\)"),
        (CudaError, 2, r"f returned status 2 \(CUDA_ERROR_OUT_OF_MEMORY\)"),
    ],
)
def test_no_memory_is_a_memory_error(error, exhausted, said):
    with pytest.raises(MemoryError, match=said):
        checked(lambda: exhausted, "f", error)()


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (CublasError, 7, r"f returned status 7 \(CUBLAS_STATUS_INVALID_VALUE\)"),
        (CublasError, 99, r"f returned status 99 \(unknown\)"),
        (CudaError, 901, r"f returned status 901 \(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED\)"),
    ],
)
def test_other_statuses_name_themselves(error, status, said):
    with pytest.raises(error, match=said) as caught:
        checked(lambda *arguments: status, "f", error)(1, 2)
    assert isinstance(caught.value, StatusError)
    assert (caught.value.routine, caught.value.status) == ("f", status)


def test_success_passes_the_arguments_on():
    seen = []
    call = checked(lambda *arguments: seen.append(arguments) or 0, "f", CublasError)
    assert call(1, "x") is None
    assert seen == [(1, "x")]
    assert call.__name__ == "f"
