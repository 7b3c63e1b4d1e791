"""A GPU's tensor cores do what their model and the probes say."""

import numpy as np
import pytest

from multiword import TensorCore, get_engine, get_generation
from multiword.engines.generations import CHIPS
from multiword.engines.machine import compute_capability
from multiword.probe import infer_blocking, probe
from tests.multiword.engines.test_tensorcore import DTYPES, random_words, same

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("word", ["fp16", "bf16", "tf32"])
def test_the_gpus_arithmetic_is_its_generations(cupy, word):
    found = probe(get_engine("cublas"), word)
    own = get_generation(CHIPS[compute_capability()])
    assert (found.width, found.fraction_bits) == (own.widths[word], own.fraction_bits)
    assert (found.alignment, found.rounding) == (own.alignment, own.rounding)


@pytest.mark.parametrize("word", DTYPES)
@pytest.mark.parametrize(
    "shape", [(64, 64, 64), (128, 128, 4096), (100, 100, 100), (129, 127, 255), (7, 68, 61)]
)
def test_the_gpu_returns_what_the_model_predicts(cupy, word, shape):
    m, n, k = shape
    engine = get_engine("cublas")
    generation = probe(engine, word).generation()
    core = TensorCore(generation, blocking=infer_blocking(engine, word, m, n, k))
    rng = np.random.default_rng(k)
    a, bt = random_words(rng, (m, k), 6, word), random_words(rng, (n, k), 6, word)
    device = (
        cupy.asarray(x.view(np.uint16)).view(x.dtype) if word == "bf16" else cupy.asarray(x) for x in (a, bt)
    )
    assert same(cupy.asnumpy(engine.multiply(word, *device)), core.gemm(a, bt.T, word=word))
