"""scipy.ndimage's linear filters, by Plumb: the same signatures, for arrays of NumPy and CuPy.

    from plumb import ndimage

What differs from SciPy stands in docs/python.md.
"""
import functools
import itertools
import math
import numbers
import operator
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy

from ._plumb import conv as _conv

__all__ = ["convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "gaussian_filter1d", "laplace",
           "sobel", "uniform_filter", "uniform_filter1d"]

Array = Any  # of NumPy or CuPy; what is not one is made one of NumPy
Output = Any  # an array to write, a type, or its name
_T = TypeVar("_T")
EachAxis = _T | Sequence[_T]  # one, or one for each axis that is filtered
Axes = int | Iterable[int] | None

# SciPy's names of what lies beyond the edges, as Plumb's boundaries and as numpy.pad's modes.
_MODES = {
    "reflect": ("symmetric", "symmetric"), "grid-mirror": ("symmetric", "symmetric"),
    "constant": ("zeros", "constant"), "grid-constant": ("zeros", "constant"),
    "nearest": ("clamp", "edge"), "mirror": ("reflect", "reflect"),
    "wrap": ("periodic", "wrap"), "grid-wrap": ("periodic", "wrap"),
}


def _namespace(array):
    """numpy, or cupy for its arrays."""
    return sys.modules["cupy"] if type(array).__module__.split(".")[0] == "cupy" else numpy


def _mode(name):
    if not isinstance(name, str) or name not in _MODES:
        raise RuntimeError(f"boundary mode {name!r} not supported; expected {', '.join(_MODES)}")
    return name


def _one_each(value, count):
    """A list of `count` values, of one or of as many."""
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return [value] * count
    value = list(value)
    if len(value) != count:
        raise RuntimeError(f"sequence argument must have length equal to input rank; it has {len(value)}, "
                           f"expected {count}")
    return value


def _axis(axis, rank):
    axis = operator.index(axis)
    if not -rank <= axis < rank:
        raise numpy.exceptions.AxisError(axis, rank) if hasattr(numpy, "exceptions") else ValueError(
            f"axis {axis} is out of bounds for an array of {rank} axes")
    return axis % rank


def _axes(axes, rank):
    if axes is None:
        return tuple(range(rank))
    if isinstance(axes, numbers.Integral):
        axes = (axes,)
    if not hasattr(axes, "__iter__"):
        raise ValueError(f"axes is {axes!r}; expected an integer, a tuple of integers, or None")
    found = tuple(_axis_of_many(axis, rank) for axis in axes)
    if len(set(found)) != len(found):
        raise ValueError("axes must be unique")
    return found


def _axis_of_many(axis, rank):
    index = operator.index(axis)
    if not -rank <= index < rank:
        raise ValueError(f"specified axis: {axis} is out of range")
    return index % rank


def _check_origin(origin, size):
    origin = operator.index(origin)
    if not -(size // 2) <= origin <= (size - 1) // 2:
        raise ValueError(f"origin is {origin}; expected it to satisfy -(size // 2) <= origin <= (size - 1) // 2, "
                         f"with a size of {size}")
    return origin


def _output(xp, output, array, complex_output=False, shape=None):
    """The array to write: given, or new, of the type asked for or of the input's."""
    shape = array.shape if shape is None else shape
    if output is None:
        return xp.zeros(shape, numpy.promote_types(array.dtype, numpy.complex64) if complex_output else array.dtype)
    if isinstance(output, (type, numpy.dtype, str)):
        dtype = numpy.dtype(output)
        if complex_output and dtype.kind != "c":
            warnings.warn("promoting specified output dtype to complex", stacklevel=3)
            dtype = numpy.promote_types(dtype, numpy.complex64)
        return xp.zeros(shape, dtype)
    if not isinstance(output, xp.ndarray):
        raise TypeError(f"output is of type {type(output).__name__}; expected an array or a type")
    if output.shape != shape:
        raise RuntimeError(f"output shape not correct: it is {output.shape}, expected {shape}")
    if complex_output and output.dtype.kind != "c":
        raise RuntimeError("output must have complex dtype")
    return output


def _type_of_work(array, output):
    """float32 where both are no more than that, otherwise float64, as SciPy always has it."""
    narrow = ("float16", "float32")
    return "float32" if array.dtype.name in narrow and output.dtype.name in narrow else "float64"


def _weights_of(xp, weights, dtype):
    weights = xp.asarray(weights)
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"weights are of type {weights.dtype}; expected numbers")
    return weights.astype(dtype)


