"""plumb.conv, its gradients and the transposed convolution, on arrays of NumPy."""
import array
import gc
import itertools
import threading

import numpy as np
import pytest
from reference import arrays, conv

import plumb

IMAGES = {1: (11,), 2: (9, 8), 3: (6, 7, 5)}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("boundary", ["zeros", "periodic", "reflect", "symmetric", "clamp"])
def test_forward(axes, boundary, dtype):
    x, w, bias = arrays(axes, (2, 4) + IMAGES[axes], (6, 2) + (3,) * axes, (6,), dtype=dtype)
    settings = dict(stride=2, padding=2, dilation=2, groups=2, boundary=boundary)
    if axes == 3:
        settings["dilation"] = (2, 1, 2)
    y = plumb.conv(x, w, bias, **settings)
    assert y.dtype == dtype and isinstance(y, np.ndarray)
    np.testing.assert_array_equal(y, conv(x, w, bias, **settings))


def test_names_of_pytorch():
    x, w = arrays(1, (1, 2, 7, 6), (3, 2, 3, 3))
    for ours, theirs in (("periodic", "circular"), ("clamp", "replicate")):
        np.testing.assert_array_equal(plumb.conv(x, w, padding=1, boundary=ours),
                                      plumb.conv(x, w, padding=1, boundary=theirs))
    mixed = plumb.conv(x, w, padding=1, boundary=("periodic", "zeros"))
    np.testing.assert_array_equal(
        mixed, conv(np.pad(np.pad(x, [(0, 0)] * 2 + [(1, 1), (0, 0)], mode="wrap"),
                           [(0, 0)] * 3 + [(1, 1)]), w))


def test_padding():
    x, w = arrays(2, (2, 2, 9, 7), (3, 2, 3, 4))
    np.testing.assert_array_equal(plumb.conv(x, w, padding="valid"), conv(x, w))
    same = plumb.conv(x, w, padding="same", dilation=(2, 1))
    assert same.shape == (2, 3, 9, 7)
    padded = np.pad(x, [(0, 0), (0, 0), (2, 2), (1, 2)])
    np.testing.assert_array_equal(same, conv(padded, w, dilation=(2, 1)))
    np.testing.assert_array_equal(plumb.conv(x, w, padding=((2, 2), (1, 2)), dilation=(2, 1)), same)
    with pytest.raises(plumb.Error, match="stride of 2; expected 1"):
        plumb.conv(x, w, padding="same", stride=2)


def test_strides_of_any_kind():
    x, w = arrays(3, (2, 4, 10, 9), (4, 4, 3, 3))
    expected = conv(x[:, ::-1, ::2, 1:], w[::-1].transpose(0, 1, 3, 2))
    np.testing.assert_array_equal(plumb.conv(x[:, ::-1, ::2, 1:], w[::-1].transpose(0, 1, 3, 2)), expected)
    broadcast = np.broadcast_to(x[:1], x.shape)
    np.testing.assert_array_equal(plumb.conv(broadcast, w), conv(broadcast, w))
    out = np.zeros((2, 7, 8, 4), "float32").transpose(0, 3, 2, 1)
    result = plumb.conv(x, w, out=out)
    assert result is out
    np.testing.assert_array_equal(out, conv(x, w))


def test_out_is_added_to_and_activated():
    x, w, bias = arrays(4, (2, 3, 6, 6), (5, 3, 3, 3), (5,))
    out = np.full((2, 5, 4, 4), 7, "float32")
    plumb.conv(x, w, bias, out=out, accumulate=True, activation="relu")
    np.testing.assert_array_equal(out, np.maximum(conv(x, w, bias) + 7, 0))


