"""What a caller's type checker sees of the package."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

import plumb

GOOD = """
    import numpy as np
    import plumb
    from plumb import ndimage

    x, w = np.ones((1, 1, 8, 8), "float32"), np.ones((1, 1, 3, 3), "float32")
    y = plumb.conv(x, w, padding=1, boundary=("periodic", "zeros"), activation="relu")
    plan = plumb.Plan(x, w, padding=((1, 1), (1, 1)), math="tf32")
    shape: tuple[int, ...] = plan.shape
    packed: plumb.PackedFilters = plan.pack(w)
    plan.execute(x, packed, None, y)
    fastest: str = min(plumb.tune(plan, write=False), key=lambda row: row["seconds"] or 1)["algorithm"]
    tables: list[plumb.Table] = [plan.explain(), plumb.devices(), plumb.providers(), plumb.validate("ic1ih8oc1kh3")]
    page: str = tables[0]._repr_html_()
    blurred = ndimage.gaussian_filter(x[0, 0], (2.0, 1), mode=["wrap", "nearest"])
    edges = ndimage.sobel(ndimage.convolve(x[0, 0], [[1, 2]], mode="wrap", origin=(0, -1), axes=(0, 1)), cval=1)
    dw, db = plumb.conv_backward_weights(x, y, w.shape, bias=True)
    try:
        pooled = plumb.max_pool(plumb.conv_transpose(y, w), 2)
    except plumb.Error as error:
        sentence: tuple[str, str] = (error.code, error.reason)
"""
# Each is one mistake, and the word that the checker's answer has.
BAD = [("plumb.conv(x, x, strides=2)", "strides"), ("plumb.conv(x, x, math='fast')", "fast"),
       ("plumb.Plan(x, x, groups='2')", "groups"), ("plumb.Plan(x, x).algorithms", "algorithms"),
       ("plumb.ndimage.convolve(x, x, mode=3)", "mode"), ("plumb.Error('a').kind", "kind"),
       ("plumb.devices().rows", "rows")]


def checked(tmp_path, text):
    """What mypy says, by its strictest rules, in a folder where nothing but the installed package is seen."""
    (tmp_path / "caller.py").write_text(textwrap.dedent(text))
    path = os.pathsep.join([str(pathlib.Path(plumb.__file__).parents[1]), os.environ.get("MYPYPATH", "")])
    seen = dict(os.environ, MYPYPATH=path) if "site-packages" not in path else os.environ
    run = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir",
                          str(tmp_path / "cache"), "caller.py"], cwd=tmp_path, env=seen, capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


pytestmark = pytest.mark.skipif(not importlib.util.find_spec("mypy"), reason="mypy is not installed")


def test_a_program_has_types(tmp_path):
    code, answer = checked(tmp_path, GOOD)
    assert code == 0, answer


def test_mistakes_are_seen(tmp_path):
    lines = ["import plumb.ndimage", "x = object()"] + [f"print({text})" for text, _ in BAD]
    code, answer = checked(tmp_path, "\n".join(lines))
    assert code == 1
    for line, (text, word) in enumerate(BAD, start=3):
        assert [one for one in answer.splitlines() if one.startswith(f"caller.py:{line}: error:") and word in one], (
            text, answer)
