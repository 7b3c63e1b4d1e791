"""Captured products, without a GPU: which graphs are captured, replayed, given up and forgotten."""

import gc
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from multiword.engines import cublas, get_engine
from multiword.engines.cublas import Cublas
from multiword.runtime import graphs, kernels
from multiword.runtime.graphs import CaptureError
from multiword.runtime.libcuda import CudaError
from multiword.runtime.memory import empty_result, results_from
from ozaki.definition.decision import WIDENED_IN_ALL
from ozaki.execution import cache, captured
from ozaki.execution.contract import Done
from ozaki.execution.graph import Graph
from ozaki.product.factor import Factor
from ozaki.product.pair import Pair
from ozaki.product.request import Request
from ozaki.scaling.statistics import row_statistics
from ozaki.tuning import CALLS_WITHOUT_MEMORY, KINDS_CACHED
from tests.execution.standin_steps import BITS, COSTLY, GRADED, NONFINITE, PAIRS, UNLEVEL, Steps, row_sums
from tests.standin import Gpu


@pytest.fixture
def steps(monkeypatch):
    gpu = Gpu()
    gpu.install(monkeypatch)
    steps = Steps(gpu)
    steps.install(monkeypatch)
    yield steps
    cache.forget()
    gc.collect()
    assert not gpu.executables


@pytest.fixture
def gpu(steps):
    return steps.gpu


REQUEST = Request("fp64", "auto", None, object.__new__(Cublas), 1 << 30)


def operands(gpu, seed=0, bits=0, pairs=False, shape=(4, 3, 5)):
    m, k, n = shape
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-9, 9, (m, k)).astype(float), rng.integers(-9, 9, (k, n)).astype(float)
    a[0, 0] = BITS * bits + PAIRS * pairs
    return gpu.asarray(a), gpu.asarray(b)


def expected(a, b, bits=0):
    a, b = np.asarray(a), np.asarray(b)
    of_a, of_b = (row_statistics([x]).total for x in (a, b.T))
    return a @ b + of_a[:, None] + of_b + bits


def product(a, b):
    left = a if isinstance(a, Factor) else Factor(a, 0)
    right = b if isinstance(b, Factor) else Factor(b, 1)
    return replayed(left, right)


def factors(a, b):
    return Factor(a, 0), Factor(b, 1)


def replayed(a, b, request=REQUEST):
    """The product, of such factors or of those that they are equilibrated to."""
    pair = Pair(a, b, request)
    while Graph.refuses(pair.signature) is None:
        graph = Graph(pair.signature)
        if cache.captured_product(pair) is None:
            return None
        out = empty_result(pair.a.matrix, pair.result_shape, pair.a.matrix.dtype)
        outcome = graph.run(pair, out)
        if isinstance(outcome, Done):
            return out
        if outcome.pair.equilibrated == pair.equilibrated:
            return None
        pair = outcome.pair
    return None


def check(a, b, bits=0):
    matrices = [x.matrix if isinstance(x, Factor) else x for x in (a, b)]
    assert np.array_equal(product(a, b), expected(*matrices, bits))


def warmed(gpu, **options):
    """Operands of which a product has been captured."""
    a, b = operands(gpu, **options)
    assert product(a, b) is None  # the first time is launched kernel by kernel
    check(a, b, options.get("bits", 0))
    return a, b


# variants -------------------------------------------------------------------------------------------


def test_a_product_is_captured_the_second_time_and_replayed_on_other_arrays(gpu):
    kept = [warmed(gpu)]
    for seed in range(1, 6):
        kept.append(operands(gpu, seed))
        check(*kept[-1])
        for x in kept[-2]:
            x[...] = np.nan  # nothing of the last call's is read again
    assert (gpu.captures, gpu.launches) == (1, 6)


def test_results_outlive_the_next_replay(gpu):
    pairs = [warmed(gpu), *(operands(gpu, seed) for seed in range(1, 4))]
    results = [product(*pair) for pair in pairs]
    for pair, result in zip(pairs, results, strict=True):
        assert np.array_equal(result, expected(*pair))