def test_fp32_is_fp32():
    random = np.random.default_rng(5)
    x, w = (random.standard_normal(shape).astype("float32") for shape in ((1, 64, 12, 12), (8, 64, 3, 3)))
    error = np.abs(plumb.conv(x, w) - conv(x, w)).max()
    assert error < 64 * 9 * 2 ** -24 * np.abs(conv(np.abs(x), np.abs(w))).max()
    assert error < 1e-4  # TF32 has 1e-2 here


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_gradients_are_adjoint(axes):
    x, w = arrays(6, (2, 4) + IMAGES[axes], (6, 2) + (3,) * axes, dtype="float64")
    settings = dict(stride=2, padding=1, groups=2)
    y = plumb.conv(x, w, **settings)
    dy = arrays(7, y.shape, dtype="float64")
    dx = plumb.conv_backward_data(dy, w, x.shape, **settings)
    dw, db = plumb.conv_backward_weights(x, dy, w.shape, bias=True, **settings)
    assert dx.shape == x.shape and dw.shape == w.shape
    # <conv(x, w), dy> is linear in x and in w, and all of it is of whole numbers.
    assert np.vdot(y, dy) == np.vdot(x, dx) == np.vdot(w, dw)
    np.testing.assert_array_equal(db, dy.sum(axis=(0,) + tuple(range(2, dy.ndim))))
    other = arrays(8, x.shape, dtype="float64")
    assert np.vdot(plumb.conv(other, w, **settings), dy) == np.vdot(other, dx)
    mask = np.where(arrays(9, y.shape) > 0, 1.0, -1.0)
    np.testing.assert_array_equal(plumb.conv_backward_data(dy, w, x.shape, mask=mask, **settings),
                                  plumb.conv_backward_data(dy * (mask > 0), w, x.shape, **settings))


def test_transposed():
    x, w, bias = arrays(10, (2, 4, 5, 6), (4, 3, 3, 3), (3,))
    y = plumb.conv_transpose(x, w, bias, stride=2, padding=1, output_padding=1)
    assert y.shape == (2, 3, 10, 12)
    np.testing.assert_array_equal(
        y, plumb.conv_backward_data(x, w, (2, 3, 10, 12), stride=2, padding=1) + bias.reshape(1, 3, 1, 1))


def test_other_buffers():
    x = memoryview(array.array("f", range(12))).cast("B").cast("f", [1, 1, 12])
    y = plumb.conv(x, np.ones((1, 1, 3), "float32"))
    np.testing.assert_array_equal(y, [[[3 * i + 3 for i in range(10)]]])


class OnlyDLPack:
    """An array that has nothing but DLPack's protocol."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **settings):
        return self.array.__dlpack__(**settings)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack():
    x, w = arrays(11, (1, 2, 6, 7), (3, 2, 3, 3))
    transposed = OnlyDLPack(x.transpose(0, 1, 3, 2))
    y = plumb.conv(transposed, w)
    np.testing.assert_array_equal(y, conv(x.transpose(0, 1, 3, 2), w))
    np.testing.assert_array_equal(plumb.conv(x.__dlpack__(), w), conv(x, w))


def test_a_capsule_that_was_taken():
    x, w = arrays(12, (1, 1, 4, 4), (1, 1, 3, 3))

    class Lender:
        def __init__(self, capsule):
            self.capsule = capsule

        def __dlpack__(self, **settings):
            return self.capsule

        def __dlpack_device__(self):
            return (1, 0)

    capsule = x.__dlpack__()
    np.from_dlpack(Lender(capsule))
    with pytest.raises(plumb.Error, match="that nobody has taken yet"):
        plumb.conv(capsule, w)


class Saying:
    """What says of itself that it is an array, by the attributes that it is given."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def lending(device, capsule=None):
    return Saying(__dlpack_device__=lambda: device, __dlpack__=lambda **settings: capsule)


def on_cuda(**changes):
    said = {"typestr": "<f4", "data": (4096, False), "shape": (1, 1, 8, 8), "version": 3, **changes}
    return Saying(__cuda_array_interface__={key: value for key, value in said.items() if value is not None})


