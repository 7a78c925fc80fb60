"""scipy.ndimage's linear filters, by Plumb: the same signatures, for arrays of NumPy and CuPy.

    from plumb import ndimage

What differs from SciPy stands in docs/python.md.
"""
import functools
import numbers
import operator
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy

from ._arguments import (check_cval, checked_axes, checked_axis, checked_mode, checked_origin, namespace_of, numeric,
                         one_each, output_of, weights_of)
from ._at_once import at_once, axes_at_once, place_of, taps_of
from ._filters import apply, type_of_work
from ._plumb import _filter

__all__ = ["convolve", "convolve1d", "correlate", "correlate1d", "gaussian_filter", "gaussian_filter1d", "laplace",
           "sobel", "uniform_filter", "uniform_filter1d"]

Array = Any  # of NumPy or CuPy; what is not one is made one of NumPy
Output = Any  # an array to write, a type, or its name
_T = TypeVar("_T")
EachAxis = _T | Sequence[_T]  # one, or one for each axis that is filtered
Axes = int | Iterable[int] | None


def _n_dimensional(input, weights, output, mode, cval, origin, convolution, axes):
    xp = namespace_of(input)
    array = numeric(xp, input)
    check_cval(array, cval)
    weights = xp.asarray(weights)
    axes = checked_axes(axes, array.ndim)
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
    for axis, at in zip(axes, one_each(origin, len(axes))):
        origins[axis] = operator.index(at)
    weights = weights.reshape(shape)
    if convolution:
        weights = weights[(slice(None, None, -1),) * weights.ndim]
        origins = [-at if size % 2 else -at - 1 for at, size in zip(origins, shape)]
    before = [size // 2 + checked_origin(at, size) for at, size in zip(origins, shape)]
    modes = [checked_mode(mode) if axis in axes else "constant" for axis in range(array.ndim)]
    return _with_weights(xp, array, weights, before, modes, cval, output, convolution)


def _with_weights(xp, array, weights, before, modes, cval, output, convolution=False):
    """Complex weights are two filters; SciPy's correlation takes their conjugates."""
    complex_weights = weights.dtype.kind == "c"
    output = output_of(xp, output, array, array.dtype.kind == "c" or complex_weights)
    if not complex_weights:
        apply(xp, array, weights_of(xp, weights, "float64"), before, modes, cval, output)
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
    modes[axis] = checked_mode(mode)
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
    xp = namespace_of(input)
    array = numeric(xp, input)
    check_cval(array, cval)
    weights = xp.asarray(weights)
    if weights.ndim != 1 or weights.shape[0] < 1:
        raise RuntimeError("no filter weights given: weights have shape "
                           f"{weights.shape}; expected one axis and a weight at least")
    axis = checked_axis(axis, array.ndim)
    origin = checked_origin(origin, weights.shape[0])
    if convolution:
        origin = -origin if weights.shape[0] % 2 else -origin - 1
        weights = weights[::-1]
    return _along(xp, array, weights, axis, output, mode, cval, origin, convolution)


def _mean_taps(size):
    return numpy.full(size, 1.0 / size)


def _mean_along(rank, size, axis, mode, origin):
    if size < 1:
        raise RuntimeError(f"incorrect filter size: {size}; expected at least 1")
    return [(checked_axis(axis, rank), (_mean_taps, size), origin, mode)]


def uniform_filter1d(input: Array, size: int, axis: int = -1, output: Output = None, mode: str = "reflect",
                     cval: complex = 0.0, origin: int = 0) -> Array:
    """Mean over a window along an axis, as scipy.ndimage.uniform_filter1d."""
    result = axes_at_once(input, output, cval, _mean_along, size, axis, mode, origin)
    if result is not None:
        return result
    xp = namespace_of(input)
    array = numeric(xp, input)
    axis = checked_axis(axis, array.ndim)
    if size < 1:
        raise RuntimeError(f"incorrect filter size: {size}; expected at least 1")
    origin = checked_origin(origin, size)
    output = output_of(xp, output, array, array.dtype.kind == "c")
    shape, before, modes = [1] * array.ndim, [0] * array.ndim, ["constant"] * array.ndim
    shape[axis], before[axis], modes[axis] = size, size // 2 + origin, checked_mode(mode)
    # Whole numbers are summed as such and divided once, so that a mean which is whole is not cut off below it.
    whole = array.dtype.kind in "biu" or output.dtype.kind in "biu"
    taps = xp.full(shape, 1.0 if whole else 1.0 / size)
    apply(xp, array, taps, before, modes, cval, output, size if whole else None)
    return output


def _means(rank, size, mode, origin, axes):
    axes = checked_axes(axes, rank)
    sizes, origins, modes = (one_each(value, len(axes)) for value in (size, origin, mode))
    return [(axis, (_mean_taps, int(one)), at, how) for axis, one, at, how in zip(axes, sizes, origins, modes) if one > 1]


def uniform_filter(input: Array, size: EachAxis[int] = 3, output: Output = None, mode: EachAxis[str] = "reflect",
                   cval: complex = 0.0, origin: EachAxis[int] = 0, *, axes: Axes = None) -> Array:
    """Mean over a window, as scipy.ndimage.uniform_filter."""
    result = axes_at_once(input, output, cval, _means, size, mode, origin, axes)
    if result is not None:
        return result
    xp = namespace_of(input)
    array = numeric(xp, input)
    output = output_of(xp, output, array, array.dtype.kind == "c")
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


def _gaussian_along(rank, sigma, axis, order, mode, truncate, radius):
    return [(checked_axis(axis, rank), (_gaussian_turned, float(sigma), order, _reach(sigma, truncate, radius)), 0, mode)]


def gaussian_filter1d(input: Array, sigma: float, axis: int = -1, order: int = 0, output: Output = None,
                      mode: str = "reflect", cval: complex = 0.0, truncate: float = 4.0, *,
                      radius: int | None = None) -> Array:
    """Gaussian filter along an axis, as scipy.ndimage.gaussian_filter1d."""
    result = axes_at_once(input, output, cval, _gaussian_along, sigma, axis, order, mode, truncate, radius)
    if result is not None:
        return result
    xp = namespace_of(input)
    taps = xp.asarray(_gaussian_turned(float(sigma), order, _reach(sigma, truncate, radius)))
    return correlate1d(input, taps, axis, output, mode, cval, 0)


def _gaussians(rank, sigma, order, mode, truncate, radius, axes):
    axes = checked_axes(axes, rank)
    sigmas, orders, modes, radii = (one_each(value, len(axes)) for value in (sigma, order, mode, radius))
    return [(axis, (_gaussian_turned, float(one), derivative, _reach(one, truncate, reach)), 0, how)
            for axis, one, derivative, how, reach in zip(axes, sigmas, orders, modes, radii) if one > 1e-15]


def gaussian_filter(input: Array, sigma: EachAxis[float], order: EachAxis[int] = 0, output: Output = None,
                    mode: EachAxis[str] = "reflect", cval: complex = 0.0, truncate: float = 4.0, *,
                    radius: EachAxis[int] | None = None, axes: Axes = None) -> Array:
    """Gaussian filter, as scipy.ndimage.gaussian_filter."""
    result = axes_at_once(input, output, cval, _gaussians, sigma, order, mode, truncate, radius, axes)
    if result is not None:
        return result
    xp = namespace_of(input)
    array = numeric(xp, input)
    output = output_of(xp, output, array, array.dtype.kind == "c")
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
        shape = [3 if at == along else 1 for at in range(rank)]
        taps = taps * numpy.reshape([-1, 0, 1] if along == axis else [1, 2, 1], shape)
    return taps


def _slopes(rank, axis, mode):
    axis, modes = checked_axis(axis, rank), one_each(mode, rank)
    return [(axis, (_numbers_of, -1, 0, 1), 0, modes[axis])] + [
        (other, (_numbers_of, 1, 2, 1), 0, modes[other]) for other in range(rank) if other != axis]


def _sobel_at_once(array, axis, output, mode, cval):
    place = place_of(array)
    if place is None or not 0 < array.ndim <= 3:
        return None
    # Beyond the edges of the first filter's result is cval again. Zeros, and what an edge shows, can be had in one.
    if type(mode) is str and (cval == 0 or mode not in ("constant", "grid-constant")):
        taps = taps_of(*place, _sobel_taps, array.ndim, checked_axis(axis, array.ndim))
        return _filter(array, taps, output, mode, cval, 0, False, True)
    return axes_at_once(array, output, cval, _slopes, axis, mode)


def sobel(input: Array, axis: int = -1, output: Output = None, mode: EachAxis[str] = "reflect",
          cval: complex = 0.0) -> Array:
    """Sobel filter along an axis, as scipy.ndimage.sobel."""
    result = _sobel_at_once(input, axis, output, mode, cval)
    if result is not None:
        return result
    xp = namespace_of(input)
    array = numeric(xp, input)
    axis = checked_axis(axis, array.ndim)
    output = output_of(xp, output, array, array.dtype.kind == "c")
    for along, (_, *taps), _, how in _slopes(array.ndim, axis, mode):
        correlate1d(array, taps, along, output, how, cval, 0)
        array = output
    return output


def _second_differences(rank, mode, axes):
    axes = checked_axes(axes, rank)
    return [(axis, (_numbers_of, 1, -2, 1), 0, how) for axis, how in zip(axes, one_each(mode, len(axes)))]


def laplace(input: Array, output: Output = None, mode: EachAxis[str] = "reflect", cval: complex = 0.0, *,
            axes: Axes = None) -> Array:
    """Sum of the second differences along the axes, as scipy.ndimage.laplace."""
    result = axes_at_once(input, output, cval, _second_differences, mode, axes, add=True)
    if result is not None:
        return result
    xp = namespace_of(input)
    array = numeric(xp, input)
    output = output_of(xp, output, array, array.dtype.kind == "c")
    axes = checked_axes(axes, array.ndim)
    modes = one_each(mode, len(axes))
    if not axes:
        output[...] = array
        return output
    source = array.copy() if xp.may_share_memory(array, output) else array
    correlate1d(source, [1, -2, 1], axes[0], output, modes[0], cval, 0)
    for axis, how in zip(axes[1:], modes[1:]):
        output += correlate1d(source, [1, -2, 1], axis, output.dtype, how, cval, 0)
    return output