def _filter(xp, x, taps, before, modes, cval, y):
    """y of x and taps, of one type and rank: y[i] = sum of taps[j] x[i + j - before]; y shares nothing with x."""
    if x.size == 0:
        return
    modes = ["nearest" if mode == "mirror" and extent == 1 else mode for mode, extent in zip(modes, x.shape)]
    long = [axis for axis, size in enumerate(taps.shape) if size > 1]
    outside = any(_MODES[modes[axis]][0] == "zeros" for axis in long)
    padding = [(before[axis], size - 1 - before[axis]) for axis, size in enumerate(taps.shape)]
    boundary = [_MODES[mode][0] for mode in modes]
    # Plumb leaves taps out where it reads zeros beyond the edge; SciPy multiplies. A filter with an Inf tells.
    if len(long) > 3 or outside and not (math.isfinite(cval) and bool(xp.isfinite(taps).all())):
        x = _padded(xp, x, padding, modes, cval)
        padding = [(0, 0)] * x.ndim
        boundary = ["zeros"] * x.ndim
        outside = False
    # A filter of more axes than an image has is a sum over its taps along the first ones.
    extra = long[:-3]
    for count, index in enumerate(itertools.product(*(range(taps.shape[axis]) for axis in extra))):
        window = [slice(None)] * x.ndim
        chosen = [slice(None)] * x.ndim
        for axis, at in zip(extra, index):
            window[axis] = slice(at, at + y.shape[axis])
            chosen[axis] = slice(at, at + 1)
        _convolve_axes(x[tuple(window)], taps[tuple(chosen)], long[-3:], padding, boundary, y, count > 0)
    if outside and cval != 0:
        _add_beyond(xp, taps, before, [axis for axis in long if _MODES[modes[axis]][0] == "zeros"], cval, y)


def _add_beyond(xp, taps, before, axes, cval, y):
    """Adds to y what cval beyond the edges of these axes gives where zeros were read: nothing is padded for it."""
    sums = taps.astype("float64")
    for axis, size in enumerate(taps.shape):
        if axis in axes:  # of the first taps, none to all
            sums = xp.concatenate([xp.zeros_like(sums.take([0], axis)), sums], axis).cumsum(axis)
        else:
            sums = sums.sum(axis, keepdims=True)
    region = [slice(0, extent) for extent in y.shape]
    if y.size <= 4096:
        y += cval * _taps_beyond(xp, sums, before, axes, region, y.shape)
        return
    for axis in axes:  # its two edges, between those of the axes before
        extent, behind = y.shape[axis], taps.shape[axis] - 1 - before[axis]
        front = min(before[axis], extent)
        back = max(front, extent - behind)
        for edge in (slice(0, front), slice(back, extent)):
            region[axis] = edge
            if edge.start < edge.stop:
                y[tuple(region)] += cval * _taps_beyond(xp, sums, before, axes, region, y.shape)
        region[axis] = slice(front, back)
        if front == back:
            return


def _taps_beyond(xp, sums, before, axes, region, extents):
    """The sum of the taps that lie beyond these axes' edges, at each place of a region; 0 within, to the bit."""
    within = whole = sums
    for axis in axes:
        taps = sums.shape[axis] - 1
        first = before[axis] - xp.arange(region[axis].start, region[axis].stop)  # the tap on the image's first element
        within = within.take(xp.minimum(first + extents[axis], taps), axis) - within.take(xp.maximum(first, 0), axis)
        whole = whole.take([taps], axis) - whole.take([0], axis)
    return whole - within


def _padded(xp, x, padding, modes, cval):
    """A copy of x with what lies beyond its edges."""
    for axis, mode in enumerate(modes):
        if padding[axis] != (0, 0):
            widths = [(0, 0)] * x.ndim
            widths[axis] = padding[axis]
            how = _MODES[mode][1]
            x = xp.pad(x, widths, mode=how, **({"constant_values": cval} if how == "constant" else {}))
    return x


def _convolve_axes(x, taps, long, padding, boundary, y, accumulate):
    """One convolution along at most three axes: those, and the last of the others, are the image's."""
    order = list(range(x.ndim))
    if 0 not in x.strides:  # the innermost last, as the kernels read fastest; a result may be written with any strides
        order.sort(key=lambda axis: -abs(x.strides[axis]))
    others = [axis for axis in order if axis not in long]
    chosen = {*long, *others[::-1][:3 - len(long)]}
    image = [axis for axis in order if axis in chosen]
    batch = [axis for axis in order if axis not in chosen]
    x, y, taps = (array.transpose(batch + image) for array in (x, y, taps))
    settings = dict(padding=[padding[axis] for axis in image], boundary=[boundary[axis] for axis in image],
                    accumulate=accumulate)
    taps = taps.reshape((1, 1) + taps.shape[len(batch):])
    if not batch:
        _conv(x[None, None], taps, out=y[None, None], **settings)
        return
    for index in itertools.product(*(range(extent) for extent in y.shape[:len(batch) - 1])):
        _conv(x[index][:, None], taps, out=y[index][:, None], **settings)


