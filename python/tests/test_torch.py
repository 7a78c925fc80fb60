"""plumb.torch beside PyTorch, on the CPU and where there is one on the GPU."""
import shutil

import numpy as np
import pytest

import plumb

torch = pytest.importorskip("torch")

import plumb.torch as by_plumb  # noqa: E402

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
on_each_device = pytest.mark.parametrize("device", DEVICES)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
IMAGES = {1: (11,), 2: (9, 8), 3: (6, 7, 5)}


@pytest.fixture(autouse=True)
def pytorch_computes_in_fp32(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def whole(seed, *shape, dtype=torch.float64, device="cpu"):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, shape, generator=generator).to(dtype).to(device)


@on_each_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_tensors_are_taken_and_made(device, dtype):
    x, w = whole(1, 2, 3, 8, 8, dtype=dtype, device=device), whole(2, 4, 3, 3, 3, dtype=dtype, device=device)
    y = plumb.conv(x, w, padding=1)
    assert isinstance(y, torch.Tensor) and y.dtype == dtype and y.device == x.device
    torch.testing.assert_close(y.double(), torch.nn.functional.conv2d(x.double(), w.double(), padding=1).to(
        dtype).double())
    out = torch.empty_like(y)
    assert plumb.conv(x.permute(0, 1, 3, 2), w, padding=1, out=out) is out


@on_each_device
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


@on_each_device
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_transposed(axes, device):
    x, w, bias = (whole(6, 2, 4, *IMAGES[axes], device=device), whole(7, 4, 3, *(3,) * axes, device=device),
                  whole(8, 6, device=device))
    name = f"conv_transpose{axes}d"
    settings = dict(stride=2, padding=1, output_padding=1, groups=2)
    torch.testing.assert_close(getattr(by_plumb, name)(x, w, bias, **settings),
                               getattr(torch.nn.functional, name)(x, w, bias, **settings))
    with pytest.raises(plumb.Error, match="output_padding is 2 with a stride of 2"):
        getattr(by_plumb, name)(x, w, stride=2, output_padding=2)


def leaf(random, device, *shape):
    """A tensor of random numbers that a gradient is wanted by."""
    return torch.randn(shape, dtype=torch.float64, generator=random).to(device).requires_grad_()


@on_each_device
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("boundary", ["zeros", "periodic", "reflect", "clamp"])
def test_gradcheck(axes, boundary, device):
    random = torch.Generator().manual_seed(9)
    x, w, bias = (leaf(random, device, *shape) for shape in ((2, 4) + (4,) * axes, (2, 2) + (2,) * axes, (2,)))
    function = getattr(by_plumb, f"conv{axes}d")

    def call(x, w, bias):
        return function(x, w, bias, stride=2, padding=1, groups=2, boundary=boundary)

    assert torch.autograd.gradcheck(call, (x, w, bias))
    assert torch.autograd.gradgradcheck(call, (x, w, bias))