def test_results_alone_are_in_the_memory_that_is_asked_for(gpu):
    made = []

    def allocate(shape, dtype):
        made.append(gpu.empty(shape, dtype))
        return made[-1]

    a, b = operands(gpu)
    with results_from(allocate):
        assert product(a, b) is None
        for count in (2, 3):  # the first is what the capture works on
            result = product(a, b)
            assert result is made[-1]
            assert np.array_equal(result, expected(a, b))
            assert len(made) == count
    assert product(a, b) is not made[-1]
    assert len(made) == 3


def test_a_widened_variant_is_captured_when_the_certificate_asks_for_it(gpu):
    narrow = warmed(gpu)
    wide = operands(gpu, 1, bits=7)
    check(*wide, 7)
    assert (gpu.captures, gpu.launches) == (2, 3)  # the narrow one, whose bounds it took to know
    check(*operands(gpu, 2, bits=7), 7)
    assert (gpu.captures, gpu.launches) == (2, 4)  # what the last call asked for comes first
    check(*narrow)
    assert (gpu.captures, gpu.launches) == (2, 6)
    check(*wide, 7)
    assert gpu.captures == 2


def test_what_a_gpu_decides_takes_another_graph_as_long_as_data_need_it(steps, gpu):
    steps.decides, spare = True, steps.SPARE_BITS
    warmed(gpu)
    check(*operands(gpu, 1, bits=3), spare)  # the usual graph, and then the one with spare bits
    assert (gpu.captures, gpu.launches) == (2, 3)
    check(*operands(gpu, 2, bits=4), spare)
    assert (gpu.captures, gpu.launches) == (2, 4)
    check(*operands(gpu, 3), spare)  # nothing more was needed
    check(*operands(gpu, 4))
    assert (gpu.captures, gpu.launches) == (2, 6)
    check(*operands(gpu, 5, bits=7), 7)  # more than there is room for: the host decides
    assert (gpu.captures, gpu.launches) == (3, 9)
    check(*operands(gpu, 6, bits=7), 7)
    assert (gpu.captures, gpu.launches) == (3, 10)


def test_a_pairwise_bound_is_captured_alone_and_then_with_the_product(gpu):
    warmed(gpu)
    check(*operands(gpu, 1, bits=3, pairs=True), 3)
    assert (gpu.captures, gpu.launches) == (3, 4)
    check(*operands(gpu, 2, bits=3, pairs=True), 3)
    assert (gpu.captures, gpu.launches) == (3, 5)
    check(*operands(gpu, 3, bits=3), 3)  # with less asked of it, what is there will do
    assert (gpu.captures, gpu.launches) == (3, 6)


def test_the_whole_inner_dimension_is_looked_at_where_a_few_rows_prove_nothing(gpu):
    warmed(gpu)
    for seed, launches in ((1, 4), (2, 2), (3, 2)):
        a, b = operands(gpu, seed, bits=3)
        a[0, 0] += UNLEVEL
        before = gpu.launches
        check(a, b, 3)
        # The usual graph, both kinds of evidence, the product; then that with pairs, and the exponents.
        assert gpu.launches - before == launches
    assert gpu.captures == 4


def test_integers_that_lose_nothing_are_captured_as_their_bounds_say(gpu):
    a, b = warmed(gpu)
    for i, more in enumerate((1, 1, 3, 3, 1)):
        before = gpu.launches
        lossless = operands(gpu, 1 + i, bits=WIDENED_IN_ALL + more, pairs=True)
        check(*lossless, WIDENED_IN_ALL + more)
        # The first time all is looked at, the bounds of wide integers taken, then these multiplied.
        assert gpu.launches - before == (4, 1, 3, 1, 3)[i]
    assert gpu.captures == 6
    check(a, b)
    check(*lossless, WIDENED_IN_ALL + 1)
    assert gpu.captures == 6


def test_integers_that_lose_nothing_at_great_cost_are_left_to_the_caller(gpu):
    a, b = warmed(gpu)
    costly = operands(gpu, 1, bits=COSTLY, pairs=True)
    for _ in range(3):
        assert product(*costly) is None
    assert (gpu.captures, gpu.launches) == (3, 6)  # at last a graph that takes the bounds alone
    check(a, b)


