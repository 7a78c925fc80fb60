"""Arrays of CuPy: plumb.conv on the current stream, and plumb.ndimage beside cupyx.scipy.ndimage. But for one test it needs a GPU."""
import numpy as np
import pytest
from reference import arrays, conv

import plumb
from plumb import ndimage

cupy = pytest.importorskip("cupy")
cupyx_ndimage = pytest.importorskip("cupyx.scipy.ndimage")


def devices():
    try:
        return cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


needs_gpu = pytest.mark.skipif(not devices(), reason="no GPU")
IMAGES = {1: (11,), 2: (9, 8), 3: (6, 7, 5)}
MODES = ["reflect", "constant", "nearest", "mirror", "wrap"]


# Arrays over addresses that nothing lies at, which a machine without a GPU can make: they are described and refused.
def described(shape, dtype="float32", device=0, address=4096):
    memory = cupy.cuda.UnownedMemory(address, 1 << 20, None, device_id=device)
    return cupy.ndarray(shape, dtype, memptr=cupy.cuda.MemoryPointer(memory, 0))


@pytest.mark.parametrize("device", [0, 3])
def test_what_an_array_says_of_itself(device):
    w = np.ones((3, 2, 3, 3), "float32")
    with pytest.raises(plumb.Error, match=f"arrays are on cuda:{device} and cpu; expected all on one device"):
        plumb.conv(described((1, 2, 8, 8), device=device), w)
    with pytest.raises(plumb.Error, match=r"x is \[1, 4, 8, 9\]"):
        plumb.conv(described((1, 4, 9, 8), device=device).transpose(0, 1, 3, 2), described(w.shape, device=device))
    with pytest.raises(plumb.Error, match="x is f64, w f32|f64"):
        plumb.conv(described((1, 2, 8, 8), "float64", device), described(w.shape, device=device))
    with pytest.raises(plumb.Error, match="x has 7 axes; expected at most 6"):
        plumb.conv(described((1,) * 7), w)
    with pytest.raises(plumb.Error, match="no multiple of an element's 4 bytes"):
        plumb.conv(described((1, 2, 8, 8), address=4098), w)


@needs_gpu
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_forward(axes, dtype):
    x, w, bias = arrays(axes, (2, 4) + IMAGES[axes], (6, 2) + (3,) * axes, (6,), dtype=dtype)
    settings = dict(stride=2, padding=1, groups=2, boundary="periodic")
    y = plumb.conv(*map(cupy.asarray, (x, w, bias)), **settings)
    assert type(y) is cupy.ndarray and y.dtype == dtype and y.device.id == cupy.cuda.Device().id
    np.testing.assert_array_equal(y.get(), conv(x, w, bias, **settings))


@needs_gpu
def test_strides_and_out():
    x, w = arrays(4, (2, 4, 10, 9), (4, 4, 3, 3))
    seen = x[:, ::-1, ::2, 1:]
    out = cupy.zeros((2, 6, 3, 4), "float32").transpose(0, 3, 2, 1)
    assert plumb.conv(cupy.asarray(x)[:, ::-1, ::2, 1:], cupy.asarray(w), out=out) is out
    np.testing.assert_array_equal(out.get(), conv(seen, w))


@needs_gpu
def test_gradients():
    x, w = arrays(5, (2, 4, 9, 8), (6, 2, 3, 3), dtype="float64")
    y = conv(x, w, stride=2, padding=1, groups=2)
    dy = arrays(6, y.shape, dtype="float64")
    settings = dict(stride=2, padding=1, groups=2)
    dx = plumb.conv_backward_data(cupy.asarray(dy), cupy.asarray(w), x.shape, **settings)
    dw, db = plumb.conv_backward_weights(cupy.asarray(x), cupy.asarray(dy), w.shape, bias=True, **settings)
    assert np.vdot(y, dy) == np.vdot(x, dx.get()) == np.vdot(w, dw.get())
    np.testing.assert_array_equal(db.get(), dy.sum((0, 2, 3)))


def slowly(x, times=200):
    """Keeps the current stream at work for some milliseconds before x is what is wanted of it."""
    other = cupy.zeros((1024, 1024), "float32")
    for _ in range(times):
        other = other @ other
    x += 1 + other[0, 0]


