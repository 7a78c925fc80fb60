"""Every example of docs/python.md runs, in the order in which it stands there."""
import importlib.util
import os
import pathlib
import re

import pytest

PAGE = pathlib.Path(os.environ.get("PLUMB_PYTHON_PAGE") or
                    pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md")


def test_examples(tmp_path, monkeypatch):
    monkeypatch.setenv("PLUMB_TUNE_CACHE", str(tmp_path / "cache"))
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.S | re.M)
    assert len(blocks) >= 8
    names, left_out = {}, []
    for block in blocks:
        needed = [name for name in re.findall(r"^import (\w+)$", block, re.M) if not importlib.util.find_spec(name)]
        if "jax" in block:
            from plumb import _plumb
            needed += [] if _plumb._jax_handlers() else ["jaxlib's headers"]
        if needed:
            left_out += needed
            continue
        exec(compile(block, str(PAGE), "exec"), names)
    if left_out:
        pytest.skip("all but the examples with " + " and ".join(left_out) + " ran")