def test_a_graded_product_is_replayed_as_that_of_the_equilibrated_factors(gpu):
    def graded(seed):
        a, b = operands(gpu, seed)
        a[0, 0] = GRADED
        return a, b

    def of_equilibrated(a, b):
        a = np.array(a)
        a[0, 0] -= GRADED
        return expected(a, b)

    warmed(gpu)
    assert product(*graded(0)) is None  # that one is launched kernel by kernel, as any the first time
    for seed in range(1, 6):
        before = gpu.captures, gpu.launches
        assert np.array_equal(product(*graded(seed)), of_equilibrated(*graded(seed)))
    # A graph that takes bounds alone, and that of the equilibrated product.
    assert (gpu.captures - before[0], gpu.launches - before[1]) == (0, 2)
    assert len(held()) == 2
    check(*operands(gpu, 7))


def test_rows_that_are_not_finite_are_overwritten_after_the_replay(gpu):
    a, b = warmed(gpu)
    before = gpu.log.copy()
    a[0, 0] = NONFINITE
    assert np.isnan(product(a, b)).all()
    launch, *after = [x[0] for x in gpu.log[len(before) :] if x[0] != "wait"]
    assert launch == "launch"
    assert after == ["record", "record"]  # the scales have been read
    a[0, 0] = 0
    check(a, b)


def test_a_replay_waits_for_the_one_before_on_any_stream(gpu):
    a, b = warmed(gpu)
    for _ in range(2):
        stream = gpu.cupy.cuda.Stream(non_blocking=True)
        before = len(gpu.log)
        with stream:
            check(a, b)
        (wait, done, on), (launch, _, queue), (record, event, last) = gpu.log[before:]
        assert (wait, launch, record) == ("wait", "launch", "record")
        assert on is queue is last is stream
        assert done is event


# "normwise" ------------------------------------------------------------------------------------------

NORMWISE = Request("normwise", "auto", None, REQUEST.engine, 1 << 30)


def test_normwise_products_are_queued_and_not_waited_for(gpu):
    pairs = [operands(gpu, seed, bits=3 * seed) for seed in range(4)]
    assert replayed(*factors(*pairs[0]), NORMWISE) is None
    before = gpu.waits
    results = [replayed(*factors(*pair), NORMWISE) for pair in pairs]
    assert gpu.waits == before
    for pair, result in zip(pairs, results, strict=True):
        assert np.array_equal(result, expected(*pair))  # nothing of it is widened
    assert (gpu.captures, gpu.launches) == (1, 4)
    assert gpu.called["cuEventRecordWithFlags"] == 0


def test_normwise_products_overwrite_what_is_not_finite_in_their_graph(gpu):
    a, b = operands(gpu)
    for value in (0, 0, NONFINITE, 0):
        a[0, 0] = value
        result = replayed(*factors(a, b), NORMWISE)
        if result is not None:
            assert np.array_equal(result, np.full(result.shape, np.nan) if value else expected(a, b), True)
    assert (gpu.captures, gpu.launches) == (1, 3)


def test_normwise_and_certified_products_have_graphs_of_their_own(gpu):
    a, b = warmed(gpu)
    for _ in range(3):
        replayed(*factors(a, b), NORMWISE)
        check(a, b)
    assert gpu.captures == len(held()) == 2


def test_while_the_caller_captures_no_graph_of_ours_is_launched(gpu):
    a, b = operands(gpu)
    for _ in range(2):
        replayed(*factors(a, b), NORMWISE)
    launches = gpu.launches
    with gpu.cupy.cuda.Stream() as stream:
        gpu.cuStreamBeginCapture_v2(stream.ptr, 0)
        assert replayed(*factors(a, b), NORMWISE) is None
        stream.capture = None
    assert gpu.launches == launches


# addresses ------------------------------------------------------------------------------------------


def test_only_arrays_that_have_moved_get_their_addresses_patched(gpu):
    a, b = warmed(gpu)
    moves = gpu.moves
    keep = product(a, b)
    assert gpu.moves == moves + 2  # `out` is new: the two halves of the product
    other = gpu.asarray(a)
    moves = gpu.moves
    also = product(other, b)
    assert gpu.moves == moves + 2 + 4  # `out`, and the halves, the statistics and what A asks for
    assert keep is not also


def test_operands_that_are_one_array_move_together(gpu):
    x, _ = operands(gpu, shape=(4, 4, 4))
    assert product(x, x) is None
    check(x, x)
    y = gpu.asarray(x + 1)
    y[0, 0] = 0
    check(y, y)
    assert gpu.captures == 1
    z = gpu.asarray(y)
    assert product(y, z) is None  # which is another kind of call


