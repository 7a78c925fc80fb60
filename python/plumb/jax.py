"""plumb.jax.conv: a convolution that jax.jit compiles into what is around it, by XLA's foreign function interface.

It has derivatives of any order in reverse (jax.grad), and jax.vmap runs it image by image. Plumb's own functions take
arrays of JAX too, outside of jit: plumb.conv(x, w).
"""
import functools
from collections.abc import Sequence

import jax
import numpy

import plumb as _plumb
from ._plumb import _jax_handlers

__all__ = ["conv"]

Numbers = int | Sequence[int]  # one, or one for each axis of the image

_handlers = _jax_handlers()
for _platform, _handler in _handlers.items():
    jax.ffi.register_ffi_target("plumb_conv", _handler, platform=_platform)


def _call(direction, shape, a, b, settings):
    if not _handlers:
        raise _plumb.Error("plumb.jax needs a build of Plumb with XLA's headers, which come with jaxlib "
                           "(PLUMB_JAX_INCLUDE_DIR); expected one, or plumb.conv outside of jit", "unsupported")
    stride, padding, dilation, groups, boundary, math = settings
    call = jax.ffi.ffi_call("plumb_conv", jax.ShapeDtypeStruct(shape, a.dtype), vmap_method="sequential")
    return call(a, b, stride=numpy.array(stride, "int64"), padding=numpy.array(padding, "int64"),
                dilation=numpy.array(dilation, "int64"), groups=numpy.int64(groups), boundary=boundary, math=math,
                direction=direction)


# Of an image: axes before and behind, as the handler has them for depth, height and width.
def _forward_shape(x, w, settings):
    stride, padding, dilation = settings[:3]
    axes = x.ndim - 2
    image = tuple((x.shape[2 + i] + padding[3 - axes + i] + padding[6 - axes + i]
                   - dilation[3 - axes + i] * (w.shape[2 + i] - 1) - 1) // stride[3 - axes + i] + 1
                  for i in range(axes))
    return (x.shape[0], w.shape[0], *image)


# Each is linear in both arrays, and the derivatives of each are the two others.
@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _conv(x, w, settings):
    return _call("forward", _forward_shape(x, w, settings), x, w, settings)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _backward_data(dy, w, shape, settings):
    return _call("backward_data", shape, dy, w, settings)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _backward_weights(x, dy, shape, settings):
    return _call("backward_weights", shape, x, dy, settings)


_conv.defvjp(lambda x, w, settings: (_conv(x, w, settings), (x, w)),
             lambda settings, kept, dy: (_backward_data(dy, kept[1], kept[0].shape, settings),
                                         _backward_weights(kept[0], dy, kept[1].shape, settings)))
_backward_data.defvjp(lambda dy, w, shape, settings: (_backward_data(dy, w, shape, settings), (dy, w)),
                      lambda shape, settings, kept, grad: (_conv(grad, kept[1], settings),
                                                           _backward_weights(grad, kept[0], kept[1].shape, settings)))
_backward_weights.defvjp(lambda x, dy, shape, settings: (_backward_weights(x, dy, shape, settings), (x, dy)),
                         lambda shape, settings, kept, grad: (_backward_data(kept[1], grad, kept[0].shape, settings),
                                                              _conv(kept[0], grad, settings)))


def _each(value, axes, name):
    value = (value,) if isinstance(value, int) else tuple(value)
    if len(value) not in (1, axes):
        raise _plumb.Error(f"{name} has {len(value)} values; expected one, or {axes}, one for each axis of the image")
    value = tuple(int(one) for one in value)
    return value * axes if len(value) == 1 else value


def conv(x: jax.Array, w: jax.Array, bias: jax.Array | None = None, *, stride: Numbers = 1, padding: Numbers = 0,
         dilation: Numbers = 1, groups: int = 1, boundary: str = "zeros", math: str = "fp32") -> jax.Array:
    """Convolve x [N, C, H, W] with w [K, C/groups, R, S], or with one or three axes of the image: [N, K, P, Q].

    The arguments are those of plumb.conv; boundary is one of Plumb's names, for all axes.
    """
    axes = x.ndim - 2
    if not 1 <= axes <= 3 or w.ndim != x.ndim:
        raise _plumb.Error(f"x and w have {x.ndim} and {w.ndim} axes; expected both to have 3, 4 or 5")
    if x.dtype != w.dtype:
        raise _plumb.Error(f"x and w are of types {x.dtype} and {w.dtype}; expected one type")
    if boundary not in ("zeros", "periodic", "reflect", "symmetric", "clamp"):
        raise _plumb.Error(f"boundary is {boundary!r}; expected zeros, periodic, reflect, symmetric or clamp")
    if math not in ("fp64", "fp32", "tf32", "bf16", "fp16"):
        raise _plumb.Error(f"math is {math!r}; expected fp64, fp32, tf32, bf16 or fp16")
    ones, none = (1,) * (3 - axes), (0,) * (3 - axes)
    sides = none + _each(padding, axes, "padding")
    settings = (ones + _each(stride, axes, "stride"), sides + sides, ones + _each(dilation, axes, "dilation"),
                int(groups), boundary, math)
    y = _conv(x, w, settings)
    return y if bias is None else y + bias.reshape((-1,) + (1,) * axes)