def _apply(xp, array, taps, before, modes, cval, output, divisor=None):
    """The filter of an array of any type of numbers into an output of any."""
    if array.dtype.kind == "c" or output.dtype.kind == "c" and numpy.iscomplexobj(cval):
        cval = complex(cval)
        _apply(xp, array.real, taps, before, modes, cval.real, output.real, divisor)
        _apply(xp, array.imag, taps, before, modes, cval.imag, output.imag, divisor)
        return
    if output.dtype.kind == "c":
        output.imag[...] = 0
        output = output.real
    dtype = _type_of_work(array, output)
    x = _readable(xp, array, dtype)
    taps = taps.astype(dtype, copy=False)
    direct = output.dtype == dtype and _readable(xp, output, dtype) is output and not xp.may_share_memory(x, output)
    y = output if direct else xp.empty(output.shape, dtype)
    _filter(xp, x, taps, before, modes, cval, y)
    if divisor is not None:
        y /= divisor
    if not direct:
        with numpy.errstate(invalid="ignore"):
            # As C casts: to the byte of a bool, of which what is below one is False, and around the ends of unsigned
            # types, where NumPy's own cast of a double does what the processor does.
            if output.dtype.kind == "b" or output.dtype.kind == "u" and output.dtype.itemsize < 8:
                y = y.astype("int64")
            output[...] = y.astype(output.dtype, copy=False)


def _readable(xp, array, dtype):
    """The array, or a copy where its type, its byte order or its alignment is another."""
    if array.dtype == dtype and array.dtype.isnative and (xp is not numpy or array.flags.aligned) and all(
            stride % array.itemsize == 0 for stride in array.strides):
        return array
    return array.astype(dtype)


def _numbers(xp, input):
    array = xp.asarray(input)
    if array.dtype.kind not in "biufc":
        raise RuntimeError(f"data type not supported: input is of type {array.dtype}")
    return array


def _check_cval(array, cval):
    if array.dtype.kind != "c" and numpy.iscomplexobj(cval):
        raise ValueError("Cannot provide a complex-valued cval when the input is real.")