def test_an_address_that_could_not_be_patched_is_patched_the_next_time(gpu):
    a, b = warmed(gpu)
    moved = operands(gpu, 1)
    error = CudaError("cuGraphExecKernelNodeSetParams_v2", 1)
    gpu.failing["cuGraphExecKernelNodeSetParams_v2"] = [None, error]  # one kernel has moved, the next not
    with pytest.raises(CudaError):
        product(*moved)
    check(a, b)
    check(*moved)


def test_other_layouts_are_other_kinds_of_call(gpu):
    a, b = warmed(gpu)
    assert product(gpu.asarray(np.repeat(a, 2, axis=0))[::2], b) is None
    assert product(a[1:], b) is None
    assert gpu.captures == 1


# what goes wrong ------------------------------------------------------------------------------------


def disturbed(gpu):
    """Whatever another thread may make of a capture."""
    cuda = gpu.cupy.cuda
    return [
        CudaError("cuStreamEndCapture", 901),
        cuda.runtime.CUDARuntimeError("invalidated"),
        cuda.driver.CUDADriverError("invalidated"),
    ]


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("place", ["launch", "cuStreamBeginCapture_v2", "cuGraphInstantiateWithFlags"])
def test_a_disturbed_capture_is_tried_again_the_next_time(steps, gpu, which, place):
    a, b = operands(gpu)
    assert product(a, b) is None
    error = disturbed(gpu)[which]
    if place == "launch":
        steps.raising = [error]
    else:
        gpu.failing[place] = [error]
    assert product(a, b) is None
    check(a, b)
    assert gpu.called["cuGraphLaunch"] == 1


@pytest.mark.parametrize("which", range(3))
def test_a_disturbed_variant_leaves_the_others_and_is_tried_again(gpu, which):
    a, b = warmed(gpu)
    wide = operands(gpu, 1, bits=3)
    gpu.failing["cuStreamEndCapture"] = [disturbed(gpu)[which]]
    assert product(*wide) is None
    check(a, b)
    check(*wide, 3)


def test_nothing_is_left_of_a_capture_that_failed(steps, gpu):
    a, b = operands(gpu)
    assert product(a, b) is None
    steps.raising = [RuntimeError("another error altogether")] * 2
    with pytest.raises(RuntimeError, match="altogether"):  # while warming up
        product(a, b)
    steps.raising = [None, RuntimeError("another error altogether")]
    with pytest.raises(RuntimeError, match="altogether"):  # while capturing
        product(a, b)
    assert all(x.capture is None for x in gpu.handles.values() if hasattr(x, "capture"))
    assert graphs._recorder.value is None
    assert kernels.noted.value is None
    assert cublas.capture_lock.acquire(blocking=False)
    cublas.capture_lock.release()
    check(a, b)


def unfit(steps, how):
    """Make products unfit for capture."""
    if how == "slices":
        steps.scheme = "slices"
    elif how == "panels":
        steps.bytes = (REQUEST.workspace + PRODUCT) // PRODUCT
    elif how == "size":
        steps.bytes = REQUEST.workspace // PRODUCT
    else:
        steps.raising = [CaptureError() for _ in range(9)]


@pytest.mark.parametrize("bits", [0, 3])
def test_what_had_no_memory_is_captured_when_others_have_given_it_back(steps, gpu, bits):
    """A kind of product, or the variant of one that takes more bits: after 16 calls, 32 more, 64 more."""
    warmed(gpu) if bits else product(*operands(gpu))
    a, b = operands(gpu, 1, bits=bits)
    steps.raising = [MemoryError() for _ in range(9)]
    for _ in range(20 * CALLS_WITHOUT_MEMORY):
        assert product(a, b) is None
    tries = 9 - len(steps.raising)
    assert 3 <= tries <= 7
    steps.raising.clear()
    for _ in range(40 * CALLS_WITHOUT_MEMORY):
        if product(a, b) is not None:
            break
    check(a, b, bits)


HOW = ["slices", "panels", "size", "launches"]
SHAPE = 40, 3, 5
PRODUCT = 40 * 5
"""Numbers of a product that can be cut into panels."""
MEMORY = REQUEST.workspace * 9 // 10 * cache.SHARE_OF_ONE
"""Of a GPU that leaves one product less than the workspace, and more than a panel of that takes."""


