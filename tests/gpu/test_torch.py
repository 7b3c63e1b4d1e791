"""PyTorch on a GPU: the bits of a CPU, in the mode and by the functions, on the current stream."""

import threading
from contextlib import nullcontext

import pytest

torch = pytest.importorskip("torch")

import ozaki  # noqa: E402
import ozaki.torch  # noqa: E402
from ozaki.torch import windows  # noqa: E402
from tests.torch import test_draws, test_gradients, test_networks, test_optimizers, test_pooling  # noqa: E402
from tests.torch.test_everything import (  # noqa: E402
    CASES,
    bits,
    drawn,
    everything,
    loss_of_images,
    trained,
)
from tests.torch.test_mode import ADDED, DTYPES, random, same_bits  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch has no GPU"),
]
F = torch.nn.functional


def both(function, *tensors, **options):
    """The results on a CPU and on a GPU, and the operators replaced on the GPU."""
    with ozaki.torch.reproducible(dtypes=DTYPES, **options):
        expected = function(*tensors)
    with ozaki.torch.reproducible(dtypes=DTYPES, **options) as calls:
        result = function(*(t.cuda() for t in tensors))
    assert result.is_cuda
    return result.cpu(), expected, calls


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("mm", ((50, 70), (70, 30))),
        ("bmm", ((4, 50, 70), (4, 70, 30))),
        ("bmm", ((40, 5, 7), (40, 7, 3))),
        ("mv", ((50, 70), (70,))),
        ("dot", ((70,), (70,))),
        ("vdot", ((70,), (70,))),
        ("mm", ((5, 0), (0, 3))),
        ("mm", ((0, 5), (5, 3))),
    ],
)
def test_products(name, shapes, dtype):
    tensors = [random(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes)]
    result, expected, calls = both(getattr(torch, name), *tensors)
    assert calls == {name: 1}
    assert same_bits(result, expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (0.3, -1.7), (2, 0)])
@pytest.mark.parametrize(("name", "shape", "of_a", "of_b"), ADDED)
def test_products_and_an_addend(name, shape, of_a, of_b, alpha, beta, dtype):
    tensors = [random(*s, dtype=dtype, seed=i) for i, s in enumerate((shape, of_a, of_b))]
    result, expected, calls = both(lambda *t: getattr(torch, name)(*t, alpha=alpha, beta=beta), *tensors)
    assert calls[name] == 1
    assert same_bits(result, expected)
    in_place = tensors[0].cuda()
    with ozaki.torch.reproducible(dtypes=DTYPES):
        getattr(in_place, f"{name}_")(*(t.cuda() for t in tensors[1:]), alpha=alpha, beta=beta)
    assert same_bits(in_place.cpu(), expected)


def test_views_and_sums():
    a = random(60, 80, dtype=torch.complex128)
    result, expected, _ = both(lambda a: a.mT.conj() @ a[:, ::2], a)
    assert same_bits(result, expected)
    result, expected, _ = both(lambda a: a.conj().imag @ a.real.mT, a)
    assert same_bits(result, expected)
    for function in (torch.sum, torch.mean, lambda x: x.sum(0), lambda x: x.mT.mean(-1, keepdim=True)):
        result, expected, calls = both(function, a, sums=True)
        assert sum(calls.values()) == 1
        assert same_bits(result, expected)


def test_backward_passes_run_in_the_mode_of_their_caller():
    """PyTorch's engine makes the products of a GPU's backward pass on a thread of its own."""

    def gradient(x, w):
        w = w.clone().requires_grad_()
        F.linear(x, w).square().sum().backward()
        return w.grad

    result, expected, calls = both(gradient, random(40, 30), random(20, 30), sums=True)
    assert calls["mm"] == 2
    assert same_bits(result, expected)


NORMS = [
    (name, shape, parts)
    for name in test_networks.NORMS
    for shape in [(3, 4, 5, 2), (40, 4, 33, 9), (9, 4), (2, 4, 30_000)]
    for parts in (False, True)
    if name != "instance" or (len(shape) > 2 and not parts)
]
"""Instance norms need a length, and repeat weights, whose gradients then are no sums over samples."""