@pytest.mark.parametrize("x, sentence", [
    (lending([1, 0]), r"x's __dlpack_device__ is \[1, 0\]; expected a tuple of 2"),
    (lending(()), r"is \(\); expected a tuple of 2"),
    (lending((1,)), r"is \(1,\); expected a tuple of 2"),
    (lending(7), "is 7; expected a tuple of 2"),
    (lending(("cpu", 0)), "has 'cpu'; expected integers"),
    (lending((2 ** 70, 0)), "expected integers of 64 bits"),
    (lending((2, "first")), "has 'first'; expected integers"),
    (lending((1, 0), 3), "expected one of DLPack, dltensor, that nobody has taken yet"),
    (Saying(__cuda_array_interface__=[1]), r"x's __cuda_array_interface__ is \[1\]; expected a dictionary"),
    (Saying(__cuda_array_interface__=None), "is None; expected a dictionary"),
    (on_cuda(typestr=None), "has no 'typestr'; expected one"),
    (on_cuda(data=None), "has no 'data'; expected one"),
    (on_cuda(shape=None), "has no 'shape'; expected one"),
    (on_cuda(typestr="<i4"), "x has elements of type <i4; expected float32"),
    (on_cuda(data=4096), "x's __cuda_array_interface__'s data is 4096; expected a tuple of 2"),
    (on_cuda(data=("here", False)), "data has 'here'; expected integers"),
    (on_cuda(shape=[1, 1, 8, 8]), r"shape is \[1, 1, 8, 8\]; expected a tuple"),
    (on_cuda(shape=(1, 1, 8, "w")), "shape has 'w'; expected integers"),
    (on_cuda(shape=(1,) * 7), "x has 7 axes; expected at most 6"),
    (on_cuda(strides=(4,)), r"strides is \(4,\); expected a tuple of 4"),
    (on_cuda(stream="mine"), "stream has 'mine'; expected integers"),
    (on_cuda(stream=-1), "stream is -1; expected a stream's address"),
    (on_cuda(stream=1), "arrays are on cuda:0 and cpu; expected all on one device"),
    (on_cuda(), "arrays are on cuda:0 and cpu; expected all on one device"),
])
def test_what_only_says_that_it_is_an_array(x, sentence):
    with pytest.raises(plumb.Error, match=sentence):
        plumb.conv(x, np.ones((1, 1, 3, 3), "float32"))


def test_a_lenders_exception_is_the_callers():
    def fail(**settings):
        raise KeyError("the lender's")

    for x in (Saying(__dlpack__=fail, __dlpack_device__=fail), Saying(__dlpack__=fail, __dlpack_device__=lambda: (1, 0))):
        with pytest.raises(KeyError, match="the lender's"):
            plumb.conv(x, W)


X, W = arrays(13, (2, 3, 8, 8), (4, 3, 3, 3))
READ_ONLY = np.zeros((2, 4, 6, 6), "float32")
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize("change, sentence", [
    (dict(x=[1.0]), "x is of type list; expected an array"),
    (dict(x=X.astype(int)), "x has elements of type int64; expected float32"),
    (dict(x=X.astype(object)), "x has elements of type object; expected float32"),
    (dict(x=X.astype(complex)), "x has elements of type complex128; expected"),
    (dict(x=X.astype(">f4")), "x has elements of type >f4; expected"),
    (dict(w=W.astype("float64")), "float64|f64"),
    (dict(w=W[:, :2]), r"expected w to be \[4, 3, 3, 3\]"),
    (dict(x=X[0, 0]), "the image has 2 axes; expected 3 to 5"),
    (dict(x=np.ones((1,) * 7, "f")), "x has 7 axes; expected at most 6"),
    (dict(x=np.float32(1) * np.ones(()).astype("f")), "expected an array|has no axes"),
    (dict(out=READ_ONLY), "out is read-only"),
    (dict(out=np.zeros((2, 4, 6, 5), "f")), r"y is \[2, 4, 6, 5\]; expected \[2, 4, 6, 6\]"),
    (dict(out=X), "y is"),
    (dict(out=np.broadcast_to(np.float32(0), (2, 4, 6, 6))), "out is read-only"),
    (dict(bias=np.ones(3, "f")), "bias"),
    (dict(stride=0), "stride"),
    (dict(stride=1.5), "stride is 1.5; expected an integer"),
    (dict(stride=True), "stride is True; expected an integer"),
    (dict(stride=2 ** 70), "expected an integer of 64 bits"),
    (dict(padding=(1, 2, 3)), "padding has 3 values; expected one, or 2"),
    (dict(padding="full"), "padding is 'full'; expected numbers"),
    (dict(boundary="mirror"), "boundary is 'mirror'; expected zeros, periodic"),
    (dict(math="fast"), "math is 'fast'; expected fp64"),
    (dict(activation="gelu"), "activation is 'gelu'; expected None or"),
    (dict(groups=2), "groups"),
    (dict(accumulate=True), "accumulate is True and out is None"),
    (dict(algorithm="cpu.conv.none"), "cpu.conv.none"),
    (dict(padding=1, w=W[:3], out=X), "y overlaps x"),
    (dict(padding=2 ** 62), "at most 2"),
    (dict(x=X[:, :, :0]), "H is 0; expected at least 1"),
    (dict(x=X[:, :, :2]), "does not fit"),
    (dict(x=np.broadcast_to(np.float32(1), (1, 3, 2 ** 40, 2 ** 18))), "offsets would pass"),
])
def test_bad_input(change, sentence):
    with pytest.raises(plumb.Error, match=sentence) as raised:
        plumb.conv(**{**dict(x=X, w=W), **change})
    assert raised.value.code in ("invalid_argument", "unsupported")
    assert raised.value.reason == "none"


