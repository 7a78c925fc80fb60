"""plumb.ndimage beside scipy.ndimage, over random calls of every function."""
import inspect

import numpy as np
import pytest

from plumb import _filters, _plumb, ndimage

scipy_ndimage = pytest.importorskip("scipy.ndimage")

MODES = ["reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant", "grid-wrap"]
TYPES = ["float32", "float64", "int32", "uint8", "int16", "bool", "complex64", "complex128"]


def same(name, seed, *arguments, **named):
    """Both libraries' results; of float32 Plumb's own arithmetic is fp32."""
    theirs = getattr(scipy_ndimage, name)(*arguments, **named)
    ours = getattr(ndimage, name)(*arguments, **named)
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, (seed, named)
    close = 1e-12 if theirs.dtype in ("float64", "complex128") else 2e-5
    np.testing.assert_allclose(ours, theirs, rtol=close, atol=close * 100, err_msg=f"{seed} {named}")


def image_of(random, rank, dtype):
    shape = random.integers(1, 9 if rank < 4 else 5, rank)
    values = random.integers(-20, 20, shape) if dtype != "uint8" else random.integers(0, 200, shape)
    image = values.astype(dtype)
    if image.dtype.kind == "c":
        image = (image + 1j * random.integers(-20, 20, shape)).astype(dtype)
    if random.random() < 0.3:
        image = image[::-1].T
    return image


