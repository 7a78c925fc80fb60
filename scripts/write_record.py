#!/usr/bin/env python3
"""Writes what the program measured the way docs/results/ keeps it: which commit and which command it is
of come first, and an object that holds no other is one line.
usage: scripts/write_record.py FROM.json TO.json COMMIT COMMAND"""
import json
import pathlib
import sys


def is_flat(value):
    inner = value.values() if isinstance(value, dict) else value
    return not any(isinstance(one, (dict, list)) for one in inner)


def text(value, indent=0):
    if not isinstance(value, (dict, list)) or (indent > 1 and is_flat(value)):
        return json.dumps(value, ensure_ascii=False)
    pad = "\n" + " " * (indent + 1)
    if isinstance(value, dict):
        inner = (f"{json.dumps(key)}: {text(one, indent + 1)}" for key, one in value.items())
        return "{" + ",".join(pad + one for one in inner) + "\n" + " " * indent + "}"
    return "[" + ",".join(pad + text(one, indent + 1) for one in value) + "\n" + " " * indent + "]"


def main():
    source, target, commit, command = sys.argv[1:]
    record = {"commit": commit, "command": command} | json.loads(pathlib.Path(source).read_text())
    record.pop("cache", None)  # a path of that machine's
    pathlib.Path(target).write_text(text(record) + "\n")


main()
