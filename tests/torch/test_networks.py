"""Layers of networks in a mode of everything: exact sums, for any threads, cuts and chunks."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ozaki.torch  # noqa: E402
from ozaki.rowwise.windows import Windows  # noqa: E402
from ozaki.torch import sizes  # noqa: E402
from ozaki.torch.windows import _copied, _views  # noqa: E402

F = torch.nn.functional
SETTINGS = [(1, 0, 1, 1), (2, 1, 1, 2), (2, 1, 2, 4), (3, 2, 1, 1), (1, 2, 2, 2)]
"""Stride, padding, dilation and groups."""


def everything():
    return ozaki.torch.reproducible(dtypes=(torch.float32, torch.float64), everything=True)


def bits(*tensors):
    return [t.detach().numpy().tobytes() for t in tensors]


def integers(*shape, seed=0, dtype=torch.float64):
    return torch.from_numpy(np.random.default_rng(seed).integers(-9, 10, shape)).to(dtype)


def numbers(*shape, seed=0, dtype=torch.float32):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


def with_gradients(call, gradient, *leaves):
    leaves = [x.detach().clone().requires_grad_() for x in leaves]
    y = call(*leaves)
    return [y, *torch.autograd.grad(y, leaves, gradient(y))]


def convolution(ndim, transposed, stride, padding, dilation, groups):
    """A call, and the shapes of its arguments."""
    kernel = (3, 2, 1)[:ndim]
    name = f"conv{'_transpose' * transposed}{ndim}d"
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if transposed and stride > 1:
        options["output_padding"] = 1
    x = (3, 4, *(7, 6, 5)[:ndim])
    weight = (4, 8 // groups, *kernel) if transposed else (8, 4 // groups, *kernel)
    return lambda x, w, b: getattr(F, name)(x, w, b, **options), (x, weight, (8,))


@pytest.mark.parametrize("of", SETTINGS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_convolutions_of_integers_are_exact(ndim, transposed, of, monkeypatch):
    """PyTorch's are, of small integers, in any order; so are ours, in chunks, too."""
    call, shapes = convolution(ndim, transposed, *of)
    leaves = [integers(*shape, seed=i) for i, shape in enumerate(shapes)]
    expected = with_gradients(call, lambda y: integers(*y.shape, seed=9), *leaves)
    for most in (sizes.GATHERED, 200):
        monkeypatch.setattr(sizes, "GATHERED", most)
        with everything() as calls:
            found = with_gradients(call, lambda y: integers(*y.shape, seed=9), *leaves)
        assert calls["convolution"] == calls["convolution_backward"] == 1
        assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))


@pytest.mark.parametrize("gigabytes", [1, 8, 80, 141])
def test_windows_take_a_small_share_of_a_gpus_memory(gigabytes, monkeypatch):
    """Of float32 a 256th, but never less than on a CPU."""
    total = gigabytes * 10**9
    monkeypatch.setattr(sizes, "_memory", lambda _: total)
    most = sizes.most_at_once(torch.device("cuda"))
    assert most >= sizes.most_at_once(torch.device("cpu")) == sizes.GATHERED
    assert most == sizes.GATHERED or total / 300 < 4 * most <= total / 256


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("channels", [3, 6, 8, 16])
def test_windows_are_written_out_as_they_are(channels, dtype):
    """Of as many channels at a time as 16 bytes have, and of one."""
    x = numbers(2, 9, 8, channels).to(dtype)
    for start in (0, 1):
        given = Windows((3, 2), (2, 1), (1, 2), (0, 0), (4, 6), 1)
        windows = _views(x[start:], given)
        written = _copied(windows)
        assert written.is_contiguous()
        assert written.dtype is dtype
        assert torch.equal(written, windows)


@pytest.mark.parametrize("transposed", [False, True])
def test_neither_threads_nor_cuts_nor_chunks_show_in_convolutions(transposed, monkeypatch):
    call, shapes = convolution(2, transposed, 2, 1, 1, 2)
    x, weight, bias = (numbers(*shape, seed=i) for i, shape in enumerate([(9, 4, 31, 30), *shapes[1:]]))
    threads, found = torch.get_num_threads(), []
    for n, most in ((1, sizes.GATHERED), (2, 3000)):
        torch.set_num_threads(n)
        monkeypatch.setattr(sizes, "GATHERED", most)
        with everything():
            found.append(with_gradients(call, lambda y: numbers(*y.shape, seed=9), x, weight, bias))
    torch.set_num_threads(threads)
    assert bits(*found[0]) == bits(*found[1])
    with everything():
        g = numbers(*found[0][0].shape, seed=9)
        parts = [
            with_gradients(call, lambda _, c=c: g[c], x[c], weight, bias)[:2] for c in (slice(4), slice(4, 9))
        ]
    assert bits(*map(torch.cat, zip(*parts, strict=True))) == bits(*found[0][:2])


