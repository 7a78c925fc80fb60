"""Plumb's C interface (plumb_nd.h) by ctypes, as far as scripts/check_torch takes it: plans of convolutions and gradients
over memory of the caller's, and what every algorithm says of a problem. Nothing needs to be built or installed for it."""
import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p

DTYPES = ["f32", "f64", "f16", "bf16"]
MATHS = ["fp64", "fp32", "tf32", "bf16", "fp16"]
BOUNDARIES = ["zeros", "periodic", "reflect", "symmetric", "clamp"]
DIRECTIONS = ["forward", "backward_data", "backward_weights"]


class Geometry(Structure):
    _fields_ = [("struct_size", c_size_t)] + [(name, c_int64) for name in (
        "stride_d", "stride_h", "stride_w", "dilation_d", "dilation_h", "dilation_w", "padding_front", "padding_top",
        "padding_left", "padding_back", "padding_bottom", "padding_right", "groups")] + [
        (name, c_int32) for name in ("boundary_d", "boundary_h", "boundary_w", "pool")]


class Problem(Structure):
    _fields_ = [("struct_size", c_size_t)] + [(letter, c_int64) for letter in "ncdhwktrs"] + [
        ("geometry", POINTER(Geometry)), ("x_strides", POINTER(c_int64)), ("w_strides", POINTER(c_int64)),
        ("y_strides", POINTER(c_int64)), ("dtype", c_int32), ("direction", c_int32)]


class Options(Structure):
    _fields_ = [("struct_size", c_size_t), ("math", c_int32), ("activation", c_int32), ("bias", c_int32),
                ("deterministic", c_int32), ("workspace_limit_bytes", c_size_t), ("algorithm", c_char_p),
                ("accumulate", c_int32), ("relu_mask", c_int32), ("reproducible", c_int32)]


class Candidate(Structure):
    _fields_ = [(name, c_char_p) for name in ("algorithm", "reason", "sentence", "remedy")] + [
        ("estimate_seconds", c_double), ("measured_seconds", c_double), ("workspace_bytes", c_size_t)] + [
        (name, c_int32) for name in ("error_class", "deterministic", "pool_fused", "chosen")]


class Info(Structure):
    _fields_ = [(name, c_char_p) for name in ("id", "name", "instruction_set", "why")] + [
        (name, c_int32) for name in ("units", "compute_major", "compute_minor", "driver_version")] + [
        ("memory_bytes", c_size_t)]


class PlumbError(Exception):
    pass


class Plumb:
    """One device of the library at a path, and a queue on it: of the stream that is given, or its own."""

    def __init__(self, path, device, stream=None):
        self.library = ctypes.CDLL(str(path))
        self.library.plumb_version.restype = self.library.plumb_last_message.restype = c_char_p
        for name in ("plan_destroy", "explanation_destroy", "queue_destroy", "device_close"):
            getattr(self.library, f"plumb_{name}").restype = None
        self.device, self.queue = c_void_p(), c_void_p()
        self.call("device_open", device.encode(), None, byref(self.device))
        self.call("queue_wrap", self.device, c_void_p(stream), byref(self.queue))

    def call(self, name, *arguments):
        if getattr(self.library, f"plumb_{name}")(*arguments) != 0:
            raise PlumbError(self.library.plumb_last_message().decode())

    def version(self):
        return self.library.plumb_version().decode()

    def about(self):
        info = Info()
        self.call("device_get_info", self.device, byref(info))
        return {"device": info.name.decode(), "instruction_set": info.instruction_set.decode()}

    def geometry(self):
        geometry = Geometry()
        self.call("conv_geometry_nd_init", byref(geometry))
        return geometry

    def problem(self):
        problem = Problem()
        self.call("conv_problem_nd_init", byref(problem))
        return problem

    def options(self):
        options = Options()
        self.call("conv_options_nd_init", byref(options))
        return options

    def candidates(self, problem, options):
        """Of the algorithms that can run: name, class of the promise, and whether a plan takes it."""
        explanation, size, found = c_void_p(), c_size_t(), []
        self.call("explain_nd", self.device, byref(problem), byref(options), byref(explanation))
        self.call("explanation_size", explanation, byref(size))
        for index in range(size.value):
            candidate = Candidate()
            self.call("explanation_entry", explanation, c_size_t(index), byref(candidate))
            if candidate.reason == b"none":
                found.append((candidate.algorithm.decode(), MATHS[candidate.error_class], candidate.chosen != 0))
        self.library.plumb_explanation_destroy(explanation)
        return found

    def run(self, problem, options, first, second, bias, output, db):
        """Makes a plan and runs it once: x, w and y, or the parts that a gradient's tensors take. Waits for it."""
        plan = c_void_p()
        self.call("plan_create_nd", self.device, byref(problem), byref(options), byref(plan))
        try:
            if problem.direction == 0:
                self.call("plan_execute", plan, self.queue, c_void_p(first), c_void_p(second), c_void_p(bias),
                          c_void_p(output), None)
            else:
                self.call("plan_execute_gradient", plan, self.queue, c_void_p(first), c_void_p(second), None, None,
                          c_void_p(output), c_void_p(db), None)
            self.call("queue_synchronize", self.queue)
        finally:
            self.library.plumb_plan_destroy(plan)
