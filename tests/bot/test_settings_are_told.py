"""Every setting, of all platforms, is in the documentation and in the example file: by its name and its default."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import Final

import pytest
from pydantic import SecretStr

from bot.config import KEYS, OUR_PREFIXES, Settings, load

ROOT: Final = Path(__file__).parents[2]
SETTINGS: Final = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
EXAMPLE: Final = (ROOT / ".env.example").read_text(encoding="utf-8")
TOLD: Final = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), ROOT / "adapters" / "slack" / "manifest.yaml"])


def default_of(key: str) -> str:
    """As it is written; empty if nothing is set."""
    value = Settings.model_fields[KEYS[key]].default
    if value is None or isinstance(value, SecretStr | frozenset | dict):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value.value if isinstance(value, Enum) else value)


DEFAULTS: Final = {key: default_of(key) for key in KEYS}


def entries() -> list[str]:
    """The list items and paragraphs of the page about settings."""
    return re.split(r"\n(?=- )|\n\n", SETTINGS)


@pytest.mark.parametrize("key", KEYS)
def test_the_page_about_settings_tells_it_with_its_default(key: str):
    told = [entry for entry in entries() if f"`{key}`" in entry]
    assert told, f"{key} is not on the page"
    if DEFAULTS[key]:
        default = rf"(?<![\w.]){re.escape(DEFAULTS[key])}(?![\w])(?!\.\d)"
        assert any("default" in entry and re.search(default, entry) for entry in told), f"{DEFAULTS[key]} is not there"


@pytest.mark.parametrize("key", KEYS)
def test_the_example_file_has_it_once_with_its_default(key: str):
    (value,) = re.findall(rf"^{key}=(.*)$", EXAMPLE, re.MULTILINE)
    assert value == DEFAULTS[key]
    assert load({key: value}) == load({})


def test_nothing_is_in_the_example_file_that_is_no_setting():
    assert set(re.findall(r"^#?\s*([A-Z][A-Z0-9_]+)=", EXAMPLE, re.MULTILINE)) == set(KEYS)


@pytest.mark.parametrize("path", TOLD, ids=lambda path: path.name)
def test_no_page_names_a_setting_that_there_is_not(path: Path):
    text = path.read_text(encoding="utf-8")
    named = set(re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", text))
    ours = {name for name in named if name.startswith(OUR_PREFIXES)}
    ours |= set(re.findall(r"^    (?:export )?([A-Z][A-Z0-9_]+)=", text, re.MULTILINE))
    assert not ours - set(KEYS)


@pytest.mark.parametrize("page", TOLD, ids=lambda page: page.name)
def test_a_command_to_be_copied_is_one_that_the_installation_made(page: Path):
    """It is on nobody's path."""
    assert not re.findall(r"^    threadwise .*|[Rr]un `threadwise .*", page.read_text(encoding="utf-8"), re.MULTILINE)