def test_the_weights_gradient_is_one_sum_over_all_windows(monkeypatch):
    """Partial sums that were rounded would lose the 1."""
    monkeypatch.setattr(sizes, "GATHERED", 1)
    g = torch.tensor([1e8, 1.0, -1e8])[:, None, None]
    with everything():
        _, of_weight, of_bias = with_gradients(
            lambda w, b: F.conv1d(torch.ones(3, 1, 1), w, b), lambda y: g, torch.ones(1, 1, 1), torch.ones(1)
        )
    assert of_weight.item() == of_bias.item() == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda x: F.conv2d(x, numbers(3, 5, 3, 3)),
        lambda x: F.conv2d(x, numbers(3, 4, 7, 3)),
        lambda x: F.conv2d(x, numbers(3, 4, 3, 3), stride=0),
        lambda x: F.conv2d(x, numbers(3, 4, 3, 3), numbers(1)),
        lambda x: F.conv_transpose2d(x, numbers(4, 3, 1, 1), padding=3),
        lambda x: F.conv2d(x, numbers(3, 4, 3, 3).double()),
        lambda x: F.conv2d(x, numbers(0, 4, 3, 3)),
        lambda x: F.layer_norm(x, (4,)),
        lambda x: x[0, 0] @ x[0, 0, :3],
    ],
)
def test_misfits_have_pytorchs_errors(call):
    with pytest.raises(RuntimeError) as native:
        call(numbers(2, 4, 5, 5))
    with pytest.raises(RuntimeError) as found, everything():
        call(numbers(2, 4, 5, 5))
    assert str(found.value) == str(native.value)


@pytest.mark.parametrize("g", [(2, 4, 3, 3), (1, 3, 3, 3), (2, 3, 2, 3), (2, 3, 4, 3), (2, 2, 3, 3)])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_gradient_that_does_not_fit_is_refused(transposed, g):
    """It would be read beyond its end, or only in part."""
    x, weight = torch.ones(2, 2, 5, 5), torch.ones(3, 2, 3, 3)
    if transposed:
        x, weight = torch.ones(2, 2, 1, 1), torch.ones(2, 3, 3, 3)
    given = [1, 1], [0, 0], [1, 1], transposed, [0, 0], 1, [True, True, True]
    backward = torch.ops.aten.convolution_backward
    with everything():
        backward(torch.ones(2, 3, 3, 3), x, weight, [3], *given)
        with pytest.raises(RuntimeError):
            backward(torch.ones(g), x, weight, [3], *given)


def test_groups_that_do_not_divide_the_outputs_are_refused_by_pytorch():
    with everything(), pytest.raises(RuntimeError, match="divisible"):
        F.conv2d(torch.ones(2, 2, 5, 5), torch.ones(3, 1, 3, 3), groups=2)


def test_convolutions_of_no_samples():
    with everything():
        y, *gradients = with_gradients(
            lambda x, w: F.conv2d(x, w), torch.ones_like, numbers(0, 4, 5, 5), numbers(3, 4, 3, 3)
        )
    assert y.shape == (0, 3, 3, 3)
    assert [g.shape for g in gradients] == [(0, 4, 5, 5), (3, 4, 3, 3)]
    assert not gradients[1].any()