def origin_of(random, size):
    return int(random.integers(-(size // 2), (size - 1) // 2 + 1))


@pytest.mark.parametrize("name", ["correlate", "convolve"])
@pytest.mark.parametrize("seed", range(150))
def test_n_dimensional(name, seed):
    random = np.random.default_rng(seed)
    rank = int(random.integers(1, 6))
    image = image_of(random, rank, random.choice(TYPES))
    weights = random.integers(-3, 4, random.integers(1, 5 if rank < 4 else 3, rank)).astype("float64")
    if random.random() < 0.2:
        weights = weights + 1j * random.integers(-3, 4, weights.shape)
    named = dict(mode=random.choice(MODES).item(), cval=float(random.integers(0, 3)),
                 origin=[origin_of(random, size) for size in weights.shape])
    if random.random() < 0.3 and image.dtype.kind != "c" and weights.dtype.kind != "c":
        named["output"] = random.choice(["float32", "float64", "int64"]).item()
    same(name, seed, image, weights, **named)


@pytest.mark.parametrize("name", ["correlate1d", "convolve1d"])
@pytest.mark.parametrize("seed", range(80))
def test_one_dimensional(name, seed):
    random = np.random.default_rng(1000 + seed)
    rank = int(random.integers(1, 5))
    image = image_of(random, rank, random.choice(TYPES))
    weights = random.integers(-3, 4, random.integers(1, 12)).astype("float64")
    same(name, seed, image, weights, axis=int(random.integers(-rank, rank)), mode=random.choice(MODES).item(),
         cval=float(random.integers(0, 3)), origin=origin_of(random, len(weights)))


@pytest.mark.parametrize("seed", range(80))
def test_uniform_filter(seed):
    random = np.random.default_rng(2000 + seed)
    rank = int(random.integers(1, 5))
    image = image_of(random, rank, random.choice(TYPES))
    sizes = [int(size) for size in random.integers(1, 6, rank)]
    same("uniform_filter", seed, image, sizes, mode=[random.choice(MODES).item() for _ in range(rank)],
         cval=float(random.integers(0, 3)), origin=[origin_of(random, size) for size in sizes])


@pytest.mark.parametrize("seed", range(80))
def test_gaussian_filter(seed):
    random = np.random.default_rng(3000 + seed)
    rank = int(random.integers(1, 4))
    image = image_of(random, rank, random.choice(["float32", "float64", "complex128"]))
    named = dict(order=[int(order) for order in random.integers(0, 4, rank)], mode=random.choice(MODES).item(),
                 cval=float(random.integers(0, 3)), truncate=float(random.uniform(2, 5)))
    if random.random() < 0.3:
        named["radius"] = int(random.integers(1, 6))
    same("gaussian_filter", seed, image, [float(sigma) for sigma in random.uniform(0.5, 2, rank)], **named)


@pytest.mark.parametrize("seed", range(60))
def test_edges(seed):
    random = np.random.default_rng(4000 + seed)
    rank = int(random.integers(1, 4))
    image = image_of(random, rank, random.choice(TYPES[:5]))
    if image.dtype == "uint8":
        image = image.astype("int64")
    mode = random.choice(MODES).item()
    same("sobel", seed, image, axis=int(random.integers(-rank, rank)), mode=mode, cval=1.0)
    same("laplace", seed, image, mode=mode, cval=2.0)


@pytest.mark.parametrize("name, arguments", [
    ("correlate", (np.ones((2, 3)),)), ("convolve", (np.ones((2, 3)),)), ("uniform_filter", (3,)),
    ("gaussian_filter", (1.5,)), ("laplace", ())])
@pytest.mark.parametrize("axes", [(0, 1), (2, 0), (-1, -3)])
def test_axes(name, arguments, axes):
    image = np.random.default_rng(5).standard_normal((6, 5, 7))
    try:
        getattr(scipy_ndimage, name)(image, *arguments, axes=axes)
    except TypeError:
        pytest.skip(f"this SciPy's {name} has no axes")
    same(name, 5, image, *arguments, axes=axes)


@pytest.mark.parametrize("seed", range(40))
def test_images_whose_edges_are_told_apart(seed):
    """Where an image is large, cval is added along its edges alone; filters wider than an axis leave no middle."""
    random = np.random.default_rng(5000 + seed)
    rank = int(random.integers(1, 4))
    shape = random.permutation([int(random.integers(1, 12)), int(random.integers(60, 90)), 95][:rank] if rank > 1 else
                               [int(random.integers(5000, 6000))])
    image = random.integers(-20, 20, shape).astype(random.choice(["float32", "float64", "int32", "complex64"]))
    weights = random.integers(-3, 4, random.integers(1, 7, rank)).astype("float64")
    named = dict(mode=random.choice(["constant", "grid-constant"]).item(), cval=float(random.choice([-2.5, 1, 3])),
                 origin=[origin_of(random, size) for size in weights.shape])
    same("convolve", seed, image, weights, **named)
    same("uniform_filter", seed, image, weights.shape, **named)


@pytest.mark.parametrize("cval", [np.inf, -np.inf, np.nan])
def test_a_cval_that_is_no_number(cval):
    image, weights = np.ones((70, 80)), np.arange(-4.0, 5).reshape(3, 3)
    same("correlate", 0, image, weights, mode="constant", cval=cval)


@pytest.mark.parametrize("seed", range(30))
def test_layouts(seed):
    """Images and outputs of any strides: transposed, every other element, backwards, broadcast."""
    random = np.random.default_rng(6000 + seed)
    rank = int(random.integers(2, 5))

    def any_layout(dtype):
        values = random.integers(-20, 20, [2 * extent for extent in shape]).astype(dtype)
        values = values.transpose(order := random.permutation(rank))
        steps = [slice(None, None, int(random.choice([-2, 2]))) for _ in shape]
        return values[tuple(steps)].transpose(np.argsort(order))

    shape = random.integers(5, 12, rank)
    dtype = random.choice(["float32", "float64"])
    image, output = any_layout(dtype), any_layout(dtype)
    if random.random() < 0.2:
        image = np.broadcast_to(image[:1], image.shape)
    weights = random.integers(-3, 4, random.integers(1, 4, rank)).astype("float64")
    mode = random.choice(MODES).item()
    expected = scipy_ndimage.convolve(image, weights, mode=mode)
    assert ndimage.convolve(image, weights, output, mode=mode) is output
    np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int8", "int64", "bool"])
def test_integers_go_around_as_c_casts(dtype):
    image = np.random.default_rng(7).integers(0, 100, (20, 31)).astype(dtype)
    for weights in ([-1, 0, 1], [3, -5, 1], [0.5, 0.25, -0.5]):
        same("correlate1d", 7, image, weights)
    if dtype in ("uint8", "uint16", "uint32"):
        same("correlate1d", 7, np.full(9, np.iinfo(dtype).max, dtype), [1, 1, 1])


@pytest.mark.parametrize("name", ndimage.__all__)
def test_signatures(name):
    """An older SciPy lacks parameters, of which all are by name alone."""
    theirs = inspect.signature(getattr(scipy_ndimage, name)).parameters.values()
    ours = inspect.signature(getattr(ndimage, name)).parameters
    assert [(one.name, one.kind, one.default) for one in theirs] == [
        (one.name, one.kind, one.default) for one in (ours[one.name] for one in theirs)]
    plain = [one.name for one in ours.values() if one.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert plain == [one.name for one in theirs if one.kind is not inspect.Parameter.KEYWORD_ONLY]


def test_outputs():
    image = np.random.default_rng(6).standard_normal((12, 11)).astype("float32")
    expected = scipy_ndimage.convolve(image, np.ones((3, 3)), output="float64")
    exact = ndimage.convolve(image, np.ones((3, 3)), output="float64")
    np.testing.assert_allclose(exact, expected, rtol=1e-14)  # where float64 is asked for, it is float64
    out = np.zeros_like(image)
    assert ndimage.convolve(image, np.ones((3, 3)), out) is out
    in_place = image.copy()
    ndimage.convolve(in_place, np.ones((3, 3)), in_place)
    np.testing.assert_array_equal(in_place, out)
    assert ndimage.gaussian_filter([[1, 2], [3, 4]], 1).dtype == np.asarray([1]).dtype
    assert ndimage.convolve(np.zeros((0, 4)), np.ones((3, 3))).shape == (0, 4)


def test_not_finite_weights_multiply_the_padding():
    image, weights = np.ones((4, 4)), np.full((3, 3), np.inf)
    same("correlate", 0, image, weights, mode="constant")


@pytest.mark.parametrize("call", [
    lambda of: of.correlate(np.ones((4, 4)), np.ones(3)),
    lambda of: of.correlate(np.ones((4, 4)), np.ones((0, 3))),
    lambda of: of.correlate(np.ones(4), np.ones(3), mode="no mode"),
    lambda of: of.correlate(np.ones(4), np.ones(3), origin=2),
    lambda of: of.correlate1d(np.ones(4), np.ones((2, 2))),
    lambda of: of.correlate1d(np.ones(4), np.ones(3), axis=3),
    lambda of: of.correlate(np.ones(4), np.ones(3), output=np.ones(5)),
    lambda of: of.correlate(np.ones(4), np.ones(3) * 1j, output=np.ones(4)),
    lambda of: of.correlate1d(np.ones(4), np.ones(3) * 1j, cval=1j),
    lambda of: of.uniform_filter1d(np.ones(4), 0),
    lambda of: of.uniform_filter(np.ones((4, 4)), (3, 3, 3)),
    lambda of: of.gaussian_filter1d(np.ones(4), 1, order=-1),
    lambda of: of.gaussian_filter1d(np.ones(4), 1, radius=-1),
    lambda of: of.gaussian_filter(np.ones((4, 4)), 1, axes=(0, 0)),
    lambda of: of.gaussian_filter(np.ones((4, 4)), 1, axes=(0, 2)),
])
def test_bad_input_raises_what_scipy_raises(call):
    with pytest.raises(Exception) as theirs:
        call(scipy_ndimage)
    with pytest.raises(theirs.type):
        call(ndimage)


@pytest.mark.parametrize("seed", range(40))
def test_what_needs_no_conversion_is_one_call(seed):
    """Taken at once or in Python, the numbers are the same; so are those of small images, padded, and of large ones."""
    random = np.random.default_rng(8000 + seed)
    rank, dtype = int(random.integers(1, 4)), random.choice(["float32", "float64"])
    image = random.integers(-20, 20, random.integers(2, 9, rank)).astype(dtype)
    weights = random.integers(-3, 4, random.integers(1, 5, rank)).astype(dtype)
    modes = tuple(random.choice(MODES, rank).tolist())
    origin = tuple(origin_of(random, size) for size in weights.shape)
    cval = float(random.integers(0, 3))
    at_once = _plumb._filter(image, weights, None, modes, cval, origin, False, False)
    padded = image
    for axis, (mode, size, at) in enumerate(zip(modes, weights.shape, origin)):
        widths = [(0, 0)] * rank
        widths[axis] = (size // 2 + at, size - 1 - size // 2 - at)
        how = _filters.MODES[mode][1]
        padded = np.pad(padded, widths, how, **(dict(constant_values=cval) if how == "constant" else {}))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape)
    np.testing.assert_array_equal(at_once, (windows * weights).sum(tuple(range(rank, 2 * rank))))


@pytest.mark.parametrize("call", [
    lambda image, weights: (image.astype("int32"), weights, None), lambda image, weights: (image, weights.astype("f8"), None),
    lambda image, weights: (image, weights, "float64"), lambda image, weights: (image.tolist(), weights, None),
    lambda image, weights: (image, weights, image), lambda image, weights: (np.ma.array(image), weights, None),
    lambda image, weights: (image, weights[0], None), lambda image, weights: (image[:0], weights, None),
    lambda image, weights: (np.ones((2,) * 4, "f"), np.ones((1,) * 4, "f"), None),
    lambda image, weights: (image.astype(">f4"), weights, None)])
def test_what_needs_more_is_left_to_python(call):
    image, weights = np.ones((6, 7), "float32"), np.ones((3, 3), "float32")
    assert _plumb._filter(image, weights, None, "reflect", 0.0, 0, True, False) is not None
    input, filters, output = call(image, weights)
    assert _plumb._filter(input, filters, output, "reflect", 0.0, 0, True, False) is None
    for mode, cval, origin in (("no mode", 0.0, 0), ("reflect", 1j, 0), ("reflect", 0.0, 2), ("reflect", 0.0, (0, 0, 0))):
        assert _plumb._filter(image, weights, None, mode, cval, origin, True, False) is None


@pytest.mark.parametrize("name, arguments", [("gaussian_filter", (1.0,)), ("uniform_filter", (3,)), ("sobel", ()),
                                             ("laplace", ())])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_in_place(name, arguments, rank):
    image = np.random.default_rng(rank).standard_normal((9, 8, 7)[:rank])
    for mode, cval in (("reflect", 0.0), ("constant", 1.5)):
        expected = getattr(scipy_ndimage, name)(image, *arguments, mode=mode, cval=cval)
        written = image.copy()
        assert getattr(ndimage, name)(written, *arguments, output=written, mode=mode, cval=cval) is written
        np.testing.assert_allclose(written, expected, rtol=1e-12, atol=1e-12)
