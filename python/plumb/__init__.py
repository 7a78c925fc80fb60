"""Convolution on any machine: plumb.conv and its gradients for the arrays of NumPy, CuPy, PyTorch and JAX.

plumb.ndimage has SciPy's filters, plumb.torch PyTorch's layers, plumb.jax a function of JAX.
"""
from ._error import Error
from ._plumb import (PackedFilters, __version__, avg_pool, conv, conv_backward_data, conv_backward_weights,
                     conv_transpose, linear, max_pool, relu, resize_bilinear, softmax)
from ._plan import Plan
from ._library import devices, providers, tune, validate
from ._table import Table

__all__ = [
    "Error", "PackedFilters", "Plan", "Table", "__version__", "avg_pool", "conv", "conv_backward_data",
    "conv_backward_weights", "conv_transpose", "devices", "linear", "max_pool", "providers", "relu",
    "resize_bilinear", "softmax", "tune", "validate",
]