@pytest.mark.parametrize(("name", "shape", "parts"), NORMS)
def test_norms_have_the_bits_of_a_cpu(name, shape, parts):
    """With their derivatives; in a part of a batch, too, where these are noted."""
    leaves = [test_networks.numbers(*s, seed=i) for i, s in enumerate([shape, (4,), (4,)])]
    g, found = test_networks.numbers(*shape, seed=7), []
    for device in ("cpu", "cuda"):
        given = [x.clone().to(device).requires_grad_() for x in leaves]
        exact = ozaki.torch.ExactGradients(given[1:])
        with everything(), exact.part(0, len(g)) if parts else nullcontext():
            y = test_networks.NORMS[name](*given)
            y.backward(g.to(device))
        if parts:
            exact.write()
        found.append([t.cpu() for t in (y.detach(), *(x.grad for x in given if x.grad is not None))])
    assert len(found[0]) == len(found[1]) == 4
    assert all(map(same_bits, *found))


@pytest.mark.parametrize("name", test_gradients.NETWORKS)
def test_gradients_of_parts_have_the_bits_of_a_cpu(name):
    """Of other parts, added in another order."""

    def gradients(device, parts):
        model, x, y = test_gradients.made(name)
        model, x, y = model.to(device), x.to(device), y.to(device)
        exact = ozaki.torch.ExactGradients(model.parameters())
        test_gradients.add(exact, model, x, y, parts)
        exact.write()
        return [p.grad.cpu() for p in model.parameters()]

    found = gradients("cuda", [(2, 3), (5, 3), (0, 2)])
    assert all(map(same_bits, found, gradients("cpu", [(0, 8)])))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ozaki.torch.var(x, 1),
        lambda x: ozaki.torch.norm(x, 0),
        lambda x: ozaki.torch.cumsum(x, 1),
        lambda x: ozaki.torch.einsum("ij,kj->ik", x, x),
    ],
    ids=["var", "norm", "cumsum", "einsum"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_functions_and_their_derivatives(function, dtype):
    of = []
    for x in (random(20, 300, dtype=dtype), random(20, 300, dtype=dtype).cuda()):
        x.requires_grad_()
        result = function(x)
        result.backward(result.detach())
        of.append((result.detach().cpu(), x.grad.cpu()))
    assert all(map(same_bits, *of))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_attention(dtype):
    """Its products are replaced where PyTorch would fuse them, and counted where they are left alone."""
    q = random(2, 3, 8, 16, dtype=dtype).cuda().requires_grad_()
    attend = F.scaled_dot_product_attention
    expected = attend(q.double(), q.double(), q.double())
    with ozaki.torch.reproducible(dtypes=dtype) as calls:
        result = attend(q, q, q)
        result.sum().backward()
    assert calls == {"bmm": 6}
    torch.testing.assert_close(result.double(), expected, rtol=0, atol=1e-5)
    with pytest.warns(match=f"of {dtype}"), ozaki.torch.reproducible(dtypes=torch.complex64):
        attend(q, q, q).sum().backward()


def test_linear_algebra():
    with ozaki.torch.reproducible() as calls:
        torch.linalg.pinv(random(20, 10).cuda())
    assert sum(calls.values()) >= 1


def test_the_current_stream_is_used():
    a, b = random(700, 700), random(700, 700, seed=1)
    with ozaki.torch.reproducible():
        expected = a @ b
        stream = torch.cuda.Stream()
        on_device = a.cuda(), b.cuda()
        torch.cuda.synchronize()
        for _ in range(3):  # compiled, captured, replayed
            with torch.cuda.stream(stream):
                torch.cuda._sleep(200_000_000)  # what is not queued behind this sees zeros
                late = torch.zeros_like(on_device[0])
                late.copy_(on_device[0])
                result = late @ on_device[1]
                later = result + 0
            stream.synchronize()
            assert same_bits(later.cpu(), expected)


def test_memory_that_another_stream_reads_is_not_used_again():
    """PyTorch's allocator waits for the streams that a tensor was recorded on."""
    a = random(512, 512).cuda()
    side = torch.cuda.Stream()
    with ozaki.torch.reproducible():
        expected = (a @ a).cpu()
        for _ in range(3):
            result = a @ a
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.cuda._sleep(200_000_000)
                kept = result + 0
            result.record_stream(side)
            del result
            others = [a @ -a for _ in range(5)]  # meanwhile
            side.synchronize()
            assert same_bits(kept.cpu(), expected)
            assert same_bits(others[-1].cpu(), -expected)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("mm", ((300, 200), (200, 500))),
        ("addmm", ((500,), (300, 200), (200, 500))),
        ("mv", ((4000, 200), (200,))),
        ("bmm", ((3, 200, 200), (3, 200, 200))),
        ("bmm", ((100, 40, 40), (100, 40, 40))),
        ("bmm", ((100, 40, 40), (100, 40, 39))),
    ],
)
def test_results_are_in_pytorchs_memory(name, shapes):
    """From the start, or copied to it: its allocator counts them, and has them back."""
    tensors = [random(*shape, seed=i).cuda() for i, shape in enumerate(shapes)]
    with ozaki.torch.reproducible():
        for _ in range(4):  # launched, captured, replayed
            before = torch.cuda.memory_allocated()
            result = getattr(torch, name)(*tensors)
            assert torch.cuda.memory_allocated() - before >= result.nbytes
            assert result.untyped_storage().nbytes() == result.nbytes
            del result
            assert torch.cuda.memory_allocated() == before