@pytest.mark.parametrize("how", HOW)
def test_an_unfit_product_is_never_captured_again(steps, gpu, how):
    gpu.memory = MEMORY
    a, b = operands(gpu, shape=SHAPE)
    unfit(steps, how)
    for _ in range(2):
        assert product(a, b) is None
    left, begun = len(steps.raising), gpu.called["cuStreamBeginCapture_v2"]
    for _ in range(5):
        assert product(a, b) is None
    assert (len(steps.raising), gpu.called["cuStreamBeginCapture_v2"]) == (left, begun)
    assert gpu.launches == 0


@pytest.mark.parametrize("how", ["panels", "size"])
@pytest.mark.parametrize("fits", [True, False])
def test_what_words_would_take_is_no_matter_in_limbs(steps, gpu, how, fits, monkeypatch):
    gpu.memory = MEMORY
    a, b = operands(gpu, shape=SHAPE)
    unfit(steps, how)
    room = MEMORY // cache.SHARE_OF_ONE
    monkeypatch.setattr(steps, "in_limbs", lambda *_: SimpleNamespace(workspace=room + 1 - fits))
    assert product(a, b) is None  # seen once
    assert (product(a, b) is not None) == fits


@pytest.mark.parametrize("how", HOW)
def test_an_unfit_variant_is_never_captured_again(steps, gpu, how):
    gpu.memory = MEMORY
    warmed(gpu, shape=SHAPE)
    wide = operands(gpu, 1, bits=3, shape=SHAPE)
    unfit(steps, how)
    for _ in range(2):  # the second time the bounds are captured alone
        assert product(*wide) is None
    left, begun = len(steps.raising), gpu.called["cuStreamBeginCapture_v2"]
    for _ in range(5):
        assert product(*wide) is None
    assert (len(steps.raising), gpu.called["cuStreamBeginCapture_v2"]) == (left, begun)


# what is kept ---------------------------------------------------------------------------------------


def held():
    return [x for x in cache._cached.values() if isinstance(x, captured.CapturedProduct)]


def test_products_after_that_of_an_unfit_variant_are_replayed_again(steps, gpu):
    narrow = warmed(gpu)
    steps.raising = [CaptureError()] * 9
    unfit = operands(gpu, 1, bits=7)
    assert product(*unfit) is None
    steps.raising.clear()
    check(*narrow)
    check(*operands(gpu, 2))
    captures, launches = gpu.captures, gpu.launches
    for _ in range(3):
        assert product(*unfit) is None
    assert gpu.captures == captures
    assert gpu.launches == launches + 3  # of the narrow one once, then of the bounds alone
    check(*operands(gpu, 3))
    check(*operands(gpu, 4, bits=3), 3)


def memory():
    """Bytes of all that graphs work in."""
    return sum({id(x.memory): x.memory.nbytes for x in held()}.values())


def test_graphs_of_a_thread_work_in_one_memory(gpu):
    for n in (5, 6, 7):
        warmed(gpu, shape=(4, 3, n))
    assert len({id(x.memory) for x in held()}) == 1


def test_graphs_beyond_the_memory_limit_are_given_up_and_never_captured_again(gpu):
    """The stand-in's memory is never used again: whoever comes third does not fit beside two."""
    pairs = [warmed(gpu, shape=(4, 3, n)) for n in (5, 6)]
    gpu.memory = cache.SHARE * (memory() + 1)
    pairs += [operands(gpu, shape=(4, 3, n)) for n in (7, 8)]
    for a, b in pairs * 9:
        product(a, b)
        assert memory() <= cache._limit()
    gc.collect()
    assert 0 < len(held()) == len(gpu.executables) < 4
    captures = gpu.captures
    for _ in range(3):
        products = [product(a, b) for a, b in pairs]
        assert sum(x is not None for x in products) == len(held())
    assert gpu.captures == captures


def test_memory_that_was_used_last_is_kept(gpu):
    first = operands(gpu, shape=(4, 3, 5))
    thread = threading.Thread(target=lambda: [product(*first) for _ in range(2)])
    thread.start()
    thread.join()
    assert len(held()) == 1
    gpu.memory = cache.SHARE * (memory() + 1)
    second = warmed(gpu, shape=(4, 3, 5))
    check(*second)
    assert list(cache._cached.values()) == [cache.NEVER, *held()]  # what has been given up is forgotten first


