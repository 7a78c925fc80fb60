"""What callers of plumb.ndimage say, checked as SciPy checks it."""
import numbers
import operator
import sys
import warnings

import numpy

from ._filters import MODES


def namespace_of(array):
    """numpy, or cupy for its arrays."""
    return sys.modules["cupy"] if type(array).__module__.split(".")[0] == "cupy" else numpy


def checked_mode(name):
    if not isinstance(name, str) or name not in MODES:
        raise RuntimeError(f"boundary mode {name!r} not supported; expected {', '.join(MODES)}")
    return name


def one_each(value, count):
    """A list of `count` values, of one or of as many."""
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return [value] * count
    value = list(value)
    if len(value) != count:
        raise RuntimeError(f"sequence argument must have length equal to input rank; it has {len(value)}, "
                           f"expected {count}")
    return value


def checked_axis(axis, rank):
    axis = operator.index(axis)
    if not -rank <= axis < rank:
        raise numpy.exceptions.AxisError(axis, rank) if hasattr(numpy, "exceptions") else ValueError(
            f"axis {axis} is out of bounds for an array of {rank} axes")
    return axis % rank


def checked_axes(axes, rank):
    if axes is None:
        return tuple(range(rank))
    if isinstance(axes, numbers.Integral):
        axes = (axes,)
    if not hasattr(axes, "__iter__"):
        raise ValueError(f"axes is {axes!r}; expected an integer, a tuple of integers, or None")
    found = tuple(one_of_axes(axis, rank) for axis in axes)
    if len(set(found)) != len(found):
        raise ValueError("axes must be unique")
    return found


def one_of_axes(axis, rank):
    index = operator.index(axis)
    if not -rank <= index < rank:
        raise ValueError(f"specified axis: {axis} is out of range")
    return index % rank


def checked_origin(origin, size):
    origin = operator.index(origin)
    if not -(size // 2) <= origin <= (size - 1) // 2:
        raise ValueError(f"origin is {origin}; expected it to satisfy -(size // 2) <= origin <= (size - 1) // 2, "
                         f"with a size of {size}")
    return origin


def output_of(xp, output, array, complex_output=False, shape=None):
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


def weights_of(xp, weights, dtype):
    weights = xp.asarray(weights)
    if weights.dtype.kind not in "biuf":
        raise TypeError(f"weights are of type {weights.dtype}; expected numbers")
    # float32 is kept: apply() makes of it what is worked in, and on a GPU each copy takes a kernel.
    return weights if weights.dtype == "float32" else weights.astype(dtype, copy=False)


def numeric(xp, input):
    array = xp.asarray(input)
    if array.dtype.kind not in "biufc":
        raise RuntimeError(f"data type not supported: input is of type {array.dtype}")
    return array


def check_cval(array, cval):
    if array.dtype.kind != "c" and numpy.iscomplexobj(cval):
        raise ValueError("Cannot provide a complex-valued cval when the input is real.")