@needs_gpu
@pytest.mark.parametrize("non_blocking", [False, True])
def test_the_current_stream_is_used(non_blocking):
    x, w = arrays(7, (1, 2, 64, 64), (3, 2, 3, 3))
    on_device, filters = cupy.asarray(x), cupy.asarray(w)
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=non_blocking) as stream:
        slowly(on_device)
        y = plumb.conv(on_device, filters)
        y *= 2
    stream.synchronize()
    np.testing.assert_array_equal(y.get(), 2 * conv(x + 1, w))


@needs_gpu
def test_streams_that_come_and_go():
    x, dy = arrays(12, (16, 8, 24, 24), (16, 8, 22, 22))
    on_device = [cupy.asarray(array) for array in (x, dy)]
    expected = plumb.conv_backward_weights(x, dy, (8, 8, 3, 3))
    cupy.cuda.Device().synchronize()
    found = []
    for _ in range(100):  # more than queues are kept for; each with workspace, which sums of parts take
        with cupy.cuda.Stream(non_blocking=True):
            found.append(plumb.conv_backward_weights(*on_device, (8, 8, 3, 3)))
    cupy.cuda.Device().synchronize()
    for dw in found:
        np.testing.assert_array_equal(dw.get(), expected)


class Foreign:
    """An array of a library that has nothing but __cuda_array_interface__, with its stream."""

    def __init__(self, array, stream):
        self.__cuda_array_interface__ = array.__cuda_array_interface__ | {"version": 3, "stream": stream.ptr or 1}


@needs_gpu
def test_the_stream_of_the_interface_is_waited_for():
    x, w = arrays(8, (1, 2, 64, 64), (3, 2, 3, 3))
    on_device, filters = cupy.asarray(x), cupy.asarray(w)
    out = cupy.zeros((1, 3, 62, 62), "float32")
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        slowly(on_device)
    plumb.conv(Foreign(on_device, stream), Foreign(filters, stream), out=Foreign(out, stream))
    np.testing.assert_array_equal(out.get(), conv(x + 1, w))


@needs_gpu
def test_plan():
    x, w = arrays(9, (2, 3, 16, 16), (8, 3, 3, 3))
    on_device, filters = cupy.asarray(x), cupy.asarray(w)
    plan = plumb.Plan(on_device, filters, padding=1)
    assert plan.device == "cuda:0"
    y = plan.execute(on_device, plan.pack(filters))
    assert type(y) is cupy.ndarray
    np.testing.assert_array_equal(y.get(), conv(x, w, padding=1))


@needs_gpu
def test_mixed_devices():
    x, w = arrays(10, (1, 1, 8, 8), (1, 1, 3, 3))
    with pytest.raises(plumb.Error, match="arrays are on cuda:0 and cpu; expected all on one device"):
        plumb.conv(cupy.asarray(x), w)
    with pytest.raises(plumb.Error, match="expected all on one device|y is on"):
        plumb.conv(cupy.asarray(x), cupy.asarray(w), out=np.zeros((1, 1, 6, 6), "float32"))
    if devices() > 1:
        with cupy.cuda.Device(1):
            elsewhere = cupy.asarray(w)
        with pytest.raises(plumb.Error, match="arrays are on cuda:0 and cuda:1; expected all on one device"):
            plumb.conv(cupy.asarray(x), elsewhere)


def same(name, image, *arguments, of=None, **named):
    """SciPy's results, or those of another library for arrays of CuPy."""
    on_host = [one.get() if isinstance(one, cupy.ndarray) else one for one in (image, *arguments)]
    theirs = (getattr(of, name)(image, *arguments, **named).get() if of else
              getattr(pytest.importorskip("scipy.ndimage"), name)(*on_host, **named))
    ours = getattr(ndimage, name)(image, *arguments, **named)
    assert type(ours) is cupy.ndarray and ours.dtype == theirs.dtype and ours.shape == theirs.shape
    close = 1e-12 if theirs.dtype in ("float64", "complex128") else 2e-5
    np.testing.assert_allclose(ours.get(), theirs, rtol=close, atol=close * 100, err_msg=f"{name} {named}")
    out = cupy.full(theirs.shape, 7, theirs.dtype)
    assert getattr(ndimage, name)(image, *arguments, output=out, **named) is out
    np.testing.assert_array_equal(out.get(), ours.get())


