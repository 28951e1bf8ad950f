"""The table of `tests.discord` names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import tests.discord

TESTS = Path(__file__).parents[1]


def test_every_test_that_the_table_names_is_there():
    path, missing, named = "", [], 0
    for line in (tests.discord.__doc__ or "").splitlines():
        if re.fullmatch(r" {8}\S+\.py", line):
            path = line.strip()
        elif re.fullmatch(r" {12}test_\w+", line):
            named += 1
            if f"def {line.strip()}(" not in (TESTS / path).read_text(encoding="utf-8"):
                missing.append(line.strip())
    assert named > 20
    assert not missing