NORMS = {
    "batch": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    "evaluated": lambda x, w, b: F.batch_norm(x, b.detach(), w.detach() ** 2, w, b),
    "group": lambda x, w, b: F.group_norm(x, 2, w, b),
    "instance": lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_have_gradients_and_are_near_pytorchs(name):
    leaves = [numbers(*s, seed=i, dtype=torch.float64) for i, s in enumerate([(3, 4, 5, 2), (4,), (4,)])]
    expected = with_gradients(NORMS[name], lambda y: y.detach() ** 2, *leaves)
    with everything():
        found = with_gradients(NORMS[name], lambda y: y.detach() ** 2, *leaves)
        inputs = [x.requires_grad_() for x in leaves] if name != "evaluated" else [leaves[0].requires_grad_()]
        call = NORMS[name] if name != "evaluated" else lambda x: NORMS[name](x, *leaves[1:])
        assert torch.autograd.gradcheck(call, inputs, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", NORMS)
def test_threads_and_the_order_of_samples_do_not_show_in_norms(name):
    leaves = [numbers(*s, seed=i) for i, s in enumerate([(40, 4, 33, 9), (4,), (4,)])]
    threads, found, order = torch.get_num_threads(), [], torch.arange(40).flip(0)
    for n, at in ((1, order.flip(0)), (2, order)):
        torch.set_num_threads(n)
        g = numbers(40, 4, 33, 9, seed=7)[at]
        with everything():
            y, of_x, *others = with_gradients(NORMS[name], lambda _, g=g: g, leaves[0][at], *leaves[1:])
        found.append(bits(y[at], of_x[at], *others))
    torch.set_num_threads(threads)
    assert found[0] == found[1]


def test_batch_norms_of_samples_without_length():
    x, g = numbers(6, 3), numbers(6, 3, seed=1)
    with everything():
        found = with_gradients(lambda x: F.batch_norm(x, None, None, None, None, True), lambda _: g, x)
        expected = with_gradients(
            lambda x: F.batch_norm(x[:, :, None], None, None, None, None, True)[:, :, 0], lambda _: g, x
        )
    assert bits(*found) == bits(*expected)


def test_running_statistics_are_correctly_rounded_sums():
    x = numbers(6, 3, 7)
    mean, var = torch.zeros(3), torch.ones(3)
    with everything():
        F.batch_norm(x, mean, var, training=True, momentum=0.25)
        rows = x.transpose(0, 1).reshape(3, -1)
        expected = rows.mean(1) * 0.25, torch.full((3,), 0.75) + rows.var(1) * 0.25
    assert bits(mean, var) == bits(*expected)


WINDOWS = {
    "max_pool1d": lambda x: F.max_pool1d(x.flatten(2), 3, 2, 1),
    "max_pool2d": lambda x: F.max_pool2d(x.flatten(2, 3), 3, 2, 1),
    "max_pool3d": lambda x: F.max_pool3d(x, 3, 1, 1),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x.flatten(2, 3), (5, 3)),
    "adaptive_max_pool3d": lambda x: F.adaptive_max_pool3d(x, (2, 3, 2)),
    "nearest1d": lambda x: F.interpolate(x.flatten(2), scale_factor=1.7),
    "nearest2d": lambda x: F.interpolate(x.flatten(2, 3), size=(31, 3)),
    "nearest3d": lambda x: F.interpolate(x, scale_factor=2),
    "nearest exact": lambda x: F.interpolate(x, scale_factor=(2, 1.3, 0.7), mode="nearest-exact"),
    "global mean": lambda x: F.adaptive_avg_pool2d(x.flatten(2, 3), 1),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_what_windows_share_is_summed_exactly(name):
    """Gradients are small integers, whose sums PyTorch makes without an error."""
    x = integers(2, 3, 4, 5, 6) + numbers(2, 3, 4, 5, 6, dtype=torch.float64) / 16
    expected = with_gradients(WINDOWS[name], lambda y: 120 * integers(*y.shape, seed=3), x)
    with everything():
        found = with_gradients(WINDOWS[name], lambda y: 120 * integers(*y.shape, seed=3), x)
    if name == "global mean":
        torch.testing.assert_close(found, expected, rtol=1e-14, atol=1e-14)
    else:
        assert bits(*(y + 0 for y in found)) == bits(*(y + 0 for y in expected))


def test_the_order_in_which_windows_overlap_does_not_show():
    """Partial sums that are rounded lose the 1."""
    x, g = torch.tensor([[[0.0, 0.0, 5.0, 0.0, 0.0]]]), torch.tensor([[[1e8, 1.0, -1e8]]])
    with everything():
        _, of_x = with_gradients(lambda x: F.max_pool1d(x, 3, 1), lambda y: g, x)
    assert of_x.flatten().tolist() == [0, 0, 1, 0, 0]


def trained(threads, device="cpu"):
    """The state and the losses after some steps of a network with batch norms, dropout and pooling."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    with everything():
        model = torch.nn.Sequential(
            *(torch.nn.Conv2d(3, 8, 3, padding=1, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU()),
            *(
                torch.nn.MaxPool2d(3, 2, 1),
                torch.nn.Conv2d(8, 8, 3, 2, 1, groups=4),
                torch.nn.GroupNorm(2, 8),
            ),
            *(torch.nn.SiLU(), torch.nn.AvgPool2d(2), torch.nn.Dropout(0.3), torch.nn.Flatten()),
            torch.nn.Linear(32, 5),
        ).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
        x, target, losses = torch.randn(12, 3, 16, 16).to(device), (torch.arange(12) % 5).to(device), []
        for _ in range(8):
            optimizer.zero_grad()
            losses.append(F.cross_entropy(model(x), target))
            losses[-1].backward()
            optimizer.step()
    torch.set_num_threads(before)
    return bits(*(v.cpu() for v in model.state_dict().values()), *(loss.cpu() for loss in losses)), losses


def test_a_convolutional_network_trains_to_one_checkpoint():
    found, losses = trained(1)
    assert found == trained(2)[0]
    assert losses[-1] < losses[0] - 0.1