# SciPy is what plumb.ndimage promises; CuPy compiles a kernel, for a second, for each shape, mode and cval that is met.
@needs_gpu
@pytest.mark.parametrize("seed", range(60))
def test_ndimage(seed):
    random = np.random.default_rng(seed)
    rank = int(random.integers(1, 5))
    shape = random.integers(4, 9, rank) if seed % 2 or rank == 4 else random.integers(20, 90, rank)
    dtype = random.choice(["float32", "float64", "int32"])
    image = cupy.asarray(random.integers(-20, 20, shape).astype(dtype))
    if random.random() < 0.3:
        image = image[::-1].T
    sizes = [int(size) for size in random.integers(1, 5, rank)]
    weights = cupy.asarray(random.integers(-3, 4, sizes).astype(dtype if random.random() < 0.5 else "float64"))
    named = dict(mode=random.choice(MODES).item(), cval=float(random.integers(0, 3)))
    origin = [int(random.integers(-(size // 2), (size - 1) // 2 + 1)) for size in sizes]
    same("convolve", image, weights, origin=origin, **named)
    same("correlate", image, weights.get().tolist(), origin=origin, **named)
    same("correlate1d", image, weights.ravel()[:5], axis=int(random.integers(-rank, rank)), **named)
    if image.dtype.kind == "f":
        same("uniform_filter", image, sizes, **named)
        same("gaussian_filter", image, 1.3, **named)
    same("sobel", image, axis=int(random.integers(-rank, rank)), **named)
    same("laplace", image, **named)


@needs_gpu
@pytest.mark.parametrize("name, arguments, named", [
    ("convolve", ("weights",), dict(mode="mirror")), ("convolve", ("weights",), dict(mode="constant", cval=1.5)),
    ("sobel", (0,), dict(mode="constant", cval=2.0)), ("gaussian_filter", (1.3,), dict(mode="wrap"))])
def test_ndimage_is_cupys_as_well(name, arguments, named):
    """But for sobel with a cval: CuPy filters the axes in their order, SciPy first the one that is asked for. Along the
    first axis both are one."""
    image, weights = (cupy.asarray(array) for array in arrays(13, (40, 50), (3, 4)))
    same(name, image, *(weights if one == "weights" else one for one in arguments), of=cupyx_ndimage, **named)


@needs_gpu
@pytest.mark.parametrize("cval", [0.0, 1.5, np.inf])
@pytest.mark.parametrize("weight", [1.0, np.inf])
def test_what_lies_beyond_the_edges_is_multiplied(cval, weight):
    """Weights on a GPU are not looked at, whatever they are."""
    image, weights = cupy.asarray(arrays(14, (30, 40), dtype="float64")), cupy.arange(1.0, 10).reshape(3, 3)
    weights[0, 1] = weight
    same("convolve", image, weights, mode="constant", cval=cval)


@needs_gpu
def test_ndimage_on_the_current_stream():
    image, weights = (cupy.asarray(array) for array in arrays(15, (256, 200), (5, 5)))
    expected = ndimage.convolve(image + 1, weights, mode="constant", cval=2.0).get()
    cupy.cuda.Device().synchronize()
    for _ in range(3):
        moved = image.copy()
        cupy.cuda.Device().synchronize()
        with cupy.cuda.Stream(non_blocking=True) as stream:
            slowly(moved)
            found = ndimage.convolve(moved, weights, mode="constant", cval=2.0)
            blurred = ndimage.gaussian_filter(moved, 2)
        stream.synchronize()
        np.testing.assert_array_equal(found.get(), expected)
        np.testing.assert_array_equal(blurred.get(), ndimage.gaussian_filter(image + 1, 2).get())


@needs_gpu
def test_ndimage_of_numpys_weights():
    image = cupy.asarray(arrays(11, (30, 40)))
    result = ndimage.convolve(image, [[0, 1, 0], [1, -4, 1], [0, 1, 0]], mode="wrap")
    moved = [cupy.roll(image, step, axis) for axis in (0, 1) for step in (-1, 1)]
    np.testing.assert_array_equal(result.get(), (sum(moved) - 4 * image).get())
