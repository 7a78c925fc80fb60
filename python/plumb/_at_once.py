"""Filters of arrays that need no conversion, as most are: the compiled module's, which says None to the others."""
import functools
import sys

import numpy

from ._plumb import _filter, _filter_axes


def remembered(function):
    """The function, with the answers to arguments that can be looked up kept."""
    known = functools.lru_cache(maxsize=256)(function)

    @functools.wraps(function)
    def call(*arguments):
        try:
            return known(*arguments)
        except TypeError:  # a list among them
            return function(*arguments)
    return call


def place_of(array):
    """The GPU that an array is on, -1 for none, and its type's letter; None of what no filter takes as it stands."""
    kind = type(array)
    if kind is not numpy.ndarray and kind.__module__ != "cupy":
        return None
    letter = array.dtype.char
    if letter not in "fd":
        return None
    return -1 if kind is numpy.ndarray else array.data.device_id, letter


@functools.lru_cache(maxsize=256)
def taps_of(device, letter, values, *parameters):
    """The numbers that values(*parameters) gives, of this type: on a GPU for good, as each copy to it takes its time."""
    taps = numpy.ascontiguousarray(values(*parameters), letter)
    if device < 0:
        return taps
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(device):
        taps = cupy.asarray(taps)
        cupy.cuda.get_current_stream().synchronize()  # other streams will read it
    return taps


def _from_bytes(dtype, shape, data):
    return numpy.frombuffer(data, dtype).reshape(shape)


def at_once(input, weights, output, mode, cval, origin, convolution, axis=None):
    """The filter, or None where it takes more than one call. With an axis the weights are one axis'."""
    finite = False
    if type(weights) is not type(input):
        if type(weights) not in (list, tuple, numpy.ndarray) or (place := place_of(input)) is None:
            return None
        weights = numpy.asarray(weights)
        if weights.dtype.kind not in "biuf" or weights.size > 4096 or not numpy.isfinite(weights).all():
            return None
        finite = True
        weights = taps_of(*place, _from_bytes, weights.dtype, weights.shape, weights.tobytes())
    if axis is None:
        return _filter(input, weights, output, mode, cval, origin, convolution, finite)
    return _filter_axes(input, output, ((axis, weights, origin, mode),), cval, convolution, finite, False)


@remembered
def _steps(device, letter, rank, filters, parameters):
    return tuple((axis, taps_of(device, letter, *taps), origin, mode)
                 for axis, taps, origin, mode in filters(rank, *parameters))


def axes_at_once(array, output, cval, filters, *parameters, add=False):
    """Filters along axes, one behind the other or their sum, as at_once().

    filters(rank, *parameters) gives of each the axis, what taps_of() makes of its taps, the origin and the mode.
    """
    place = place_of(array)
    if place is None:
        return None
    steps = _steps(*place, array.ndim, filters, parameters)
    return _filter_axes(array, output, steps, cval, False, True, add) if 0 < len(steps) <= 3 else None
