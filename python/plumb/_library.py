"""What the library says of this machine, and what proves and times its algorithms."""
from typing import Any

from ._error import Error
from ._plan import Plan
from ._plumb import _devices, _providers, _tune, _validate
from ._table import Table


def devices() -> Table:
    """Return the devices of this machine as a table, and for each backend without one the reason."""
    return Table(_devices())


def providers() -> Table:
    """Return the other libraries that algorithms may come from (cuDNN, oneDNN) as a table: version, file, or the reason.

    They are opened to be asked. Which of them may be chosen say the argument `providers` of the calls, or PLUMB_PROVIDERS.
    """
    return Table(_providers())


def _of(problem, device, dtype):
    """A plan brings its own device and type."""
    if not isinstance(problem, (Plan, str)):
        raise Error(f"problem is {problem!r}; expected a Plan, or text in benchdnn's notation")
    return (device or getattr(problem, "device", "cpu"), dtype or getattr(problem, "dtype", "float32"))


def validate(problem: Plan | str, *, device: str | None = None, dtype: Any = None, algorithm: str | None = None,
             seed: int = 1, providers: str | None = None) -> Table:
    """Hold every algorithm of a device against the oracle on one problem, and return the verdicts as a table.

    problem: a Plan, or text in benchdnn's notation ("mb2ic8ih14oc8kh3ph1"), dense. providers: other libraries whose
    algorithms are held against it too, "cudnn,onednn".
    """
    device, dtype = _of(problem, device, dtype)
    return Table(_validate(problem, device, dtype, algorithm, seed, providers))


def tune(problem: Plan | str, *, device: str | None = None, dtype: Any = None, seconds: float = 0.2,
         write: bool = True, providers: str | None = None) -> Table:
    """Time every algorithm of a device on one problem, and return the times as a table.

    problem: a Plan, or text in benchdnn's notation. seconds: for each algorithm. With write they are kept in the
    cache (PLUMB_TUNE_CACHE, or under ~/.cache), from which later plans choose. providers: other libraries whose
    algorithms are timed too, "cudnn,onednn"; a plan that names them takes one where it is the fastest.
    """
    device, dtype = _of(problem, device, dtype)
    seconds = float(seconds)
    if not 0 < seconds < float("inf"):
        raise Error(f"seconds is {seconds}; expected more than 0")
    return Table(_tune(problem, device, dtype, seconds, write, providers))
