"""The filter that all functions of plumb.ndimage are: of an array of any type and rank, by taps for each axis.

xp is numpy, or cupy for its arrays; modes are SciPy's names, one for each axis.
"""
import itertools
import math

import numpy

from ._plumb import _filter as filter_at_once, conv

# SciPy's names of what lies beyond the edges, as Plumb's boundaries and as numpy.pad's modes.
MODES = {
    "reflect": ("symmetric", "symmetric"), "grid-mirror": ("symmetric", "symmetric"),
    "constant": ("zeros", "constant"), "grid-constant": ("zeros", "constant"),
    "nearest": ("clamp", "edge"), "mirror": ("reflect", "reflect"),
    "wrap": ("periodic", "wrap"), "grid-wrap": ("periodic", "wrap"),
}


def type_of_work(array, output):
    """float32 where both are no more than that, otherwise float64, as SciPy always has it."""
    return "float32" if array.dtype.char in "ef" and output.dtype.char in "ef" else "float64"


def _filter(xp, x, taps, before, modes, cval, y):
    """y of x and taps, of one type and rank: y[i] = sum of taps[j] x[i + j - before]; y shares nothing with x."""
    if x.size == 0:
        return
    origins = tuple(at - size // 2 for at, size in zip(before, taps.shape))
    if filter_at_once(x, taps, y, tuple(modes), cval, origins, False, False) is not None:
        return
    modes = ["nearest" if mode == "mirror" and extent == 1 else mode for mode, extent in zip(modes, x.shape)]
    long = [axis for axis, size in enumerate(taps.shape) if size > 1]
    outside = any(MODES[modes[axis]][0] == "zeros" for axis in long)
    padding = [(before[axis], size - 1 - before[axis]) for axis, size in enumerate(taps.shape)]
    boundary = [MODES[mode][0] for mode in modes]
    # Plumb leaves taps out where it reads zeros beyond the edge; SciPy multiplies. A filter with an Inf tells; what
    # lies on a GPU is not waited for to be asked.
    if len(long) > 3 or outside and (xp is not numpy or not (math.isfinite(cval) and numpy.isfinite(taps).all())):
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
        _add_beyond(taps, before, [axis for axis in long if MODES[modes[axis]][0] == "zeros"], cval, y)


def _add_beyond(taps, before, axes, cval, y):
    """Of NumPy. Adds to y what cval beyond the edges of these axes gives where zeros were read: nothing is padded for it."""
    sums = taps.astype("float64")
    for axis, size in enumerate(taps.shape):
        if axis in axes:  # of the first taps, none to all
            sums = numpy.concatenate([numpy.zeros_like(sums.take([0], axis)), sums], axis).cumsum(axis)
        else:
            sums = sums.sum(axis, keepdims=True)
    region = [slice(0, extent) for extent in y.shape]
    for axis in axes:  # its two edges, between those of the axes before
        extent, behind = y.shape[axis], taps.shape[axis] - 1 - before[axis]
        front = min(before[axis], extent)
        back = max(front, extent - behind)
        for edge in (slice(0, front), slice(back, extent)):
            region[axis] = edge
            if edge.start < edge.stop:
                y[tuple(region)] += cval * _taps_beyond(sums, before, axes, region, y.shape)
        region[axis] = slice(front, back)
        if front == back:
            return


def _taps_beyond(sums, before, axes, region, extents):
    """The sum of the taps that lie beyond these axes' edges, at each place of a region; 0 within, to the bit."""
    within = whole = sums
    for axis in axes:
        taps = sums.shape[axis] - 1
        first = before[axis] - numpy.arange(region[axis].start, region[axis].stop)  # the tap on the image's first element
        within = (within.take(numpy.minimum(first + extents[axis], taps), axis)
                  - within.take(numpy.maximum(first, 0), axis))
        whole = whole.take([taps], axis) - whole.take([0], axis)
    return whole - within


def _padded(xp, x, padding, modes, cval):
    """A copy of x with what lies beyond its edges."""
    for axis, mode in enumerate(modes):
        if padding[axis] != (0, 0):
            widths = [(0, 0)] * x.ndim
            widths[axis] = padding[axis]
            how = MODES[mode][1]
            x = xp.pad(x, widths, mode=how, **({"constant_values": cval} if how == "constant" else {}))
    return x


def _convolve_axes(x, taps, long, padding, boundary, y, accumulate):
    """One convolution along at most three axes: those, and the last of the others, are the image's."""
    order = range(x.ndim)
    if 0 not in x.strides:  # the innermost last, as the kernels read fastest; a result may be written with any strides
        order = sorted(order, key=[-abs(stride) for stride in x.strides].__getitem__)
    others = [axis for axis in order if axis not in long]
    chosen = {*long, *others[::-1][:3 - len(long)]}
    image = [axis for axis in order if axis in chosen]
    batch = [axis for axis in order if axis not in chosen]
    x, y, taps = (array.transpose(batch + image) for array in (x, y, taps))
    settings = dict(padding=[padding[axis] for axis in image], boundary=[boundary[axis] for axis in image],
                    accumulate=accumulate)
    taps = taps.reshape((1, 1) + taps.shape[len(batch):])
    if not batch:
        conv(x[None, None], taps, out=y[None, None], **settings)
        return
    for index in itertools.product(*(range(extent) for extent in y.shape[:len(batch) - 1])):
        conv(x[index][:, None], taps, out=y[index][:, None], **settings)


def apply(xp, array, taps, before, modes, cval, output, divisor=None):
    """The filter of an array of any type of numbers into an output of any."""
    if array.dtype.kind == "c" or output.dtype.kind == "c" and numpy.iscomplexobj(cval):
        cval = complex(cval)
        apply(xp, array.real, taps, before, modes, cval.real, output.real, divisor)
        apply(xp, array.imag, taps, before, modes, cval.imag, output.imag, divisor)
        return
    if output.dtype.kind == "c":
        output.imag[...] = 0
        output = output.real
    dtype = type_of_work(array, output)
    x = _readable(xp, array, dtype)
    taps = taps.astype(dtype, copy=False)
    direct = (output.dtype == dtype and _readable(xp, output, dtype) is output
              and not xp.may_share_memory(x, output) and not xp.may_share_memory(taps, output))
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