def _n_dimensional(input, weights, output, mode, cval, origin, convolution, axes):
    xp = _namespace(input)
    array = _numbers(xp, input)
    _check_cval(array, cval)
    weights = xp.asarray(weights)
    axes = _axes(axes, array.ndim)
    if weights.ndim != len(axes):
        raise RuntimeError(f"weights.ndim ({weights.ndim}) must match len(axes) ({len(axes)})")
    if weights.size == 0:
        raise RuntimeError(f"weights have shape {weights.shape}; expected a weight at least")
    if not isinstance(mode, str):
        raise RuntimeError("A sequence of modes is not supported")
    # As SciPy has it, the axes of the weights go up in the order of the image's, and origins as the axes given.
    shape = [1] * array.ndim
    for axis, size in zip(sorted(axes), weights.shape):
        shape[axis] = size
    origins = [0] * array.ndim
    for axis, at in zip(axes, _one_each(origin, len(axes))):
        origins[axis] = operator.index(at)
    weights = weights.reshape(shape)
    if convolution:
        weights = weights[(slice(None, None, -1),) * weights.ndim]
        origins = [-at if size % 2 else -at - 1 for at, size in zip(origins, shape)]
    before = [size // 2 + _check_origin(at, size) for at, size in zip(origins, shape)]
    modes = [_mode(mode) if axis in axes else "constant" for axis in range(array.ndim)]
    return _with_weights(xp, array, weights, before, modes, cval, output, convolution)


def _with_weights(xp, array, weights, before, modes, cval, output, convolution=False):
    """Complex weights are two filters; SciPy's correlation takes their conjugates."""
    complex_weights = weights.dtype.kind == "c"
    output = _output(xp, output, array, array.dtype.kind == "c" or complex_weights)
    if not complex_weights:
        _apply(xp, array, _weights_of(xp, weights, "float64"), before, modes, cval, output)
        return output
    cval = complex(cval)
    wide = "complex64" if _type_of_work(array.real, output.real) == "float32" else "complex128"
    real, imaginary = (xp.zeros(array.shape, wide) for _ in range(2))
    _apply(xp, array, weights.real.astype("float64"), before, modes, cval, real)
    _apply(xp, array, weights.imag.astype("float64"), before, modes, cval, imaginary)
    output[...] = real + 1j * imaginary if convolution else real - 1j * imaginary
    return output


def correlate(input: Array, weights: Array, output: Output = None, mode: str = "reflect", cval: complex = 0.0,
              origin: EachAxis[int] = 0, *, axes: Axes = None) -> Array:
    """Multi-dimensional correlation, as scipy.ndimage.correlate."""
    return _n_dimensional(input, weights, output, mode, cval, origin, False, axes)


def convolve(input: Array, weights: Array, output: Output = None, mode: str = "reflect", cval: complex = 0.0,
             origin: EachAxis[int] = 0, *, axes: Axes = None) -> Array:
    """Multi-dimensional convolution, as scipy.ndimage.convolve."""
    return _n_dimensional(input, weights, output, mode, cval, origin, True, axes)


def _along(xp, array, weights, axis, output, mode, cval, origin, convolution=False):
    """The filter along one axis, of weights that are correlated with."""
    shape = [1] * array.ndim
    shape[axis] = weights.shape[0]
    before = [0] * array.ndim
    before[axis] = weights.shape[0] // 2 + origin
    modes = ["constant"] * array.ndim
    modes[axis] = _mode(mode)
    return _with_weights(xp, array, weights.reshape(shape), before, modes, cval, output, convolution)


def correlate1d(input: Array, weights: Array, axis: int = -1, output: Output = None, mode: str = "reflect",
                cval: complex = 0.0, origin: int = 0) -> Array:
    """One-dimensional correlation along an axis, as scipy.ndimage.correlate1d."""
    return _one_dimensional(input, weights, axis, output, mode, cval, origin, False)


def convolve1d(input: Array, weights: Array, axis: int = -1, output: Output = None, mode: str = "reflect",
               cval: complex = 0.0, origin: int = 0) -> Array:
    """One-dimensional convolution along an axis, as scipy.ndimage.convolve1d."""
    return _one_dimensional(input, weights, axis, output, mode, cval, origin, True)


def _one_dimensional(input, weights, axis, output, mode, cval, origin, convolution):
    xp = _namespace(input)
    array = _numbers(xp, input)
    _check_cval(array, cval)
    weights = xp.asarray(weights)
    if weights.ndim != 1 or weights.shape[0] < 1:
        raise RuntimeError("no filter weights given: weights have shape "
                           f"{weights.shape}; expected one axis and a weight at least")
    axis = _axis(axis, array.ndim)
    origin = _check_origin(origin, weights.shape[0])
    if convolution:
        origin = -origin if weights.shape[0] % 2 else -origin - 1
        weights = weights[::-1]
    return _along(xp, array, weights, axis, output, mode, cval, origin, convolution)


def uniform_filter1d(input: Array, size: int, axis: int = -1, output: Output = None, mode: str = "reflect",
                     cval: complex = 0.0, origin: int = 0) -> Array:
    """Mean over a window along an axis, as scipy.ndimage.uniform_filter1d."""
    xp = _namespace(input)
    array = _numbers(xp, input)
    axis = _axis(axis, array.ndim)
    if size < 1:
        raise RuntimeError(f"incorrect filter size: {size}; expected at least 1")
    origin = _check_origin(origin, size)
    output = _output(xp, output, array, array.dtype.kind == "c")
    shape, before, modes = [1] * array.ndim, [0] * array.ndim, ["constant"] * array.ndim
    shape[axis], before[axis], modes[axis] = size, size // 2 + origin, _mode(mode)
    # Whole numbers are summed as such and divided once, so that a mean which is whole is not cut off below it.
    whole = array.dtype.kind in "biu" or output.dtype.kind in "biu"
    taps = xp.full(shape, 1.0 if whole else 1.0 / size)
    _apply(xp, array, taps, before, modes, cval, output, size if whole else None)
    return output


def uniform_filter(input: Array, size: EachAxis[int] = 3, output: Output = None, mode: EachAxis[str] = "reflect",
                   cval: complex = 0.0, origin: EachAxis[int] = 0, *, axes: Axes = None) -> Array:
    """Mean over a window, as scipy.ndimage.uniform_filter."""
    xp = _namespace(input)
    array = _numbers(xp, input)
    output = _output(xp, output, array, array.dtype.kind == "c")
    axes = _axes(axes, array.ndim)
    sizes, origins, modes = (_one_each(value, len(axes)) for value in (size, origin, mode))
    steps = [(axis, int(one), at, how) for axis, one, at, how in zip(axes, sizes, origins, modes) if one > 1]
    for axis, one, at, how in steps:
        uniform_filter1d(array, one, axis, output, how, cval, at)
        array = output
    if not steps:
        output[...] = array
    return output


@functools.lru_cache(maxsize=64)
def _gaussian_taps(sigma, order, radius):
    """A Gaussian's derivative of that order, over its sum, at the whole numbers up to the radius; not to be written.

    The derivative of q(x) exp(-x^2 / 2 sigma^2) is (q' - q x / sigma^2) of it.
    """
    if order < 0:
        raise ValueError("order must be non-negative")
    x = numpy.arange(-radius, radius + 1)
    variance = sigma * sigma
    taps = numpy.exp(-0.5 / variance * x ** 2)
    taps = taps / taps.sum()
    if order == 0:
        return taps
    polynomial = numpy.polynomial.Polynomial([1.0])
    for _ in range(order):
        polynomial = polynomial.deriv() - polynomial * numpy.polynomial.Polynomial([0.0, 1 / variance])
    return polynomial(x) * taps


def gaussian_filter1d(input: Array, sigma: float, axis: int = -1, order: int = 0, output: Output = None,
                      mode: str = "reflect", cval: complex = 0.0, truncate: float = 4.0, *,
                      radius: int | None = None) -> Array:
    """Gaussian filter along an axis, as scipy.ndimage.gaussian_filter1d."""
    xp = _namespace(input)
    sigma = float(sigma)
    reach = int(truncate * sigma + 0.5) if radius is None else radius
    if not isinstance(reach, numbers.Integral) or reach < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    taps = xp.asarray(_gaussian_taps(sigma, order, reach)[::-1])  # correlated with, so turned about
    return correlate1d(input, taps, axis, output, mode, cval, 0)


def gaussian_filter(input: Array, sigma: EachAxis[float], order: EachAxis[int] = 0, output: Output = None,
                    mode: EachAxis[str] = "reflect", cval: complex = 0.0, truncate: float = 4.0, *,
                    radius: EachAxis[int] | None = None, axes: Axes = None) -> Array:
    """Gaussian filter, as scipy.ndimage.gaussian_filter."""
    xp = _namespace(input)
    array = _numbers(xp, input)
    output = _output(xp, output, array, array.dtype.kind == "c")
    axes = _axes(axes, array.ndim)
    sigmas, orders, modes, radii = (_one_each(value, len(axes)) for value in (sigma, order, mode, radius))
    steps = [step for step in zip(axes, sigmas, orders, modes, radii) if step[1] > 1e-15]
    for axis, one, derivative, how, reach in steps:
        gaussian_filter1d(array, one, axis, derivative, output, how, cval, truncate, radius=reach)
        array = output
    if not steps:
        output[...] = array
    return output


def sobel(input: Array, axis: int = -1, output: Output = None, mode: EachAxis[str] = "reflect",
          cval: complex = 0.0) -> Array:
    """Sobel filter along an axis, as scipy.ndimage.sobel."""
    xp = _namespace(input)
    array = _numbers(xp, input)
    axis = _axis(axis, array.ndim)
    output = _output(xp, output, array, array.dtype.kind == "c")
    modes = _one_each(mode, array.ndim)
    correlate1d(array, [-1, 0, 1], axis, output, modes[axis], cval, 0)
    for other in range(array.ndim):
        if other != axis:
            correlate1d(output, [1, 2, 1], other, output, modes[other], cval, 0)
    return output


def laplace(input: Array, output: Output = None, mode: EachAxis[str] = "reflect", cval: complex = 0.0, *,
            axes: Axes = None) -> Array:
    """Sum of the second differences along the axes, as scipy.ndimage.laplace."""
    xp = _namespace(input)
    array = _numbers(xp, input)
    output = _output(xp, output, array, array.dtype.kind == "c")
    axes = _axes(axes, array.ndim)
    modes = _one_each(mode, len(axes))
    if not axes:
        output[...] = array
        return output
    source = array.copy() if xp.may_share_memory(array, output) else array
    correlate1d(source, [1, -2, 1], axes[0], output, modes[0], cval, 0)
    for axis, how in zip(axes[1:], modes[1:]):
        output += correlate1d(source, [1, -2, 1], axis, output.dtype, how, cval, 0)
    return output
