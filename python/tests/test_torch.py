"""plumb.torch beside PyTorch, on the CPU and where there is one on the GPU."""
import numpy as np
import pytest

import plumb

torch = pytest.importorskip("torch")

import plumb.torch as by_plumb  # noqa: E402

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
IMAGES = {1: (11,), 2: (9, 8), 3: (6, 7, 5)}


def whole(seed, *shape, dtype=torch.float64, device="cpu"):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=generator).to(dtype).to(device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_tensors_are_taken_and_made(device, dtype):
    x, w = whole(1, 2, 3, 8, 8, dtype=dtype, device=device), whole(2, 4, 3, 3, 3, dtype=dtype, device=device)
    y = plumb.conv(x, w, padding=1)
    assert isinstance(y, torch.Tensor) and y.dtype == dtype and y.device == x.device
    torch.testing.assert_close(y.double(), torch.nn.functional.conv2d(x.double(), w.double(), padding=1).to(
        dtype).double())
    out = torch.empty_like(y)
    assert plumb.conv(x.permute(0, 1, 3, 2), w, padding=1, out=out) is out


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("settings", [dict(), dict(stride=2, padding=1), dict(dilation=2, groups=2),
                                      dict(padding="same", dilation=2), dict(padding="valid")])
def test_functions(axes, settings, device):
    x, w, bias = (whole(3, 2, 4, *IMAGES[axes], device=device), whole(4, 6, 4 // settings.get("groups", 1), *(3,) * axes,
                                                                     device=device), whole(5, 6, device=device))
    name = f"conv{axes}d"
    for image in (x, x[0]):
        theirs = getattr(torch.nn.functional, name)(image, w, bias, **settings)
        torch.testing.assert_close(getattr(by_plumb, name)(image, w, bias, **settings), theirs)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_transposed(axes):
    x, w, bias = whole(6, 2, 4, *IMAGES[axes]), whole(7, 4, 3, *(3,) * axes), whole(8, 6)
    name = f"conv_transpose{axes}d"
    settings = dict(stride=2, padding=1, output_padding=1, groups=2)
    torch.testing.assert_close(getattr(by_plumb, name)(x, w, bias, **settings),
                               getattr(torch.nn.functional, name)(x, w, bias, **settings))
    with pytest.raises(plumb.Error, match="output_padding is 2 with a stride of 2"):
        getattr(by_plumb, name)(x, w, stride=2, output_padding=2)


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("boundary", ["zeros", "periodic", "reflect", "clamp"])
def test_gradcheck(axes, boundary):
    random = torch.Generator().manual_seed(9)
    x = torch.randn(2, 4, *(4,) * axes, dtype=torch.float64, generator=random, requires_grad=True)
    w = torch.randn(2, 2, *(2,) * axes, dtype=torch.float64, generator=random, requires_grad=True)
    bias = torch.randn(2, dtype=torch.float64, generator=random, requires_grad=True)
    function = getattr(by_plumb, f"conv{axes}d")

    def call(x, w, bias):
        return function(x, w, bias, stride=2, padding=1, groups=2, boundary=boundary)

    assert torch.autograd.gradcheck(call, (x, w, bias))
    assert torch.autograd.gradgradcheck(call, (x, w, bias))


def test_gradcheck_transposed():
    random = torch.Generator().manual_seed(10)
    x = torch.randn(1, 4, 3, 4, dtype=torch.float64, generator=random, requires_grad=True)
    w = torch.randn(4, 1, 3, 2, dtype=torch.float64, generator=random, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: by_plumb.conv_transpose2d(x, w, stride=2, padding=1, groups=2), (x, w))


@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(requires_grad):
    x, w = (tensor.requires_grad_(requires_grad) for tensor in (whole(11, 2, 4, 6, 5), whole(12, 6, 2, 3, 3)))
    dy = whole(13, 2, 6, 3, 3).requires_grad_(requires_grad)
    rest = ([2, 2], [1, 1, 1, 1], [1, 1], 2, "zeros", "fp32")
    bias = whole(14, 6).requires_grad_(requires_grad)
    torch.library.opcheck(torch.ops.plumb.conv.default, (x, w, None, *rest))
    torch.library.opcheck(torch.ops.plumb.conv.default, (x, w, bias, *rest))
    torch.library.opcheck(torch.ops.plumb.conv_backward_data.default, (dy, w, [2, 4, 6, 5], *rest))
    torch.library.opcheck(torch.ops.plumb.conv_backward_weights.default, (x, dy, [6, 2, 3, 3], *rest))


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect", "replicate"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_modules(axes, mode):
    name = f"Conv{axes}d"
    settings = dict(stride=2, padding=1, groups=2, padding_mode=mode, dtype=torch.float64)
    theirs = getattr(torch.nn, name)(4, 6, 3, **settings)
    ours = getattr(by_plumb, name)(4, 6, 3, **settings)
    ours.load_state_dict(theirs.state_dict())
    x = whole(14, 2, 4, *IMAGES[axes])
    torch.testing.assert_close(ours(x), theirs(x))


def net():
    torch.manual_seed(15)
    return torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.ReLU(),
                               torch.nn.Conv2d(4, 4, 3, groups=4), torch.nn.Flatten(), torch.nn.Linear(4 * 6 * 6, 3))


