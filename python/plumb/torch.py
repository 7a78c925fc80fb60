"""PyTorch's convolutions by Plumb: functions, modules, and patch(), which puts them into a model.

They are operators of PyTorch's (torch.ops.plumb), with derivatives of any order, known to torch.compile, and
recorded by CUDA graphs. Names and defaults are torch.nn.functional's, but float32 is computed as float32.
"""
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import plumb as _plumb

__all__ = ["Conv1d", "Conv2d", "Conv3d", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
           "conv_transpose3d", "patch"]

Numbers = int | Sequence[int]  # one, or one for each axis of the image

_ARGUMENTS = "int[] stride, int[] padding, int[] dilation, int groups, str boundary, str math"


def _settings(stride, padding, dilation, groups, boundary, math):
    """Of an image of so many axes: a number each, and of the padding two (before and after)."""
    axes = len(stride)
    pairs = tuple((padding[i], padding[axes + i]) for i in range(axes))
    return dict(stride=tuple(stride), padding=pairs, dilation=tuple(dilation), groups=groups, boundary=boundary,
                math=math)


def _out_extent(extent, size, stride, before, after, dilation):
    return (extent + before + after - dilation * (size - 1) - 1) // stride + 1


@torch.library.custom_op("plumb::conv", mutates_args=(),
                         schema=f"(Tensor x, Tensor w, Tensor? bias, {_ARGUMENTS}) -> Tensor")
def _conv(x, w, bias, stride, padding, dilation, groups, boundary, math):
    return _plumb.conv(x.detach(), w.detach(), None if bias is None else bias.detach(),
                       **_settings(stride, padding, dilation, groups, boundary, math))


@_conv.register_fake
def _(x, w, bias, stride, padding, dilation, groups, boundary, math):
    axes = len(stride)
    image = [_out_extent(x.shape[2 + i], w.shape[2 + i], stride[i], padding[i], padding[axes + i], dilation[i])
             for i in range(axes)]
    return x.new_empty([x.shape[0], w.shape[0], *image])


@torch.library.custom_op("plumb::conv_backward_data", mutates_args=(),
                         schema=f"(Tensor dy, Tensor w, SymInt[] x_shape, {_ARGUMENTS}) -> Tensor")
def _backward_data(dy, w, x_shape, stride, padding, dilation, groups, boundary, math):
    return _plumb.conv_backward_data(dy.detach(), w.detach(), list(x_shape),
                                     **_settings(stride, padding, dilation, groups, boundary, math))


@_backward_data.register_fake
def _(dy, w, x_shape, stride, padding, dilation, groups, boundary, math):
    return dy.new_empty(list(x_shape))


@torch.library.custom_op("plumb::conv_backward_weights", mutates_args=(),
                         schema=f"(Tensor x, Tensor dy, SymInt[] w_shape, {_ARGUMENTS}) -> Tensor")
def _backward_weights(x, dy, w_shape, stride, padding, dilation, groups, boundary, math):
    return _plumb.conv_backward_weights(x.detach(), dy.detach(), list(w_shape),
                                        **_settings(stride, padding, dilation, groups, boundary, math))


@_backward_weights.register_fake
def _(x, dy, w_shape, stride, padding, dilation, groups, boundary, math):
    return x.new_empty(list(w_shape))


# But for the bias, all three are linear in both tensors, and the derivatives of each are the two others: sum(conv(x, w)
# dy) is the same number as sum(backward_data(dy, w) x) and sum(backward_weights(x, dy) w).
def _keep(ctx, inputs, output):  # the names are PyTorch's
    ctx.save_for_backward(inputs[0], inputs[1])
    ctx.rest = inputs[3:]  # behind the bias, or the shape of the result


def _conv_gradients(context, dy):
    x, w = context.saved_tensors
    needs = context.needs_input_grad
    rest = context.rest
    dx = _backward_data(dy, w, list(x.shape), *rest) if needs[0] else None
    dw = _backward_weights(x, dy, list(w.shape), *rest) if needs[1] else None
    db = dy.sum((0, *range(2, dy.dim()))) if needs[2] else None
    return (dx, dw, db, *[None] * len(rest))


