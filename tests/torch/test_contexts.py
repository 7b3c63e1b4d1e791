"""Where the mode holds: contexts, tasks, generators and threads; compiled functions; what it leaves alone."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

import ozaki  # noqa: E402
import ozaki.torch  # noqa: E402
from ozaki.torch.overrides import register  # noqa: E402
from ozaki.torch.settings import ACCURACY, Settings, active, enter, leave  # noqa: E402
from tests.torch.test_mode import random, same_bits  # noqa: E402


def products(count):
    x = random(3, 3)
    for _ in range(count):
        x @ x


def in_thread(function, *arguments):
    worker = threading.Thread(target=function, args=arguments)
    worker.start()
    worker.join()


@pytest.fixture(autouse=True)
def ended():
    """No mode outlives a test."""
    yield
    assert active() is None


def test_contexts_nest_and_end_after_exceptions():
    x = random(3, 3)
    with ozaki.torch.reproducible() as outer:
        with ozaki.torch.reproducible(dtypes=torch.float32) as inner:
            x.float() @ x.float()
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), ozaki.torch.reproducible():
            x @ x[:2]
        x @ x
    assert (outer, inner) == ({"mm": 1}, {"mm": 1})


def generator():
    """Yields the counts of a mode, after one product for every time that it is resumed."""
    with ozaki.torch.reproducible() as calls:
        while True:
            products(1)
            yield dict(calls)


def test_interleaved_generators():
    first, second = generator(), generator()
    assert (next(first), next(second)) == ({"mm": 1}, {"mm": 1})
    first.close()
    assert next(second) == {"mm": 2}
    second.close()


@pytest.mark.parametrize("closed", ["in another thread", "in another context", "by the collector"])
def test_generators_that_are_closed_elsewhere(closed):
    with ozaki.torch.reproducible() as calls:
        inner = generator()
        next(inner)
        if closed == "in another thread":
            in_thread(inner.close)
        elif closed == "in another context":
            contextvars.Context().run(inner.close)
        else:
            del inner
            gc.collect()
        products(1)
    assert calls == {"mm": 1}


def test_tasks_have_modes_of_their_own():
    counts = {}

    async def work(name, before, within):
        await asyncio.sleep(0.002 * before)
        if within is None:
            products(1)
            counts[name] = active()
            return
        with ozaki.torch.reproducible() as calls:
            for _ in range(3):
                products(1)
                await asyncio.sleep(0.002 * within)
            x = random(3, 3).requires_grad_()
            (x @ x).sum().backward()
        counts[name] = calls["mm"]

    async def main():
        await asyncio.gather(work("a", 0, 2), work("b", 1, 3), work("outside", 3, None))

    asyncio.run(main())
    assert counts == {"a": 6, "b": 6, "outside": None}


def test_tasks_inherit_the_mode_while_it_is_open():
    async def work(first, second):
        products(1)
        first.set()
        await second.wait()
        products(1)

    async def main():
        first, second = asyncio.Event(), asyncio.Event()
        with ozaki.torch.reproducible() as calls:
            task = asyncio.create_task(work(first, second))
            await first.wait()
            await asyncio.to_thread(products, 1)
        second.set()
        await task
        return calls

    assert asyncio.run(main()) == {"mm": 2}


class Reenter(torch.autograd.Function):
    """Its backward pass computes a product, and another backward pass, down to a depth."""

    @staticmethod
    def forward(ctx, x, depth, threads):
        ctx.depth, ctx.threads = depth, threads
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        ctx.threads.add(threading.get_ident())
        with ozaki.torch.reproducible(sums=True) as calls:
            x @ x
        assert calls == {"mm": 1}
        x @ x
        if ctx.depth:
            with torch.enable_grad():
                y = x.detach().requires_grad_()
                Reenter.apply(y, ctx.depth - 1, ctx.threads).sum().backward()
        return gradient, None, None


def test_a_backward_pass_takes_the_mode_of_its_caller_to_other_threads():
    """PyTorch's engine takes another thread when backward passes are nested 60 deep."""
    threads, x = set(), random(2, 2).requires_grad_()
    with ozaki.torch.reproducible() as calls:
        Reenter.apply(x, 130, threads).sum().backward()
    assert len(threads) > 1
    assert calls == {"mm": 131}


