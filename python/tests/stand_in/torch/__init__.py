"""A stand-in for PyTorch, of NumPy's arrays: what plumb and plumb.torch ask of PyTorch, and no more.

It shows what plumb.torch does where PyTorch is not installed, for it is some gigabytes; that PyTorch itself is content,
test_torch.py shows alone. Nothing here computes a convolution.
"""
import contextlib
import sys
import types

import numpy

lent = 0  # capsules that tensors were lent in


class dtype:  # noqa: N801, PyTorch's name
    def __init__(self, name, stored):
        self.name, self.stored = name, numpy.dtype(stored)

    def __repr__(self):
        return f"torch.{self.name}"


float32, float64, float16, int64, uint8 = (dtype(name, name) for name in (
    "float32", "float64", "float16", "int64", "uint8"))
bfloat16 = dtype("bfloat16", "uint16")  # the upper halves of float32
strided, sparse_coo = "strided", "sparse_coo"
_DTYPES = {one.stored: one for one in (float32, float64, float16, int64, uint8, bfloat16)}


class Tensor:
    layout, is_cpu, is_cuda = strided, True, False
    device = types.SimpleNamespace(type="cpu")

    def __init__(self, array, requires_grad=False):
        self.array, self.requires_grad, self.negated = array, requires_grad, False

    @property
    def dtype(self):
        return _DTYPES[self.array.dtype]

    @property
    def shape(self):
        return self.array.shape

    def dim(self):
        return self.array.ndim

    def stride(self):
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def data_ptr(self):
        return self.array.ctypes.data

    def get_device(self):
        return -1

    def is_neg(self):
        return self.negated

    def new_empty(self, shape, dtype=None):
        return Tensor(numpy.empty(tuple(shape), (dtype or self.dtype).stored))

    def detach(self):
        return type(self)(self.array) if type(self) is not Parameter else Tensor(self.array)

    def unsqueeze(self, axis):
        return Tensor(numpy.expand_dims(self.array, axis))

    def squeeze(self, axis):
        return Tensor(self.array.squeeze(axis))

    def reshape(self, *shape):
        return Tensor(self.array.reshape(*shape))

    def sum(self, axes):
        return Tensor(self.array.sum(axes))

    def to(self, dtype):
        return Tensor(self.array.astype(dtype.stored))

    def __add__(self, other):
        return Tensor(self.array + other.array)

    def __dlpack__(self, **settings):
        global lent
        if self.requires_grad or self.negated:
            raise BufferError("this tensor cannot be lent")
        lent += 1
        return self.array.__dlpack__(**settings)

    def __dlpack_device__(self):
        return (1, 0)


class Parameter(Tensor):
    pass


class _Operator:
    """What custom_op() makes: called as the function that it decorates, with what was registered for it."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *arguments):
        return self.function(*arguments)

    def register_fake(self, function):
        self.fake = function
        return function

    def register_autograd(self, backward, *, setup_context):
        self.backward, self.setup_context = backward, setup_context


class Function:
    """Of torch.autograd: what forward() keeps can be asked of the result, which backward() is called with."""

    @classmethod
    def apply(cls, *arguments):
        context = types.SimpleNamespace(needs_input_grad=[getattr(one, "requires_grad", False) for one in arguments])
        context.save_for_backward = lambda *kept: setattr(context, "saved_tensors", kept)
        result = cls.forward(context, *arguments)
        result.backward = lambda gradient: cls.backward(context, gradient)
        return result


def _module(name, **names):
    module = sys.modules[name] = types.ModuleType(name)
    vars(module).update(names)
    return module


# Whom plumb.torch asks whether operators are watched: nobody does here.
autograd = _module("torch.autograd", Function=Function, forward_ad=types.SimpleNamespace(_current_level=-1))
utils = _module("torch.utils")
utils._python_dispatch = _module("torch.utils._python_dispatch", is_in_torch_dispatch_mode=lambda: False)
compiler = types.SimpleNamespace(is_compiling=lambda: False)
_C = types.SimpleNamespace(_len_torch_function_stack=lambda: 0, _get_tracing_state=lambda: None,
                           _functorch=types.SimpleNamespace(peek_interpreter_stack=lambda: None))
grad_enabled = True


def is_grad_enabled():
    return grad_enabled


library = types.SimpleNamespace(custom_op=lambda name, *, mutates_args, schema: _Operator)


class Module:
    def __init__(self):
        self.hooks = []

    def __call__(self, *arguments):
        for hook in self.hooks:
            hook(self, arguments)
        return self.forward(*arguments)

    def register_forward_pre_hook(self, hook):
        self.hooks.append(hook)
        return types.SimpleNamespace(remove=lambda: self.hooks.remove(hook))

    def named_modules(self):
        yield "", self
        yield from ((name, one) for name, one in vars(self).items() if isinstance(one, Module))

    def parameters(self):
        return [one for one in vars(self).values() if isinstance(one, Parameter)]


class _Conv(Module):
    """The arguments of PyTorch's modules. Computing is slow, and its result a tensor of the right shape."""

    def __init__(self, channels, filters, size, *, stride=1, padding=0, dilation=1, groups=1, padding_mode="zeros"):
        super().__init__()
        self.kernel_size, self.stride, self.dilation = ((one,) * self.axes for one in (size, stride, dilation))
        self.padding = padding if isinstance(padding, str) else (padding,) * self.axes
        self.groups, self.padding_mode = groups, padding_mode
        random = numpy.random.default_rng(1)
        shape = (filters, channels // groups) + self.kernel_size
        self.weight = Parameter(random.integers(-3, 4, shape).astype("float32"))
        self.bias = Parameter(random.integers(-3, 4, filters).astype("float32"))

    slowness = 200

    def forward(self, x):
        for _ in range(self.slowness):
            numpy.sort(x.array.ravel())
        return Tensor(numpy.zeros((x.shape[0], self.weight.shape[0], *x.shape[2:]), "float32"))


class Conv1d(_Conv):
    axes = 1


class Conv2d(_Conv):
    axes = 2


class Conv3d(_Conv):
    axes = 3


nn = sys.modules["torch.nn"] = types.ModuleType("torch.nn")
nn.Module, nn.Parameter, nn.Conv1d, nn.Conv2d, nn.Conv3d = Module, Parameter, Conv1d, Conv2d, Conv3d
autocast_dtype = None


def is_autocast_enabled(device):
    return autocast_dtype is not None


def get_autocast_dtype(device):
    return autocast_dtype


def no_grad():
    return contextlib.nullcontext()


def set_grad_enabled(enabled):
    return contextlib.nullcontext()