def test_results_of_large_products_are_not_copied():
    """A second allocation of their size would not fit."""
    a = random(8000, 4).cuda()
    ozaki.torch.matmul(a, a.mT)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties().total_memory
    try:
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 800 * 2**20) / total)
        result = ozaki.torch.matmul(a, a.mT)
        assert result.nbytes == 8 * 8000**2
        with pytest.raises(MemoryError):
            ozaki.torch.matmul(a, a.mT)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert same_bits(ozaki.torch.matmul(a, a.mT), result)


def test_cupys_own_stream_is_left_alone():
    cupy = pytest.importorskip("cupy")
    a = random(64, 48)
    with ozaki.torch.reproducible():
        expected = a @ a.mT
        x, stream = a.cuda(), cupy.cuda.Stream(non_blocking=True)
        torch.cuda.synchronize()
        with stream:
            for _ in range(3):
                assert same_bits((x @ x.mT).cpu(), expected)
                assert cupy.cuda.get_current_stream() is stream
    mine = cupy.asarray(a.numpy())
    assert not hasattr(ozaki.matmul(mine, mine.T).data.mem, "tensor")


def test_graphs_of_pytorch_are_refused():
    a = random(20, 20).cuda()

    def capture():
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            torch.mul(a, 2)  # a graph of PyTorch's is not to be empty
            a @ a

    a @ a  # PyTorch makes its handle of cuBLAS before a capture
    with pytest.raises(RuntimeError, match="cannot be captured"), ozaki.torch.reproducible():
        capture()
    capture()


def test_threads():
    a = random(300, 200)
    with ozaki.torch.reproducible():
        expected = a @ a.mT
    results = []

    def work():
        with ozaki.torch.reproducible(), torch.cuda.stream(torch.cuda.Stream()):
            x = a.cuda()
            results.extend((x @ x.mT).cpu() for _ in range(5))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 20
    assert all(same_bits(x, expected) for x in results)


