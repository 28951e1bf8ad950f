"""The tables of `tests.cases` and `tests.chaos` name tests that exist, for every case and fault, and every test of this
folder."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import tests.cases
import tests.chaos

TESTS = Path(__file__).parents[1]
CLASSES = {
    "A, the rewriter": "B01 B02 B03 B05 B07 B08 B09 B10 B11 B12 B13 B14 B15",
    "B, retrieval": "B16 B18 B19 B21 B22 B23 B24",
    "C, prompts": "B25 B26 B28 B29 B31 B32 B33",
    "D, output": "B34 B36 B37 B38 B39",
    "E, the endpoint": "B40 B41 B43 B44 B45",
    "F, memory": "B46 B47 B48 B49 B51 B52 B53 B54 B55",
    "G, Slack": "B56 B57 B58 B59 B60 B61 B63 B64 B65 B66 B67 B68",
    "H, Discord": "B69 B70 B71 B72 B73 B74 B75 B76 B78",
    "I, messages": "B79 B80 B82 B83 B84 B85 B86 B87 B89 B90 B91 B92",
    "J, people": "B94 B95 B96 B97 B98 B99",
    "K, storage and runtime": "B100 B101 B103 B104",
    "into the prompt": "T1 T2 T3 T4 T5 T6 T7 T8 T9 T10 T11 T12",
    "out of the model": "T20 T21 T22 T23 T24",
    "deaths": "K0-K12 K13 K14 K15",
    "faults": " ".join(f"F{number}" for number in range(1, 31)),
}


def rows() -> list[tuple[str, str, str]]:
    """Case, path and name of each row of the table."""
    found = []
    case = path = ""
    for line in f"{tests.cases.__doc__}\n{tests.chaos.__doc__}".splitlines():
        if re.fullmatch(r" {4}[BTFK]\d+(?:-K\d+)?", line):
            case = line.strip()
        elif re.fullmatch(r" {8}\S+\.py", line):
            path = line.strip()
        elif re.fullmatch(r" {12}test_\w+", line):
            found.append((case, path, line.strip()))
    return found


ROWS = rows()


@cache
def written_in(path: Path) -> dict[str, str]:
    """Names and docstrings of the tests in a file."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, functions)]
    return {node.name: ast.get_docstring(node) or "" for node in found if node.name.startswith("test_")}


@pytest.mark.parametrize("cases", CLASSES.values(), ids=CLASSES)
def test_every_case_has_a_row(cases: str):
    assert not set(cases.split()) - {case for case, _, _ in ROWS}


@pytest.mark.parametrize("path", sorted({path for _, path, _ in ROWS}))
def test_every_test_that_the_table_names_is_there(path: str):
    named = {name for _, where, name in ROWS if where == path}
    assert not named - set(written_in(TESTS / path))


def test_every_test_of_a_case_begins_with_its_case_and_is_in_the_table():
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if path == Path(__file__):
            continue
        for name, docstring in written_in(path).items():
            begins = re.match(r"([BT]\d+(?:, [BT]\d+)*): \S", docstring)
            assert begins, f"{name} does not say which case it is"
            listed = {case for case, where, listed in ROWS if (where, listed) == (f"cases/{path.name}", name)}
            assert {case for case in listed if case[0] in "BT"} == set(begins.group(1).split(", ")), name
