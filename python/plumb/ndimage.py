"""scipy.ndimage's linear filters, by Plumb: the same signatures, for arrays of NumPy and CuPy.

    from plumb import ndimage

What differs from SciPy stands in docs/python.md.
"""
import functools
import numbers
import operator
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy

from ._at_once import at_once, axes_at_once, place_of, taps_of
from ._filters import MODES, apply, type_of_work
from ._plumb import _filter

__all__ = ["convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "gaussian_filter1d", "laplace",
           "sobel", "uniform_filter", "uniform_filter1d"]

Array = Any  # of NumPy or CuPy; what is not one is made one of NumPy
Output = Any  # an array to write, a type, or its name
_T = TypeVar("_T")
EachAxis = _T | Sequence[_T]  # one, or one for each axis that is filtered
Axes = int | Iterable[int] | None


def _namespace(array):
    """numpy, or cupy for its arrays."""
    return sys.modules["cupy"] if type(array).__module__.split(".")[0] == "cupy" else numpy


def _mode(name):
    if not isinstance(name, str) or name not in MODES:
        raise RuntimeError(f"boundary mode {name!r} not supported; expected {', '.join(MODES)}")
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


def _weights_of(xp, weights, dtype):
    weights = xp.asarray(weights)
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"weights are of type {weights.dtype}; expected numbers")
    # float32 is kept: apply() makes of it what is worked in, and on a GPU each copy takes a kernel.
    return weights if weights.dtype == "float32" else weights.astype(dtype, copy=False)


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
        apply(xp, array, _weights_of(xp, weights, "float64"), before, modes, cval, output)
        return output
    cval = complex(cval)
    wide = "complex64" if type_of_work(array.real, output.real) == "float32" else "complex128"
    real, imaginary = (xp.zeros(array.shape, wide) for _ in range(2))
    apply(xp, array, weights.real.astype("float64"), before, modes, cval, real)
    apply(xp, array, weights.imag.astype("float64"), before, modes, cval, imaginary)
    output[...] = real + 1j * imaginary if convolution else real - 1j * imaginary
    return output


def correlate(input: Array, weights: Array, output: Output = None, mode: str = "reflect", cval: complex = 0.0,
              origin: EachAxis[int] = 0, *, axes: Axes = None) -> Array:
    """Multi-dimensional correlation, as scipy.ndimage.correlate."""
    if axes is None:
        result = at_once(input, weights, output, mode, cval, origin, False)
        if result is not None:
            return result
    return _n_dimensional(input, weights, output, mode, cval, origin, False, axes)


def convolve(input: Array, weights: Array, output: Output = None, mode: str = "reflect", cval: complex = 0.0,
             origin: EachAxis[int] = 0, *, axes: Axes = None) -> Array:
    """Multi-dimensional convolution, as scipy.ndimage.convolve."""
    if axes is None:
        result = at_once(input, weights, output, mode, cval, origin, True)
        if result is not None:
            return result
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
    result = at_once(input, weights, output, mode, cval, origin, convolution, axis)
    if result is not None:
        return result
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
    apply(xp, array, taps, before, modes, cval, output, size if whole else None)
    return output


def _mean_taps(size):
    return numpy.full(size, 1.0 / size)


def _means(rank, size, mode, origin, axes):
    axes = _axes(axes, rank)
    sizes, origins, modes = (_one_each(value, len(axes)) for value in (size, origin, mode))
    return [(axis, (_mean_taps, int(one)), at, how) for axis, one, at, how in zip(axes, sizes, origins, modes) if one > 1]


def uniform_filter(input: Array, size: EachAxis[int] = 3, output: Output = None, mode: EachAxis[str] = "reflect",
                   cval: complex = 0.0, origin: EachAxis[int] = 0, *, axes: Axes = None) -> Array:
    """Mean over a window, as scipy.ndimage.uniform_filter."""
    result = axes_at_once(input, output, cval, _means, size, mode, origin, axes)
    if result is not None:
        return result
    xp = _namespace(input)
    array = _numbers(xp, input)
    output = _output(xp, output, array, array.dtype.kind == "c")
    steps = _means(array.ndim, size, mode, origin, axes)
    for axis, (_, one), at, how in steps:
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


def _gaussian_turned(sigma, order, radius):
    """To be correlated with."""
    return _gaussian_taps(sigma, order, radius)[::-1]


def _reach(sigma, truncate, radius):
    reach = int(truncate * float(sigma) + 0.5) if radius is None else radius
    if not isinstance(reach, numbers.Integral) or reach < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    return reach


