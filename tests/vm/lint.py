#!/usr/bin/python3
"""`./dev lint`: shellcheck, Python and JSON syntax, and the house rules that a program can hold."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

from paths import ROOT
from progress import main_guard, say

LINE_CHARS_MAX = 120
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
CODE = {".cc", ".h"}
TEXT = CODE | {".py", ".sh", ".json", ".cmake", ".txt", ".service"}


def files():
    """Tracked files and new ones that are not ignored."""
    done = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                          capture_output=True, check=True)
    paths = (ROOT / name for name in done.stdout.decode().split("\0") if name)
    return sorted(path for path in paths if path.is_file())


def is_shell(path):
    if path.suffix == ".sh":
        return True
    with open(path, "rb") as text:
        return not path.suffix and re.match(rb"#!.*\b(ba)?sh\b", text.readline()) is not None


def check_shell(paths):
    shells = [str(path.relative_to(ROOT)) for path in paths if is_shell(path)]
    done = subprocess.run(["shellcheck", "-f", "gcc", *shells], cwd=ROOT, capture_output=True, text=True, check=False)
    yield from done.stdout.splitlines()


def check_python(path, text):
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        yield f"{error.lineno}: {error.msg}"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= FUNCTION_LINES_MAX:
            yield f"{node.lineno}: function {node.name} is longer than {FUNCTION_LINES_MAX} lines"


def check_json(path, text):
    try:
        json.loads(text)
    except ValueError as error:
        yield f"1: {error}"


def check_lines(path, text):
    lines = text.splitlines()
    if path.suffix in CODE | {".py"} and len(lines) > FILE_LINES_MAX:
        yield f"{len(lines)}: file is longer than {FILE_LINES_MAX} lines"
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            yield f"{number}: white space at the end of the line"
        if "\t" in line:
            yield f"{number}: tab"
        if len(line) > LINE_CHARS_MAX and path.suffix in CODE | {".py", ".sh"}:
            yield f"{number}: {len(line)} characters, at most {LINE_CHARS_MAX}"
    if text and not text.endswith("\n"):
        yield f"{len(lines)}: no newline at the end of the file"


def check_header(path, text):
    if not text.startswith("//"):
        yield "1: a header opens with what it is, its thread rule and its invariants"
    if "#pragma once" not in text:
        yield "1: no #pragma once"


def complaints_of(path):
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(ROOT)
    checks = [check_lines]
    if path.suffix == ".py":
        checks.append(check_python)
    if path.suffix == ".json" and not name.match("tests/*/bad/*"):
        checks.append(check_json)
    if path.suffix == ".h":
        checks.append(check_header)
    for check in checks:
        for complaint in check(path, text):
            yield f"{name}:{complaint}"


def main():
    paths = files()
    complaints = list(check_shell(paths))
    for path in paths:
        if path.suffix in TEXT:
            complaints += complaints_of(path)
    for complaint in complaints:
        print(complaint)
    say(f"lint: {len(paths)} files, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    main_guard(main)
