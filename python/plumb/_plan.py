"""A convolution that has been checked once and whose algorithm has been chosen."""
from ._plumb import _Plan, _make_plan
from ._table import Table


class Plan:
    """A convolution for arrays of these shapes, strides and type, to be executed any number of times.

    x and w are arrays, whose strides and device count, or the shapes of dense ones, for which dtype ("float32"
    unless given) and device ("cpu") say the rest. bias: whether execute() gets one, or an example of it. The other
    arguments are those of plumb.conv.

    execute(x, w, bias=None, out=None) runs it on arrays of the shapes and strides that it was made for; w may be what
    pack(w) returned, filters in the algorithm's own layout. Returns out, or a new array of the kind of x.

    Immutable; several threads may execute it at once.
    """

    __slots__ = ("_plan", "execute", "pack")

    def __init__(self, x, w, bias=None, *, dtype=None, device=None, stride=1, padding=0, dilation=1, groups=1,
                 boundary="zeros", math="fp32", activation=None, accumulate=False, algorithm=None,
                 deterministic=False, reproducible=False, providers=None):
        plan: _Plan = _make_plan(x, w, bias, dtype=dtype, device=device, stride=stride, padding=padding,
                                 dilation=dilation, groups=groups, boundary=boundary, math=math,
                                 activation=activation, accumulate=accumulate, algorithm=algorithm,
                                 deterministic=deterministic, reproducible=reproducible, providers=providers)
        self._plan = plan
        self.execute = plan.execute  # bound once: a call is then the module's own
        self.pack = plan.pack

    @property
    def algorithm(self):
        """The name of the algorithm that was chosen."""
        return self._plan.algorithm

    @property
    def provider(self):
        """The name of the library whose algorithm it is, "onednn"; empty where it is Plumb's own."""
        return self._plan.provider

    @property
    def device(self):
        """The device's name."""
        return self._plan.device

    @property
    def dtype(self):
        """The name of the type of all its arrays."""
        return self._plan.dtype

    @property
    def problem(self):
        """The problem as text, in benchdnn's notation."""
        return self._plan.problem

    @property
    def shape(self):
        """The shape of the result."""
        return self._plan.shape

    @property
    def workspace_bytes(self):
        """Scratch memory that execute() takes."""
        return self._plan.workspace_bytes

    @property
    def packs_filters(self):
        """Whether execute() with w packs the filters on every call, which pack() does once."""
        return self._plan.packs_filters

    def explain(self):
        """Return every algorithm of the device with its answer, as a table; the one chosen is marked."""
        return Table(self._plan._explain(), marked="chosen")

    def __repr__(self):
        return f"<plumb.Plan {self.problem} {self.dtype} on {self.device}: {self.algorithm}>"
