"""The stub of the compiled module has its functions, with their parameters and defaults."""
import ast
import pathlib
import re

import plumb
from plumb import _plumb

STUB = pathlib.Path(plumb.__file__).parent / "_plumb.pyi"


def stubbed():
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            yield node


def parameters_of(node):
    plain, named = node.args.args, node.args.kwonlyargs
    defaults = [None] * (len(plain) - len(node.args.defaults)) + node.args.defaults + node.args.kw_defaults
    return {one.arg: default and ast.literal_eval(default) for one, default in zip(plain + named, defaults)}, [
        one.arg for one in named]


def test_the_stub_is_the_modules():
    functions = {node.name: node for node in stubbed()}
    built = {name for name in dir(_plumb) if callable(getattr(_plumb, name)) and not isinstance(
        getattr(_plumb, name), type) and not name.startswith("__")}
    assert built == set(functions)
    for name in (name for name in built if not name.startswith("_")):
        signature = getattr(_plumb, name).__nb_signature__[0]
        text = re.sub(r"\\\d+", lambda match: repr(signature[2][int(match.group()[1:])]), signature[0])
        node = ast.parse(text + ": ...").body[0]
        assert parameters_of(functions[name]) == parameters_of(node), name
        assert getattr(_plumb, name).__doc__.count("\n") >= 2, name


def test_the_package_is_typed():
    assert (STUB.parent / "py.typed").exists()