def test_a_backward_pass_takes_the_mode_of_its_caller():
    x = random(3, 3).requires_grad_()
    with ozaki.torch.reproducible() as calls:
        y = (x @ x).trace()
    y.backward()
    assert calls == {"mm": 1}
    y = (x @ x).trace()
    with ozaki.torch.reproducible() as calls:
        in_thread(y.backward)
    assert not calls


def test_other_threads_and_the_outside_are_untouched():
    a, b = random(40, 40), random(40, 40, seed=1)
    native = a @ b
    seen = []
    with ozaki.torch.reproducible() as calls:
        in_thread(lambda: seen.append((a @ b, active())))
    assert not calls
    assert same_bits(seen[0][0], native)
    assert seen[0][1] is None
    assert same_bits(a @ b, native)


def test_threads_with_modes_of_their_own():
    results = {}

    def work(bits):
        with ozaki.torch.reproducible(accuracy=bits) as calls:
            for _ in range(5):
                results[bits] = random(9, 9) @ random(9, 9)
            assert calls["mm"] == 5

    workers = [threading.Thread(target=work, args=(bits,)) for bits in (5, 20, 40)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    a = random(9, 9).numpy()
    for bits, result in results.items():
        assert same_bits(result, torch.from_numpy(ozaki.matmul(a, a, accuracy=bits)))


def test_what_pytorch_carries_between_threads_is_counted():
    """PyTorch 2.11 gives up references that it has not taken: kernels would read freed memory."""
    settings = Settings(ACCURACY, frozenset(), False)
    before = sys.getrefcount(settings)
    for _ in range(3):
        enter(settings)
        assert sys.getrefcount(settings) > before
        leave(settings)
        assert sys.getrefcount(settings) == before
        settings.is_open = True


def test_the_kernels_outlive_every_context():
    register()
    register()
    gc.collect()
    with ozaki.torch.reproducible() as calls:
        products(1)
    assert calls == {"mm": 1}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"accuracy": "best"}, ValueError, "accuracy must be"),
        ({"accuracy": "33"}, ValueError, "accuracy must be"),
        ({"accuracy": 0}, ValueError, "accuracy in bits"),
        ({"dtypes": torch.int32}, TypeError, "dtypes must be one or several of"),
        ({"dtypes": torch.float16, "accuracy": "exact"}, ValueError, "'normwise' for half precision"),
        ({"dtypes": ("float64",)}, TypeError, "dtypes must be one or several of"),
        ({"dtypes": None}, TypeError, "dtypes must be one or several of .* got None"),
    ],
)
def test_options_are_checked_on_entry(options, error, message):
    with pytest.raises(error, match=message), ozaki.torch.reproducible(**options):
        pass