def _backward_data_gradients(context, grad):
    dy, w = context.saved_tensors
    needs = context.needs_input_grad
    rest = context.rest
    by_dy = _conv(grad, w, None, *rest) if needs[0] else None
    by_w = _backward_weights(grad, dy, list(w.shape), *rest) if needs[1] else None
    return (by_dy, by_w, None, *[None] * len(rest))


def _backward_weights_gradients(context, grad):
    x, dy = context.saved_tensors
    needs = context.needs_input_grad
    rest = context.rest
    by_x = _backward_data(dy, grad, list(x.shape), *rest) if needs[0] else None
    by_dy = _conv(x, grad, None, *rest) if needs[1] else None
    return (by_x, by_dy, None, *[None] * len(rest))


_conv.register_autograd(_conv_gradients, setup_context=_keep)
_backward_data.register_autograd(_backward_data_gradients, setup_context=_keep)
_backward_weights.register_autograd(_backward_weights_gradients, setup_context=_keep)


def _each(value, axes, name):
    if isinstance(value, int):
        return [value] * axes
    value = list(value)
    if len(value) == 1:
        return value * axes
    if len(value) != axes:
        raise _plumb.Error(f"{name} has {len(value)} values; expected one, or {axes}, one for each axis of the image")
    return value


def _padding(padding, axes, weight, stride, dilation):
    """Before, for each axis, and then behind."""
    if padding == "valid":
        return [0] * (2 * axes)
    if padding == "same":
        if any(step != 1 for step in stride):
            raise _plumb.Error(f"padding is \"same\" with a stride of {stride}; expected 1")
        reach = [d * (size - 1) for d, size in zip(dilation, weight.shape[2:])]
        return [r // 2 for r in reach] + [r - r // 2 for r in reach]
    if isinstance(padding, str):
        raise _plumb.Error(f"padding is {padding!r}; expected numbers, \"valid\" or \"same\"")
    return _each(padding, axes, "padding") * 2


def _batched(input, axes):
    """PyTorch takes an image without a batch as well."""
    if input.dim() == axes + 1:
        return input.unsqueeze(0), True
    if input.dim() != axes + 2:
        raise _plumb.Error(f"input has {input.dim()} axes; expected {axes + 2}, or {axes + 1} without a batch")
    return input, False


def _as_autocast(*tensors):
    """PyTorch casts what its own convolutions take inside of torch.autocast, and so do these."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    dtype = torch.get_autocast_dtype(device)
    return tuple(tensor.to(dtype) if tensor is not None and tensor.dtype != torch.float64 else tensor
                 for tensor in tensors)


# An operator's way through PyTorch's dispatcher costs several times what a small convolution does. Where nobody watches
# operators (no compiler, no mode, no transform) and the tensors are plain ones, the library is called without it: the
# same calls, with the same results.

def _watchers():
    """What tells that somebody watches, or None where this PyTorch keeps it elsewhere: then operators are called."""
    try:
        from torch.autograd import forward_ad
        from torch.utils._python_dispatch import is_in_torch_dispatch_mode
        functions = (torch.compiler.is_compiling, is_in_torch_dispatch_mode, torch._C._len_torch_function_stack,
                     torch._C._functorch.peek_interpreter_stack, torch._C._get_tracing_state)
        if any(function() for function in functions) or forward_ad._current_level >= 0:
            return None
    except (AttributeError, ImportError):
        return None
    return functions, forward_ad


_WATCHERS = _watchers()
_PLAIN = (Tensor, torch.nn.Parameter)


def _is_direct(x, w, bias):
    if _WATCHERS is None or torch.compiler.is_compiling():  # which a compiler takes for a constant
        return False
    (_, in_mode, in_function_mode, transform, tracing), forward_ad = _WATCHERS
    return (type(x) in _PLAIN and type(w) in _PLAIN and (bias is None or type(bias) in _PLAIN)
            and not in_mode() and not in_function_mode() and transform() is None and tracing() is None
            and forward_ad._current_level < 0)


def _needs_gradient(*tensors):
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def _values(tensor):
    return tensor.detach() if tensor is not None and tensor.requires_grad else tensor


def _directly(x, w, bias, settings):
    return _plumb.conv(_values(x), _values(w), _values(bias), **settings)


def _arguments(weight, stride, padding, dilation, groups, boundary, math):
    """The operators', of what a caller gives."""
    axes = weight.dim() - 2
    stride, dilation = _each(stride, axes, "stride"), _each(dilation, axes, "dilation")
    return stride, _padding(padding, axes, weight, stride, dilation), dilation, groups, boundary, math


if _WATCHERS is not None:
    class _Direct(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w, bias, settings):  # the names are PyTorch's
            ctx.save_for_backward(x, w)
            ctx.settings = settings
            return _directly(x, w, bias, settings)

        @staticmethod
        def backward(ctx, dy):
            x, w = ctx.saved_tensors
            by_x, by_w, by_bias, _ = ctx.needs_input_grad
            if torch.is_grad_enabled() or not _is_direct(x, w, dy):  # derivatives of these are the operators'
                rest = _arguments(w, **ctx.settings)
                dx = _backward_data(dy, w, list(x.shape), *rest) if by_x else None
                dw = _backward_weights(x, dy, list(w.shape), *rest) if by_w else None
            else:
                dx = _plumb.conv_backward_data(_values(dy), _values(w), x.shape, **ctx.settings) if by_x else None
                dw = _plumb.conv_backward_weights(_values(x), _values(dy), w.shape, **ctx.settings) if by_w else None
            return dx, dw, dy.sum((0, *range(2, dy.dim()))) if by_bias else None, None


def _forward(axes, input, weight, bias, stride, padding, dilation, groups, boundary, math):
    input, weight, bias = _as_autocast(input, weight, bias)
    x, single = _batched(input, axes)
    if _is_direct(x, weight, bias):
        settings = dict(stride=stride, padding=padding, dilation=dilation, groups=groups, boundary=boundary, math=math)
        y = (_Direct.apply(x, weight, bias, settings) if _needs_gradient(x, weight, bias)
             else _directly(x, weight, bias, settings))
        return y.squeeze(0) if single else y
    stride, dilation = _each(stride, axes, "stride"), _each(dilation, axes, "dilation")
    padding = _padding(padding, axes, weight, stride, dilation)
    y = _conv(x, weight, bias, stride, padding, dilation, groups, boundary, math)
    return y.squeeze(0) if single else y


def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Numbers = 1, padding: Numbers | str = 0,
           dilation: Numbers = 1, groups: int = 1, *, boundary: str = "zeros", math: str = "fp32") -> Tensor:
    """torch.nn.functional.conv1d: [N, C, W] and [K, C/groups, S] give [N, K, Q]."""
    return _forward(1, input, weight, bias, stride, padding, dilation, groups, boundary, math)