class Watching(torch.utils._python_dispatch.TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        self.seen.append(str(function))
        return function(*arguments, **(named or {}))


@on_each_device
@pytest.mark.parametrize("settings", [dict(), dict(stride=2, padding=1, boundary="periodic"), dict(padding="same")])
def test_operators_are_called_where_somebody_watches(settings, device):
    """Elsewhere the library is called without them, and gives the same, derivatives too."""
    random = torch.Generator().manual_seed(34)
    x, w, bias, dy = (leaf(random, device, *shape) for shape in ((2, 3, 8, 7), (4, 3, 3, 3), (4,), (1, 4, 1, 1)))

    def results():
        y = by_plumb.conv2d(x, w, bias, **settings)
        dx, dw, db = torch.autograd.grad(y, (x, w, bias), dy.expand(y.shape), create_graph=True)
        again = torch.autograd.grad(y, (x, w, bias), dy.detach().expand(y.shape), retain_graph=True)
        second = torch.autograd.grad(dx.sum() + dw.square().sum(), (x, w, dy))
        return [y, dx, dw, db, *again, *second]

    found = results()
    assert found[0].grad_fn.name() == "_DirectBackward"
    with Watching() as watching:
        expected = results()
    assert any("plumb.conv.default" in name for name in watching.seen)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    with torch.no_grad():
        torch.testing.assert_close(by_plumb.conv2d(x, w, bias, **settings), expected[0], rtol=0, atol=0)


@on_each_device
def test_only_wanted_gradients_are_computed(device):
    x, w = whole(35, 2, 3, 8, 7, device=device), whole(36, 4, 3, 3, 3, device=device).requires_grad_()
    y = by_plumb.conv2d(x, w)
    assert y.grad_fn.needs_input_grad[:3] == (False, True, False)
    y.sum().backward()
    torch.testing.assert_close(w.grad, torch.autograd.grad(torch.nn.functional.conv2d(x, w).sum(), w)[0])
    by_plumb.conv2d(x.requires_grad_(), w.detach()).sum().backward()
    assert x.grad is not None


@on_each_device
def test_gradcheck_transposed(device):
    random = torch.Generator().manual_seed(10)
    x, w = leaf(random, device, 1, 4, 3, 4), leaf(random, device, 4, 1, 3, 2)
    assert torch.autograd.gradcheck(lambda x, w: by_plumb.conv_transpose2d(x, w, stride=2, padding=1, groups=2), (x, w))


@on_each_device
@pytest.mark.parametrize("requires_grad", [False, True])
def test_opcheck(requires_grad, device):
    x, w, dy = (whole(seed, *shape, device=device).requires_grad_(requires_grad)
                for seed, shape in ((11, (2, 4, 6, 5)), (12, (6, 2, 3, 3)), (13, (2, 6, 3, 3))))
    rest = ([2, 2], [1, 1, 1, 1], [1, 1], 2, "zeros", "fp32")
    bias = whole(14, 6, device=device).requires_grad_(requires_grad)
    torch.library.opcheck(torch.ops.plumb.conv.default, (x, w, None, *rest))
    torch.library.opcheck(torch.ops.plumb.conv.default, (x, w, bias, *rest))
    torch.library.opcheck(torch.ops.plumb.conv_backward_data.default, (dy, w, [2, 4, 6, 5], *rest))
    torch.library.opcheck(torch.ops.plumb.conv_backward_weights.default, (x, dy, [6, 2, 3, 3], *rest))


@on_each_device
@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect", "replicate"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_modules(axes, mode, device):
    name = f"Conv{axes}d"
    settings = dict(stride=2, padding=1, groups=2, padding_mode=mode, dtype=torch.float64, device=device)
    theirs = getattr(torch.nn, name)(4, 6, 3, **settings)
    ours = getattr(by_plumb, name)(4, 6, 3, **settings)
    ours.load_state_dict(theirs.state_dict())
    x = whole(14, 2, 4, *IMAGES[axes], device=device)
    torch.testing.assert_close(ours(x), theirs(x))


def net(device="cpu"):
    torch.manual_seed(15)
    return torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.ReLU(),
                               torch.nn.Conv2d(4, 4, 3, groups=4), torch.nn.Flatten(), torch.nn.Linear(4 * 6 * 6, 3)).to(device)


def losses(model, device="cpu", steps=12):
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = whole(16, 8, 2, 8, 8, dtype=torch.float32, device=device), (torch.arange(8) % 3).to(device)
    found = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return found


@on_each_device
def test_patch_trains_alike(device):
    expected = losses(net(device), device)
    model = net(device)
    table = by_plumb.patch(model)
    assert [row["layer"] for row in table if row["replaced"]] == ["0", "2"]
    assert isinstance(model[0], by_plumb.Conv2d)
    found = losses(model, device)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    assert found[-1] < found[0]


@on_each_device
def test_patch_says_what_is_faster(device):
    model = net(device)
    table = by_plumb.patch(model, whole(17, 1, 2, 8, 8, dtype=torch.float32, device=device))
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


@on_each_device
def test_compile_has_no_graph_break(device):
    model = net(device)
    by_plumb.patch(model)
    x = whole(18, 3, 2, 8, 8, dtype=torch.float32, device=device)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), model(x))
    compiled(x).sum().backward()
    assert model[0].weight.grad is not None


@on_each_device
def test_compile_for_any_extents(device):
    w = whole(21, 3, 2, 3, 3, dtype=torch.float32, device=device).requires_grad_()
    compiled = torch.compile(lambda x: by_plumb.conv2d(x, w, padding=1), backend="aot_eager", fullgraph=True, dynamic=True)
    for extents in ((1, 2, 8, 8), (3, 2, 9, 11), (2, 2, 16, 5)):
        x = whole(22, *extents, dtype=torch.float32, device=device)
        expected = torch.nn.functional.conv2d(x, w, padding=1)
        y = compiled(x)
        torch.testing.assert_close(y, expected)
        dw, = torch.autograd.grad(y.sum(), w)
        torch.testing.assert_close(dw, torch.autograd.grad(expected.sum(), w)[0])