def test_functions():
    a, b = random(6, 30, 40), random(40, 20)
    assert same_bits(ozaki.torch.matmul(a.cuda(), b.cuda()).cpu(), ozaki.torch.matmul(a, b))
    assert same_bits(ozaki.torch.dot(a.cuda(), a.cuda()).cpu(), ozaki.torch.dot(a, a))
    assert same_bits(ozaki.torch.sum(a.cuda(), (0, 2)).cpu(), ozaki.torch.sum(a, (0, 2)))
    leaves = [t.cuda().requires_grad_() for t in (a[:2, :3, :4], random(2, 4, 5))]
    assert torch.autograd.gradcheck(ozaki.torch.matmul, leaves, fast_mode=True)
    compiled = torch.compile(lambda a, b: ozaki.torch.matmul(a, b), backend="aot_eager", fullgraph=True)
    assert same_bits(compiled(a.cuda(), b.cuda()).cpu(), ozaki.torch.matmul(a, b))


def test_tensors_in_tensors_out():
    a = random(30, 40)
    for function in (ozaki.sum, ozaki.norm, ozaki.cumsum, lambda x: ozaki.matmul(x, x.mT)):
        result = function(a.cuda())
        assert result.is_cuda
        assert same_bits(result.cpu(), function(a))
    half = a.bfloat16()
    assert same_bits(ozaki.sum(half.cuda()).float().cpu(), ozaki.sum(half).float())
    with pytest.raises((TypeError, ValueError)):
        ozaki.matmul(a.cuda(), a.mT)
    with pytest.raises(RuntimeError, match="same device"), ozaki.torch.reproducible():
        a.cuda() @ a.mT


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_products_of_half_precision(dtype):
    """Read as they are, if they are large, or as float32: transposed, symmetric, far apart, Inf and NaN."""
    low, high = (-24, 15) if dtype is torch.float16 else (-133, 127)
    a, b = random(1030, 600, dtype=torch.float32), random(600, 700, dtype=torch.float32)
    a[:9] = torch.ldexp(a[:9], torch.arange(low // 2 - 5, low // 2 + 4)[:, None])
    b[:, :9] = torch.ldexp(b[:, :9], torch.arange(low // 2 - 4, low // 2 + 5))
    a[9:12], b[:, 9:12] = (torch.ldexp(x, torch.tensor(high // 2)) for x in (a[9:12], b[:, 9:12]))
    a[20, 3], a[21, 4], b[5, 22], a[30] = torch.inf, torch.nan, -torch.inf, 0
    a, b = a.to(dtype), b.to(dtype)
    wanted, found = (
        [x @ y, y.T @ x.T, x @ x.T, x[:40] @ y, x @ y[:, 0], (x[:, :30] @ y[:30]), torch.stack([x, -x]) @ y]
        for x, y in _half_pairs(a, b, dtype)
    )
    for one, other in zip(wanted, found, strict=True):
        assert one.dtype is other.dtype is dtype
        assert torch.equal(one.view(torch.int16), other.cpu().view(torch.int16))


def _half_pairs(a, b, dtype):
    """The factors on both devices, each within the mode while it is used."""
    for device in ("cpu", "cuda"):
        with ozaki.torch.reproducible(dtypes=dtype):
            yield a.to(device), b.to(device)


@pytest.mark.two_gpus
def test_another_device_than_the_current_one():
    a = random(50, 60)
    with ozaki.torch.reproducible():
        expected = a @ a.mT
        x = a.to("cuda:1")
        assert same_bits((x @ x.mT).cpu(), expected)
    assert same_bits(ozaki.torch.sum(x).cpu(), ozaki.torch.sum(a))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", CASES)
def test_everything_has_the_bits_of_a_cpu(name, dtype):
    """Values and gradients; what makes tensors of its own makes them where the others are."""
    found = []
    for device in ("cpu", "cuda"):
        x = drawn(6, 100, dtype=dtype, seed=3).to(device).requires_grad_()
        with torch.device(device), everything():
            y = CASES[name](x)
            y.sum().backward()
        found.append(bits(y, x.grad))
    assert found[0] == found[1]


@pytest.mark.parametrize("of_points", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_of_classes_have_the_bits_of_a_cpu(reduction, weighted, of_points):
    arguments = reduction, weighted, of_points
    assert loss_of_images(*arguments, device="cuda") == loss_of_images(*arguments)


def test_a_transformer_trains_to_the_checkpoint_of_a_cpu():
    assert trained("cuda") == trained("cpu")


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("most", [200, 3000])
def test_chunks_do_not_show_in_convolutions(transposed, most, monkeypatch):
    """Of four channels at a time, of fewer, and of all windows at once."""
    monkeypatch.setattr(windows, "most_at_once", lambda device: most if device.type == "cuda" else 1 << 24)
    for groups in (1, 2):
        call, shapes = test_networks.convolution(2, transposed, 2, 1, 1, groups)
        leaves = [test_networks.numbers(*s, seed=i) for i, s in enumerate([(3, 4, 31, 30), *shapes[1:]])]
        found = []
        for device in ("cpu", "cuda"):
            given = [x.to(device) for x in leaves]
            with everything():
                made = test_networks.with_gradients(
                    call, lambda y: test_networks.numbers(*y.shape, seed=9).to(y.device), *given
                )
            found.append(bits(*made))
        assert found[0] == found[1]


def test_a_convolutional_network_trains_to_the_checkpoint_of_a_cpu():
    assert test_networks.trained(1, "cuda")[0] == test_networks.trained(1)[0]


@pytest.mark.parametrize("name", test_pooling.CASES)
def test_pooling_has_the_bits_of_a_cpu(name):
    x, call = drawn(2, 3, 7, 8, seed=3), test_pooling.CASES[name]
    with everything():
        expected = test_pooling.both(call, x)
        g = drawn(*expected[0].shape, seed=5).cuda()
        assert bits(*test_pooling.both(call, x.cuda(), g)) == bits(*expected)


@pytest.mark.parametrize("name", test_draws.DRAWS)
def test_random_numbers_are_those_of_a_cpu(name):
    found, (call, _) = [], test_draws.DRAWS[name]
    for device in ("cpu", "cuda"):
        torch.manual_seed(3)
        with torch.device(device), everything():
            found.append(bits(call()))
    assert found[0] == found[1]


def test_foreach_is_refused_where_it_is_one_kernel():
    x = torch.ones(3, device="cuda")
    mode = ozaki.torch.reproducible(strict=True)
    with mode, pytest.raises(RuntimeError, match="foreach=False"):
        torch._foreach_addcmul_([x], [x], [x])


@pytest.mark.parametrize("name", test_optimizers.OPTIMIZERS)
def test_optimizers_have_the_bits_of_the_plain_form_on_a_cpu(name):
    expected = test_optimizers.stepped(name, "plain")
    forms = ["plain"] + ["foreach"] * (name != "AdamW with a tensor")
    fused = name.split()[0] in test_optimizers.FUSED and name != "Adagrad"  # whose fused form is for CPUs
    forms += ["fused"] * fused
    for form in forms:
        assert test_optimizers.stepped(name, form, "cuda") == expected


@pytest.mark.parametrize(
    "shapes", [((370, 110), (5,), ()), ((300, 30),) * 3 + ((500, 400),) * 2 + ((64,),) * 9]
)
def test_clipping_has_the_bits_of_a_cpu(shapes):
    expected = test_optimizers.clipped(shapes=shapes)
    for options in ({}, {"foreach": True}, {"foreach": False}):
        assert test_optimizers.clipped("cuda", shapes, **options) == expected


@pytest.mark.parametrize("kind", [torch.optim.NAdam, torch.optim.RAdam, torch.optim.ASGD])
def test_defaults_of_other_formulas_are_refused(kind):
    x = torch.ones(3, device="cuda", requires_grad=True)
    x.grad = torch.ones_like(x)
    with everything(), pytest.raises(RuntimeError, match=f"{kind.__name__} .* write foreach=False"):
        kind([x]).step()


def test_a_models_fingerprint_does_not_tell_its_device():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    expected = ozaki.fingerprint(model)
    assert ozaki.fingerprint(model.cuda()) == ozaki.fingerprint(model.state_dict()) == expected