def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Numbers = 1, padding: Numbers | str = 0,
           dilation: Numbers = 1, groups: int = 1, *, boundary: str = "zeros", math: str = "fp32") -> Tensor:
    """torch.nn.functional.conv2d: [N, C, H, W] and [K, C/groups, R, S] give [N, K, P, Q]."""
    return _forward(2, input, weight, bias, stride, padding, dilation, groups, boundary, math)


def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Numbers = 1, padding: Numbers | str = 0,
           dilation: Numbers = 1, groups: int = 1, *, boundary: str = "zeros", math: str = "fp32") -> Tensor:
    """torch.nn.functional.conv3d: [N, C, D, H, W] and [K, C/groups, T, R, S] give [N, K, Z, P, Q]."""
    return _forward(3, input, weight, bias, stride, padding, dilation, groups, boundary, math)


def _transposed(axes, input, weight, bias, stride, padding, output_padding, groups, dilation, math):
    input, weight, bias = _as_autocast(input, weight, bias)
    x, single = _batched(input, axes)
    stride, dilation, padding, more = (_each(value, axes, name) for value, name in (
        (stride, "stride"), (dilation, "dilation"), (padding, "padding"), (output_padding, "output_padding")))
    for extra, step in zip(more, stride):
        if not 0 <= extra < step:
            raise _plumb.Error(f"output_padding is {extra} with a stride of {step}; expected less, and at least 0")
    image = [(x.shape[2 + i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (weight.shape[2 + i] - 1) + 1 + more[i]
             for i in range(axes)]
    shape = [x.shape[0], weight.shape[1] * groups, *image]
    if _is_direct(x, weight, bias) and not _needs_gradient(x, weight):
        y = _plumb.conv_backward_data(_values(x), _values(weight), shape, stride=stride, padding=padding, dilation=dilation,
                                      groups=groups, math=math)
    else:
        y = _backward_data(x, weight, shape, stride, padding * 2, dilation, groups, "zeros", math)
    if bias is not None:
        y = y + bias.reshape((-1,) + (1,) * axes)
    return y.squeeze(0) if single else y


def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Numbers = 1,
                     padding: Numbers = 0, output_padding: Numbers = 0, groups: int = 1, dilation: Numbers = 1, *,
                     math: str = "fp32") -> Tensor:
    """torch.nn.functional.conv_transpose1d."""
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation, math)


