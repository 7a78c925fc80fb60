"""A convolution that has been checked once and whose algorithm has been chosen."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from ._plumb import _Plan, _make_plan
from ._table import Table

if TYPE_CHECKING:  # they are the stub's
    from ._plumb import Array, Math, Numbers, Padding


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

    def __init__(self, x: Array, w: Array, bias: Array | bool | None = None, *, dtype: Any = None,
                 device: str | None = None, stride: Numbers = 1, padding: Padding = 0, dilation: Numbers = 1,
                 groups: int = 1, boundary: str | Sequence[str] = "zeros", math: Math = "fp32",
                 activation: Literal["relu"] | None = None, accumulate: bool = False, algorithm: str | None = None,
                 deterministic: bool = False, reproducible: bool = False, providers: str | None = None) -> None:
        plan: _Plan = _make_plan(x, w, bias, dtype=dtype, device=device, stride=stride, padding=padding,
                                 dilation=dilation, groups=groups, boundary=boundary, math=math,
                                 activation=activation, accumulate=accumulate, algorithm=algorithm,
                                 deterministic=deterministic, reproducible=reproducible, providers=providers)
        self._plan = plan
        self.execute = plan.execute  # bound once: a call is then the module's own
        self.pack = plan.pack

    @property
    def algorithm(self) -> str:
        """The name of the algorithm that was chosen."""
        return self._plan.algorithm

    @property
    def provider(self) -> str:
        """The name of the library whose algorithm it is, "onednn"; empty where it is Plumb's own."""
        return self._plan.provider

    @property
    def device(self) -> str:
        """The device's name."""
        return self._plan.device

    @property
    def dtype(self) -> str:
        """The name of the type of all its arrays."""
        return self._plan.dtype

    @property
    def problem(self) -> str:
        """The problem as text, in benchdnn's notation."""
        return self._plan.problem

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return self._plan.shape

    @property
    def workspace_bytes(self) -> int:
        """Scratch memory that execute() takes."""
        return self._plan.workspace_bytes

    @property
    def packs_filters(self) -> bool:
        """Whether execute() with w packs the filters on every call, which pack() does once."""
        return self._plan.packs_filters

    def explain(self) -> Table:
        """Return every algorithm of the device with its answer, as a table; the one chosen is marked."""
        return Table(self._plan._explain(), marked="chosen")

    def __repr__(self) -> str:
        return f"<plumb.Plan {self.problem} {self.dtype} on {self.device}: {self.algorithm}>"
