"""The convolution as its definition has it, in double, for the tests to compare with."""
import itertools

import numpy as np

PADS = {"zeros": "constant", "periodic": "wrap", "reflect": "reflect", "symmetric": "symmetric", "clamp": "edge"}


def conv(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1, boundary="zeros"):
    """y of x [N, C, ...] and w [K, C/G, ...], of any number of axes; the values are one number, or one an axis."""
    axes = x.ndim - 2
    stride, padding, dilation = (v if isinstance(v, tuple) else (v,) * axes for v in (stride, padding, dilation))
    x, w = x.astype("float64"), w.astype("float64")
    x = np.pad(x, [(0, 0), (0, 0)] + [(p, p) for p in padding], mode=PADS[boundary])
    n, channels = x.shape[:2]
    k = w.shape[0]
    reach = [d * (f - 1) + 1 for d, f in zip(dilation, w.shape[2:])]
    out = [(extent - r) // s + 1 for extent, r, s in zip(x.shape[2:], reach, stride)]
    y = np.zeros([n, k] + out)
    for tap in itertools.product(*(range(f) for f in w.shape[2:])):
        at = tuple(slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, dilation, out, stride))
        seen = x[(slice(None), slice(None)) + at]
        for group in range(groups):
            c = slice(group * channels // groups, (group + 1) * channels // groups)
            to = slice(group * k // groups, (group + 1) * k // groups)
            y[:, to] += np.einsum("nc...,kc->nk...", seen[:, c], w[(to, slice(None)) + tap])
    if bias is not None:
        y += bias.astype("float64").reshape((1, -1) + (1,) * axes)
    return y


def arrays(seed, *shapes, dtype="float32"):
    """Small whole numbers, whose sums are exact in every type."""
    random = np.random.default_rng(seed)
    made = [random.integers(-3, 4, shape).astype(dtype) for shape in shapes]
    return made[0] if len(made) == 1 else made