def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Numbers = 1,
                     padding: Numbers = 0, output_padding: Numbers = 0, groups: int = 1, dilation: Numbers = 1, *,
                     math: str = "fp32") -> Tensor:
    """torch.nn.functional.conv_transpose2d."""
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation, math)


def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Numbers = 1,
                     padding: Numbers = 0, output_padding: Numbers = 0, groups: int = 1, dilation: Numbers = 1, *,
                     math: str = "fp32") -> Tensor:
    """torch.nn.functional.conv_transpose3d."""
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation, math)


class _ByPlumb:
    """What torch.nn.ConvNd computes, by Plumb. PyTorch's padding modes are boundaries here, and nothing is copied."""

    math = "fp32"

    def forward(self, input: Tensor) -> Tensor:
        axes = len(self.kernel_size)
        boundary = {"zeros": "zeros", "circular": "periodic", "reflect": "reflect", "replicate": "clamp"}[
            self.padding_mode]
        return _forward(axes, input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups,
                        boundary, self.math)


class Conv1d(_ByPlumb, torch.nn.Conv1d):
    """torch.nn.Conv1d, with its arguments, computed by Plumb."""


class Conv2d(_ByPlumb, torch.nn.Conv2d):
    """torch.nn.Conv2d, with its arguments, computed by Plumb."""


class Conv3d(_ByPlumb, torch.nn.Conv3d):
    """torch.nn.Conv3d, with its arguments, computed by Plumb."""


_MODULES = {torch.nn.Conv1d: Conv1d, torch.nn.Conv2d: Conv2d, torch.nn.Conv3d: Conv3d}


def _seconds(layer, x, repeats=5):
    """Of forward and, where there are parameters to train, backward: the least of a few."""
    times = []
    trained = any(parameter.requires_grad for parameter in layer.parameters())
    for _ in range(repeats + 1):  # the first one plans
        begin = time.perf_counter()
        with torch.set_grad_enabled(trained):
            y = layer(x)
            if trained:
                torch.autograd.grad(y, [p for p in layer.parameters() if p.requires_grad], torch.ones_like(y))
        if x.is_cuda:
            torch.cuda.synchronize(x.device)
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def patch(model: torch.nn.Module, *inputs: Any, **named: Any) -> _plumb.Table:
    """Replace the convolutions of a model that Plumb is faster for, in place, and return a table of all of them.

    model is run once on the inputs given, and each of its layers torch.nn.Conv1d, Conv2d and Conv3d is timed on
    what it gets there, forward and for trained weights backward, by PyTorch and by Plumb. Layers keep their
    parameters and names. Without inputs nothing is timed, and all are replaced.
    """
    layers = {name: module for name, module in model.named_modules() if type(module) in _MODULES}
    seen = {}

    def watch(name):
        def keep(module, arguments):
            seen.setdefault(name, arguments[0].detach())
        return keep

    timed = bool(inputs or named)
    if timed:
        hooks = [module.register_forward_pre_hook(watch(name)) for name, module in layers.items()]
        try:
            with torch.no_grad():
                model(*inputs, **named)
        finally:
            for hook in hooks:
                hook.remove()
    rows = []
    for name, module in layers.items():
        row = {"layer": name, "module": type(module).__name__, "pytorch_seconds": None, "plumb_seconds": None,
               "replaced": not timed}
        theirs = type(module)
        if name in seen:
            row["pytorch_seconds"] = _seconds(module, seen[name])
            module.__class__ = _MODULES[theirs]
            row["plumb_seconds"] = _seconds(module, seen[name])
            row["replaced"] = row["plumb_seconds"] < row["pytorch_seconds"]
        module.__class__ = _MODULES[theirs] if row["replaced"] else theirs
        rows.append(row)
    return _plumb.Table(rows, marked="replaced")