def losses(model, steps=12):
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = whole(16, 8, 2, 8, 8, dtype=torch.float32), torch.arange(8) % 3
    found = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return found


def test_patch_trains_alike():
    expected = losses(net())
    model = net()
    table = by_plumb.patch(model)
    assert [row["layer"] for row in table if row["replaced"]] == ["0", "2"]
    assert isinstance(model[0], by_plumb.Conv2d)
    found = losses(model)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert found[-1] < found[0]


def test_patch_says_what_is_faster():
    model = net()
    table = by_plumb.patch(model, whole(17, 1, 2, 8, 8, dtype=torch.float32))
    for row in table:
        assert row["replaced"] == (row["plumb_seconds"] < row["pytorch_seconds"])
        assert row["replaced"] == (type(model[int(row["layer"])]) is by_plumb.Conv2d)
    assert len(table) == 2 and "pytorch_seconds" in repr(table)


def test_errors_are_plumbs():
    with pytest.raises(plumb.Error, match="input has 2 axes; expected 4"):
        by_plumb.conv2d(torch.ones(3, 3), torch.ones(1, 1, 3, 3))
    with pytest.raises(plumb.Error, match="int64"):
        plumb.conv(torch.ones(1, 1, 4, 4, dtype=torch.int64), torch.ones(1, 1, 3, 3))
    with pytest.raises(plumb.Error, match="expected w to be"):
        by_plumb.conv2d(torch.ones(1, 2, 4, 4), torch.ones(1, 1, 3, 3))


def test_compile_has_no_graph_break():
    model = net()
    by_plumb.patch(model)
    x = whole(18, 3, 2, 8, 8, dtype=torch.float32)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), model(x))
    compiled(x).sum().backward()
    assert model[0].weight.grad is not None


@pytest.mark.parametrize("device", DEVICES)
def test_autocast_is_pytorchs(device):
    x, w, bias = whole(20, 2, 3, 8, 8, dtype=torch.float32, device=device), torch.randn(4, 3, 3, 3, device=device), None
    weight = w.clone().requires_grad_()
    with torch.autocast(device, dtype=torch.bfloat16):
        for image in (x, x.bfloat16()):
            y = by_plumb.conv2d(image, weight, bias)
            assert y.dtype == torch.bfloat16
            torch.testing.assert_close(y, torch.nn.functional.conv2d(image, w, bias))
        assert by_plumb.conv2d(x.double(), w.double()).dtype == torch.float64
        y.float().sum().backward()
        compiled = torch.compile(lambda x: by_plumb.conv2d(x, w), backend="aot_eager", fullgraph=True)
        assert compiled(x).dtype == torch.bfloat16
    assert weight.grad.dtype == torch.float32


def test_cuda_graph():
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    x, w = whole(19, 1, 2, 8, 8, dtype=torch.float32, device="cuda"), torch.ones(3, 2, 3, 3, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        by_plumb.conv2d(x, w)  # plans, and the queue's workspace grows
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        y = by_plumb.conv2d(x, w)
    x.fill_(2)
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(y, torch.nn.functional.conv2d(x, w))


def test_mixed_devices():
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    with pytest.raises(plumb.Error, match="arrays are on cuda:0 and cpu; expected all on one device"):
        plumb.conv(torch.ones(1, 1, 4, 4, device="cuda"), torch.ones(1, 1, 3, 3))