def gaussian_filter1d(input: Array, sigma: float, axis: int = -1, order: int = 0, output: Output = None,
                      mode: str = "reflect", cval: complex = 0.0, truncate: float = 4.0, *,
                      radius: int | None = None) -> Array:
    """Gaussian filter along an axis, as scipy.ndimage.gaussian_filter1d."""
    xp = _namespace(input)
    taps = xp.asarray(_gaussian_turned(float(sigma), order, _reach(sigma, truncate, radius)))
    return correlate1d(input, taps, axis, output, mode, cval, 0)


def _gaussians(rank, sigma, order, mode, truncate, radius, axes):
    axes = _axes(axes, rank)
    sigmas, orders, modes, radii = (_one_each(value, len(axes)) for value in (sigma, order, mode, radius))
    return [(axis, (_gaussian_turned, float(one), derivative, _reach(one, truncate, reach)), 0, how)
            for axis, one, derivative, how, reach in zip(axes, sigmas, orders, modes, radii) if one > 1e-15]


def gaussian_filter(input: Array, sigma: EachAxis[float], order: EachAxis[int] = 0, output: Output = None,
                    mode: EachAxis[str] = "reflect", cval: complex = 0.0, truncate: float = 4.0, *,
                    radius: EachAxis[int] | None = None, axes: Axes = None) -> Array:
    """Gaussian filter, as scipy.ndimage.gaussian_filter."""
    result = axes_at_once(input, output, cval, _gaussians, sigma, order, mode, truncate, radius, axes)
    if result is not None:
        return result
    xp = _namespace(input)
    array = _numbers(xp, input)
    output = _output(xp, output, array, array.dtype.kind == "c")
    steps = _gaussians(array.ndim, sigma, order, mode, truncate, radius, axes)
    for axis, (_, *parameters), _, how in steps:
        correlate1d(array, xp.asarray(_gaussian_turned(*parameters)), axis, output, how, cval, 0)
        array = output
    if not steps:
        output[...] = array
    return output


def _numbers_of(*values):
    return values


def _sobel_taps(rank, axis):
    taps = numpy.ones((1,) * rank)
    for along in range(rank):
        taps = taps * numpy.reshape([-1, 0, 1] if along == axis else [1, 2, 1], [3 if at == along else 1 for at in range(rank)])
    return taps


def _slopes(rank, axis, mode):
    axis, modes = _axis(axis, rank), _one_each(mode, rank)
    return [(axis, (_numbers_of, -1, 0, 1), 0, modes[axis])] + [
        (other, (_numbers_of, 1, 2, 1), 0, modes[other]) for other in range(rank) if other != axis]


def _sobel_at_once(array, axis, output, mode, cval):
    place = place_of(array)
    if place is None or not 0 < array.ndim <= 3:
        return None
    # Beyond the edges of the first filter's result is cval again. Zeros, and what an edge shows, can be had in one.
    if type(mode) is str and (cval == 0 or mode not in ("constant", "grid-constant")):
        taps = taps_of(*place, _sobel_taps, array.ndim, _axis(axis, array.ndim))
        return _filter(array, taps, output, mode, cval, 0, False, True)
    return axes_at_once(array, output, cval, _slopes, axis, mode)


def sobel(input: Array, axis: int = -1, output: Output = None, mode: EachAxis[str] = "reflect",
          cval: complex = 0.0) -> Array:
    """Sobel filter along an axis, as scipy.ndimage.sobel."""
    result = _sobel_at_once(input, axis, output, mode, cval)
    if result is not None:
        return result
    xp = _namespace(input)
    array = _numbers(xp, input)
    axis = _axis(axis, array.ndim)
    output = _output(xp, output, array, array.dtype.kind == "c")
    for along, (_, *taps), _, how in _slopes(array.ndim, axis, mode):
        correlate1d(array, taps, along, output, how, cval, 0)
        array = output
    return output


def _second_differences(rank, mode, axes):
    axes = _axes(axes, rank)
    return [(axis, (_numbers_of, 1, -2, 1), 0, how) for axis, how in zip(axes, _one_each(mode, len(axes)))]


def laplace(input: Array, output: Output = None, mode: EachAxis[str] = "reflect", cval: complex = 0.0, *,
            axes: Axes = None) -> Array:
    """Sum of the second differences along the axes, as scipy.ndimage.laplace."""
    result = axes_at_once(input, output, cval, _second_differences, mode, axes, add=True)
    if result is not None:
        return result
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
