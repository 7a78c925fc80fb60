"""What the library says of this machine, and what proves and times its algorithms."""
from ._plumb import _devices, _tune, _validate
from ._table import Table


def devices():
    """Return the devices of this machine as a table, and for each backend without one the reason."""
    return Table(_devices())


def _of(problem, device, dtype):
    """A plan brings its own device and type."""
    return (device or getattr(problem, "device", "cpu"), dtype or getattr(problem, "dtype", "float32"))


def validate(problem, *, device=None, dtype=None, algorithm=None, seed=1):
    """Hold every algorithm of a device against the oracle on one problem, and return the verdicts as a table.

    problem: a Plan, or text in benchdnn's notation ("mb2ic8ih14oc8kh3ph1"), dense.
    """
    device, dtype = _of(problem, device, dtype)
    return Table(_validate(problem, device, dtype, algorithm, seed))


def tune(problem, *, device=None, dtype=None, seconds=0.2, write=True):
    """Time every algorithm of a device on one problem, and return the times as a table.

    problem: a Plan, or text in benchdnn's notation. seconds: for each algorithm. With write they are kept in the
    cache (PLUMB_TUNE_CACHE, or under ~/.cache), from which later plans choose.
    """
    device, dtype = _of(problem, device, dtype)
    return Table(_tune(problem, device, dtype, float(seconds), write))