def test_a_graph_larger_than_the_limit_is_not_kept(gpu):
    a, b = operands(gpu)
    gpu.memory = cache.SHARE
    for _ in range(4):
        assert product(a, b) is None
    assert gpu.captures == 1


def test_a_variant_that_does_not_fit_is_used_once(gpu):
    """A graph that a replay captures counts, too."""
    first, second = (warmed(gpu, shape=(4, 3, n)) for n in (5, 6))
    gpu.memory = cache.SHARE * (memory() + 1)
    second[0][0, 0] = 3 * BITS
    check(*second, 3)
    assert list(cache._cached.values()) == [cache.NEVER]
    assert product(*second) is None
    assert product(*first) is None
    check(*first)


def test_kinds_of_call_beyond_the_limit_are_forgotten_and_captured_anew(gpu):
    pairs = [warmed(gpu, shape=(1, 1, n)) for n in range(1, KINDS_CACHED + 3)]
    assert len(cache._cached) == len(held()) == KINDS_CACHED
    captures = gpu.captures
    check(*pairs[-1])
    assert gpu.captures == captures
    assert product(*pairs[0]) is None
    check(*pairs[0])
    assert gpu.captures == captures + 1


def test_forget_gives_everything_back(gpu):
    warmed(gpu, bits=3)
    warmed(gpu, shape=(2, 3, 4))
    assert len(gpu.executables) == 3
    cache.forget()
    gc.collect()
    assert not gpu.executables
    assert not cache._cached


# prepared operands ----------------------------------------------------------------------------------


def test_a_prepared_operand_has_graphs_of_its_own_that_go_with_it(gpu):
    a, b = warmed(gpu)
    fixed = Factor(a, 0, prepared=True)
    assert product(fixed, b) is None
    for seed in range(3):
        check(fixed, operands(gpu, seed)[1])
    assert (gpu.captures, len(held())) == (2, 2)
    del fixed
    gc.collect()
    assert len(held()) == len(gpu.executables) == 1
    check(a, b)


def test_the_statistics_of_a_prepared_operand_are_not_in_its_graph(gpu):
    a, b = operands(gpu)
    fixed, other = Factor(a, 0, prepared=True), Factor(b, 1)
    assert product(fixed, other) is None
    check(fixed, other)
    ((graph, _),) = gpu.executables.values()
    assert sum(node.run is row_sums for node in graph.nodes) == 1
    check(fixed, operands(gpu, 1)[1])


def test_both_operands_prepared_are_forgotten_with_either(gpu):
    a, b = operands(gpu)
    left, right = Factor(a, 0, prepared=True), Factor(b, 1, prepared=True)
    assert product(left, right) is None
    check(left, right)
    assert len(held()) == 1
    del right
    gc.collect()
    assert not cache._cached
    assert product(left, Factor(b, 1)) is None


def test_a_prepared_operand_has_one_finalizer_however_often_its_graphs_are_forgotten(gpu):
    a, _ = operands(gpu)
    fixed = Factor(a, 0, prepared=True)
    others = [operands(gpu, shape=(4, 3, n))[1] for n in range(5, 9)]
    for _ in range(4):
        for b in others:
            product(fixed, b)
        cache.forget()
    assert weakref.getweakrefcount(fixed) == 2  # the finalizer, and that of its stream order
    product(fixed, others[0])
    product(Factor(a, 0, prepared=True), others[0])  # which is no more at once
    assert len(cache._cached) == len(cache._watched) == 1
    del fixed
    assert not cache._cached
    assert not cache._watched


# what is not captured at all ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_", [("exact", None), (40, None), ("fp64", get_engine("host"))], ids=["exact", "bits", "engine"]
)
def test_uncertified_products_and_other_engines_are_launched_kernel_by_kernel(gpu, request_):
    accuracy, engine = request_
    a, b = operands(gpu)
    asked = Request(accuracy, "auto", None, engine or REQUEST.engine, 1 << 30)
    for _ in range(3):
        assert replayed(*factors(a, b), asked) is None
    assert not cache._cached


def test_arrays_of_numpy_are_not_captured(gpu):
    x = np.ones((3, 3))
    for _ in range(3):
        assert product(x, x) is None
    assert not cache._cached