def trained(model, x, steps):
    """Train a model of two layers: products of 2 addmm forward, 3 mm backward a step."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def test_leaving_warns_of_products_that_were_left_alone():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    x = random(5, 4, dtype=torch.float32)
    with pytest.warns(match="PyTorch itself") as caught, ozaki.torch.reproducible() as calls:
        trained(model, x, 3)
    assert not calls
    (warning,) = caught
    assert warning.filename == __file__
    assert "computed these calls: 15 of torch.float32 (9 mm, 6 addmm)" in str(warning.message)
    assert "dtypes=(torch.float32, torch.float64, torch.complex128)" in str(warning.message)
    half = x.half()
    only_half = r"1 of torch\.float16 \(1 mm\); of half .* are replaced, with dtypes=torch\.float16$"
    with pytest.warns(match=only_half), ozaki.torch.reproducible(dtypes=torch.float32):
        half @ half.mT


@pytest.mark.filterwarnings("error")
def test_nothing_is_said_of_what_is_replaced_and_of_integers():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    with ozaki.torch.reproducible(dtypes=torch.float32, sums=True) as calls:
        trained(model, random(5, 4, dtype=torch.float32), 3)
        torch.arange(3) @ torch.arange(3)
    assert calls == {"addmm": 6, "mm": 9, "mean": 3, "sum": 6}


def test_attention_that_is_left_alone_is_counted():
    q = random(2, 3, 4, 5, dtype=torch.float32).requires_grad_()
    with pytest.warns(match=r"2 of torch\.float32"), ozaki.torch.reproducible():  # forward and backward
        torch.nn.functional.scaled_dot_product_attention(q, q, q).sum().backward()


NEVER_REPLACED = {
    "convolution, 1 convolution_backward": lambda x: torch.conv1d(x[None], x[:, :, None]).sum().backward(),
    "_linalg_solve_ex": lambda x: torch.linalg.solve(x.detach(), x.detach()),
    "linalg_lstsq": lambda x: torch.linalg.lstsq(x.detach(), x.detach()),
    "cholesky_solve": lambda x: torch.cholesky_solve(x.detach(), torch.eye(4)),
    "sparse addmm": lambda x: x.detach().to_sparse_csr() @ x.detach().to_sparse_csr(),
}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("names", NEVER_REPLACED)
def test_leaving_warns_of_what_is_never_replaced(names):
    x = random(4, 4, dtype=torch.float32).requires_grad_()
    replaced = "to replace convolutions, say everything=True"
    never = "products of two sparse tensors" if "sparse" in names else "solves"
    advice = replaced if "convolution" in names else f"{never} are never replaced"
    said = rf"\(1 {names}\); {advice}"
    with pytest.warns(match=said), ozaki.torch.reproducible(dtypes=torch.float32):
        NEVER_REPLACED[names](x)


@pytest.mark.filterwarnings("error")
def test_nothing_is_said_after_an_exception():
    x = random(2, 2)
    with pytest.raises(RuntimeError, match="same dtype"), ozaki.torch.reproducible():
        x.float() @ x.float() @ x


FIRST_COMPILED_WITHIN = """
import sys, torch, ozaki.torch

def backend(graph, inputs):
    raise AssertionError("compiled in the mode")

assert "torch._dynamo" not in sys.modules
x = torch.ones(3, 3, dtype=torch.float64)
with ozaki.torch.reproducible() as calls:
    torch.compile(lambda x: x @ x, backend=backend)(x)
assert calls == {"mm": 1}, calls
"""


def test_functions_that_are_first_compiled_within_run_as_written():
    """In a process of its own, in which nothing has loaded PyTorch's compiler."""
    subprocess.run([sys.executable, "-c", FIRST_COMPILED_WITHIN], check=True, timeout=120)


def several_products(a, b, v):
    return a @ b, torch.mv(a, v), torch.dot(v, v), torch.addmm(v, a, b), a[:, :1] @ b[:1]


@pytest.mark.slow
def test_compiled_functions_run_as_written():
    a, b, v = random(4, 4), random(4, 4, seed=1), random(4)
    compiled = torch.compile(several_products)
    native = compiled(a, b, v)
    with ozaki.torch.reproducible() as calls:
        with ozaki.torch.reproducible():
            pass
        ours = compiled(a, b, v)
    assert calls == {"mm": 2, "mv": 1, "dot": 1, "addmm": 1}
    with ozaki.torch.reproducible():
        expected = several_products(a, b, v)
    assert all(map(same_bits, ours, expected))
    assert all(map(same_bits, compiled(a, b, v), native))


def test_entering_within_a_compiled_function_is_an_error():
    def function(a):
        with ozaki.torch.reproducible():
            return a @ a

    with pytest.raises(RuntimeError, match="enter it around the call"):
        torch.compile(function, backend="eager")(random(4, 4))