def test_zero_images_are_none():
    assert plumb.conv(X[:0], W).shape == (0, 4, 6, 6)


def test_no_array():
    with pytest.raises(TypeError):
        plumb.conv(None, W)


def test_an_unaligned_array():
    raw = np.zeros(4 * 64 + 1, "u1")
    x = raw[1:].view("float32").reshape(1, 1, 8, 8)
    with pytest.raises(plumb.Error, match="no multiple of an element's 4 bytes"):
        plumb.conv(x, np.ones((1, 1, 3, 3), "float32"))


def test_a_failed_call_keeps_no_array():
    x = X.copy()
    with pytest.raises(plumb.Error):
        plumb.conv(x, W, stride=0)
    x.resize((1, 2, 3), refcheck=False)  # refused while a buffer of it is held


def test_threads():
    cases = [(arrays(i, (1, 3, 9 + i, 8), dtype="float32"), arrays(i + 50, (4, 3, 3, 3))) for i in range(16)]
    expected = [conv(x, w, padding=1) for x, w in cases]
    failures = []

    def work(which):
        for i in itertools.islice(itertools.cycle(range(16)), which, which + 200):
            x, w = cases[i]
            if not np.array_equal(plumb.conv(x, w, padding=1), expected[i]):
                failures.append(i)

    threads = [threading.Thread(target=work, args=(which,)) for which in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_other_threads_run_meanwhile():
    x, w = np.ones((4, 32, 96, 96), "float32"), np.ones((32, 32, 3, 3), "float32")
    plumb.conv(x, w)
    counted, done = [0], threading.Event()

    def count():
        while not done.wait(0.0005):
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    during = 0
    for _ in range(20):
        before = counted[0]
        plumb.conv(x, w)
        during += counted[0] - before  # without a switch in between, unless the call let go of the GIL
    done.set()
    thread.join()
    assert during > 0


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_many_calls_take_no_memory():
    x, w = arrays(14, (1, 1, 8, 8), (1, 1, 3, 3))

    def call(times):
        for _ in range(times):
            plumb.conv(x, w)
            try:
                plumb.conv(x, w, stride=0)
            except plumb.Error:
                pass

    call(5000)
    gc.collect()
    before = resident_bytes()
    call(100_000)
    gc.collect()
    assert resident_bytes() - before < 2 << 20  # 20 bytes a call would be as much


def test_reproducible():
    x, w = arrays(2, (2, 3, 12, 11), (4, 3, 3, 3))
    x, w = (x + np.float32(0.1)).astype(np.float32), (w * np.float32(0.3)).astype(np.float32)
    y = plumb.conv(x, w, padding=1, reproducible=True)
    assert np.array_equal(y, plumb.conv(np.asfortranarray(x), w, padding=1, reproducible=True))
    assert np.array_equal(y[1:], plumb.conv(x[1:], w, padding=1, reproducible=True))
    with pytest.raises(plumb.Error, match="not_reproducible"):
        plumb.conv(x, w, padding=1, reproducible=True, algorithm="cpu.conv.im2col.fp32")
    dw = plumb.conv_backward_weights(x, y, w.shape, padding=1, reproducible=True)
    assert np.array_equal(dw, plumb.conv_backward_weights(x, np.asfortranarray(y), w.shape, padding=1, reproducible=True))
    rows = plumb.Plan(x, w, padding=1, reproducible=True).explain()
    assert any(row["reproducible"] and row["chosen"] for row in rows)