@on_each_device
def test_compile_by_inductor(device):
    if device == "cpu" and not shutil.which("g++"):
        pytest.skip("no compiler, which torch.compile needs on a CPU")
    model = net(device)
    by_plumb.patch(model)
    x = whole(23, 3, 2, 8, 8, dtype=torch.float32, device=device)
    expected = model(x)
    expected.sum().backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    y = torch.compile(model, fullgraph=True)(x)
    y.sum().backward()
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close([parameter.grad for parameter in model.parameters()], gradients)


@on_each_device
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


@needs_gpu
def test_cuda_graph():
    x, w = whole(19, 1, 2, 8, 8, dtype=torch.float32, device="cuda"), torch.ones(3, 2, 3, 3, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        by_plumb.conv2d(x, w)  # a plan
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # on a stream that Plumb has not seen before
        y = by_plumb.conv2d(x, w)
    for value in (2, 3):
        x.fill_(value)
        graph.replay()
        torch.testing.assert_close(y, torch.nn.functional.conv2d(x, w))


@needs_gpu
def test_cuda_graph_of_a_training_step():
    model, eager = net("cuda"), net("cuda")
    by_plumb.patch(model)
    by_plumb.patch(eager)
    samples = [whole(seed, 8, 2, 8, 8, dtype=torch.float32, device="cuda") for seed in (24, 25, 26)]
    labels = (torch.arange(8) % 3).cuda()
    step = torch.cuda.make_graphed_callables(model, (samples[0].clone(),))
    for found, network in ((step, model), (eager, eager)):
        optimiser = torch.optim.SGD(network.parameters(), lr=0.05)
        for images in samples:
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(found(images), labels).backward()
            optimiser.step()
    torch.testing.assert_close([*model.parameters()], [*eager.parameters()])


# In a graph, weights' gradient of so many small images is summed from parts, which lie in workspace: it is PyTorch's, of
# the graph's own pool, so that what is made between two replays does not meet it.
@needs_gpu
def test_cuda_graph_keeps_its_workspace():
    x, w = (whole(seed, *shape, dtype=torch.float32, device="cuda")
            for seed, shape in ((27, (64, 16, 14, 14)), (28, (32, 16, 3, 3))))
    dy, matrix = plumb.conv(x, w), whole(33, 10, 16 * 14 * 14, dtype=torch.float32, device="cuda")
    calls = [lambda: plumb.conv(x, w), lambda: plumb.conv_backward_data(dy, w, x.shape),
             lambda: plumb.conv_backward_weights(x, dy, w.shape), lambda: plumb.conv_transpose(dy, w),
             lambda: plumb.linear(x.flatten(1), matrix, activation="relu"), lambda: plumb.max_pool(x, 2)]
    expected = [call() for call in calls]
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = [call() for call in calls]
    for _ in range(3):
        between = [torch.full((1 << size,), float("nan"), device="cuda") for size in range(8, 24)]
        graph.replay()
        del between
        torch.testing.assert_close(found, expected)


@needs_gpu
def test_cuda_graph_of_a_plan():
    x, w = whole(29, 2, 8, 16, 16, dtype=torch.float32, device="cuda"), whole(30, 8, 8, 3, 3, dtype=torch.float32,
                                                                              device="cuda")
    plan = plumb.Plan(x, w, padding=1)
    packed = plan.pack(w)
    expected = plan.execute(x, packed)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = plan.execute(x, packed), plan.execute(x, w)
    graph.replay()
    torch.testing.assert_close(found[0], expected)
    torch.testing.assert_close(found[1], expected)


@needs_gpu
def test_many_streams():
    x, w = whole(31, 4, 8, 32, 32, dtype=torch.float32, device="cuda"), whole(32, 8, 8, 3, 3, dtype=torch.float32,
                                                                             device="cuda")
    expected = torch.nn.functional.conv2d(x, w, padding=1)
    torch.cuda.synchronize()
    found = []
    for _ in range(40):  # more than queues are kept for
        with torch.cuda.stream(torch.cuda.Stream()):
            found.append(plumb.conv(x, w, padding=1))
    torch.cuda.synchronize()
    for y in found:
        torch.testing.assert_close(y, expected)


@needs_gpu
def test_mixed_devices():
    with pytest.raises(plumb.Error, match="arrays are on cuda:0 and cpu; expected all on one device"):
        plumb.conv(torch.ones(1, 1, 4, 4, device="cuda"), torch.ones(1, 1, 3, 3))
