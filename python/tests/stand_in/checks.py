"""plumb and plumb.torch on the stand-in's tensors; run by test_stand_in.py in a process of its own."""
import sys
import types

import numpy as np
import pytest
import torch
from reference import arrays, conv

import plumb
import plumb.torch as by_plumb

IMAGES = {1: (11,), 2: (9, 8), 3: (6, 7, 5)}


def tensors(seed, *shapes, dtype="float32"):
    made = arrays(seed, *shapes, dtype=dtype)
    return [torch.Tensor(one) for one in (made if len(shapes) > 1 else [made])]


@pytest.fixture(autouse=True, params=["direct", "operators"])
def by_both_ways(request, monkeypatch):
    if request.param == "operators":  # as where somebody watches them
        monkeypatch.setattr(by_plumb, "_WATCHERS", None)
    else:
        assert by_plumb._WATCHERS is not None


def test_it_is_the_stand_in():
    assert "stand_in" in torch.__file__ and by_plumb.torch is torch


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_tensors_are_taken_without_a_capsule_and_made(dtype):
    x, w, bias = tensors(1, (2, 4, 9, 8), (6, 4, 3, 3), (6,), dtype=dtype)
    lent = torch.lent
    y = plumb.conv(torch.Tensor(x.array.transpose(0, 1, 3, 2)), w, bias, padding=1)
    assert type(y) is torch.Tensor and y.dtype is x.dtype and torch.lent == lent
    np.testing.assert_array_equal(y.array, conv(x.array.transpose(0, 1, 3, 2), w.array, bias.array, padding=1))
    out = torch.Tensor(np.zeros((2, 7, 6, 6), dtype).transpose(0, 3, 1, 2))
    assert plumb.conv(x, w, out=out) is out
    np.testing.assert_array_equal(out.array, conv(x.array, w.array))


def test_bfloat16():
    x, w = arrays(2, (1, 2, 6, 6), (3, 2, 3, 3))
    upper = [torch.Tensor((one.view("uint32") >> 16).astype("uint16")) for one in (x, w)]
    y = plumb.conv(*upper)
    assert y.dtype is torch.bfloat16
    np.testing.assert_array_equal((y.array.astype("uint32") << 16).view("float32"), conv(x, w))


class Derived(torch.Tensor):
    pass


def test_what_is_no_plain_tensor_is_asked_by_dlpack():
    x, w = tensors(3, (1, 2, 6, 6), (3, 2, 3, 3))
    lent = torch.lent
    plumb.conv(Derived(x.array), w)
    assert torch.lent == lent + 1
    plumb.conv(x, torch.Parameter(w.array))
    assert torch.lent == lent + 1
    for name, value in (("requires_grad", True), ("negated", True)):
        one = torch.Tensor(x.array)
        setattr(one, name, value)
        with pytest.raises(BufferError, match="cannot be lent"):
            plumb.conv(one, w)
    without = torch.Tensor(x.array)
    without.data_ptr = lambda: 1 / 0
    np.testing.assert_array_equal(plumb.conv(without, w).array, conv(x.array, w.array))
    assert torch.lent == lent + 2
    with pytest.raises(plumb.Error, match="int64"):
        plumb.conv(torch.Tensor(x.array.astype("int64")), w)
    with pytest.raises(plumb.Error, match="x has 7 axes; expected at most 6"):
        plumb.conv(torch.Tensor(np.ones((1,) * 7, "f")), w)


def test_plan():
    x, w = tensors(4, (2, 3, 16, 16), (8, 3, 3, 3))
    plan = plumb.Plan(x, w, padding=1)
    y = plan.execute(x, plan.pack(w))
    assert type(y) is torch.Tensor
    np.testing.assert_array_equal(y.array, conv(x.array, w.array, padding=1))


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("settings", [dict(), dict(stride=2, padding=1), dict(dilation=2, groups=2)])
def test_functions(axes, settings):
    x, w, bias = tensors(5, (2, 4) + IMAGES[axes], (6, 4 // settings.get("groups", 1)) + (3,) * axes, (6,))
    function = getattr(by_plumb, f"conv{axes}d")
    expected = conv(x.array, w.array, bias.array, **settings)
    np.testing.assert_array_equal(function(x, w, bias, **settings).array, expected)
    np.testing.assert_array_equal(function(torch.Tensor(x.array[0]), w, bias, **settings).array, expected[0])
    with pytest.raises(plumb.Error, match=f"input has 7 axes; expected {axes + 2}"):
        function(torch.Tensor(np.ones((1,) * 7, "f")), w)


def test_padding_by_name():
    x, w = tensors(6, (1, 2, 9, 7), (3, 2, 3, 4))
    padded = np.pad(x.array, [(0, 0), (0, 0), (1, 1), (1, 2)])
    np.testing.assert_array_equal(by_plumb.conv2d(x, w, padding="same").array, conv(padded, w.array))
    np.testing.assert_array_equal(by_plumb.conv2d(x, w, padding="valid").array, conv(x.array, w.array))
    with pytest.raises(plumb.Error, match="stride of .*2.*; expected 1"):
        by_plumb.conv2d(x, w, padding="same", stride=2)
    with pytest.raises(plumb.Error, match="padding is .full."):
        by_plumb.conv2d(x, w, padding="full")


def test_transposed_is_adjoint():
    x, w, bias = tensors(7, (2, 4, 5, 6), (4, 3, 3, 3), (6,), dtype="float64")
    settings = dict(stride=2, padding=1, groups=2)
    y = by_plumb.conv_transpose2d(x, w, bias, output_padding=1, **settings)
    assert y.shape == (2, 6, 10, 12)
    without = y.array - bias.array.reshape(-1, 1, 1)
    other, = tensors(8, y.shape, dtype="float64")
    assert np.vdot(without, other.array) == np.vdot(x.array, by_plumb.conv2d(other, w, **settings).array)


def test_gradients_are_adjoint_and_fakes_have_their_shapes():
    rest = ([2, 2], [1, 1, 1, 1], [1, 1], 2, "periodic", "fp32")
    x, w, bias = tensors(9, (2, 4, 6, 5), (6, 2, 3, 3), (6,), dtype="float64")
    operator = by_plumb._conv
    y = operator(x, w, bias, *rest)
    assert operator.fake(x, w, bias, *rest).shape == y.shape
    context = types.SimpleNamespace(needs_input_grad=(True,) * 3)
    context.save_for_backward = lambda *kept: setattr(context, "saved_tensors", kept)
    operator.setup_context(context, (x, w, bias, *rest), y)
    dy, = tensors(10, y.shape, dtype="float64")
    dx, dw, db, *none = operator.backward(context, dy)
    assert none == [None] * len(rest)
    linear = np.vdot(y.array - bias.array.reshape(-1, 1, 1), dy.array)
    assert linear == np.vdot(x.array, dx.array) == np.vdot(w.array, dw.array)
    np.testing.assert_array_equal(db.array, dy.array.sum((0, 2, 3)))
    for operator, first, second, shape in ((by_plumb._backward_data, dy, w, x.shape),
                                           (by_plumb._backward_weights, x, dy, w.shape)):
        found = operator(first, second, list(shape), *rest)
        assert operator.fake(first, second, list(shape), *rest).shape == found.shape
        operator.setup_context(context, (first, second, list(shape), *rest), found)
        grad, = tensors(11, shape, dtype="float64")
        by_first, by_second, *none = operator.backward(context, grad)
        assert none == [None] * (len(rest) + 1)
        linear = np.vdot(found.array, grad.array)
        assert linear == np.vdot(by_first.array, first.array) == np.vdot(by_second.array, second.array)


@pytest.mark.parametrize("again", [False, True])  # derivatives of the derivatives are wanted
@pytest.mark.parametrize("wanted", [(True, True, True), (False, True, False), (True, False, False)])
@pytest.mark.parametrize("settings", [dict(), dict(stride=2, padding=1, boundary="periodic"), dict(padding="same")])
def test_gradients_without_operators(settings, wanted, again, monkeypatch):
    arguments = tensors(15, (2, 4, 6, 5), (6, 4, 3, 3), (6,), dtype="float64")
    for one, gradient in zip(arguments, wanted):
        one.requires_grad = gradient
    y = by_plumb.conv2d(*arguments, **settings)
    if by_plumb._WATCHERS is None:
        assert not hasattr(y, "backward")
        return
    dy, = tensors(16, y.shape, dtype="float64")
    monkeypatch.setattr(torch, "grad_enabled", again)
    for one in arguments if again else ():  # operators get PyTorch's tensors, these can be read
        one.requires_grad = False
    *found, none = y.backward(dy)
    assert none is None and tuple(one is not None for one in found) == wanted
    x, w, bias = (one.array for one in arguments)
    linear = np.vdot(y.array - bias.reshape(-1, 1, 1), dy.array)
    for one, values in zip(found[:2], (x, w)):
        assert one is None or np.vdot(one.array, values) == linear
    assert found[2] is None or (found[2].array == dy.array.sum((0, 2, 3))).all()


@pytest.mark.parametrize("mode, pad", [("zeros", "constant"), ("circular", "wrap"), ("reflect", "reflect"),
                                       ("replicate", "edge")])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_modules(axes, mode, pad):
    layer = getattr(by_plumb, f"Conv{axes}d")(4, 6, 3, stride=2, padding=1, groups=2, padding_mode=mode)
    x, = tensors(12, (2, 4) + IMAGES[axes])
    padded = np.pad(x.array, [(0, 0)] * 2 + [(1, 1)] * axes, mode=pad)
    np.testing.assert_array_equal(layer(x).array, conv(padded, layer.weight.array, layer.bias.array, stride=2, groups=2))


def test_autocast(monkeypatch):
    x, w = tensors(13, (1, 2, 6, 6), (3, 2, 3, 3))
    monkeypatch.setattr(torch, "autocast_dtype", torch.float16)
    assert by_plumb.conv2d(x, w).dtype is torch.float16
    assert by_plumb.conv2d(x.to(torch.float64), w.to(torch.float64)).dtype is torch.float64


class Model(torch.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.Conv2d(2, 4, 3, padding=1)
        self.second = torch.Conv2d(4, 4, 3, padding=1, groups=4)

    def forward(self, x):
        return self.second(self.first(x))


def test_patch_says_what_it_replaces(monkeypatch):
    x, = tensors(14, (2, 2, 32, 32))
    model = Model()
    table = by_plumb.patch(model, x)
    assert [(row["layer"], row["module"], row["replaced"]) for row in table] == [
        ("first", "Conv2d", True), ("second", "Conv2d", True)]
    assert type(model.first) is by_plumb.Conv2d and not model.first.hooks
    np.testing.assert_array_equal(model.first(x).array,
                                  conv(x.array, model.first.weight.array, model.first.bias.array, padding=1))
    monkeypatch.setattr(torch._Conv, "slowness", 0)  # nobody is faster than who computes nothing
    model = Model()
    table = by_plumb.patch(model, x)
    assert [row["replaced"] for row in table] == [False, False] and type(model.first) is torch.Conv2d
    assert "pytorch_seconds" in repr(table)
    assert [row["replaced"] for row in by_plumb.patch(model)] == [True, True]


if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", __file__]))
