"""An answer in parts: each fits, each is whole Markdown, and joined they are the answer."""

from __future__ import annotations

import re
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wcwidth import iter_graphemes

from adapters.markdown.splitting import LEAST, MAX_LANGUAGE_CHARS, split

DISCORD = 2_000
CODE = [f"print({n})  # line {n}" for n in range(300)]


def is_balanced(part: str) -> bool:
    """Whether every fenced block that a part opens is closed in it, judged line by line."""
    fence = ""
    for line in part.splitlines():
        found = re.match(r" {0,3}(`{3,12}(?!`)|~{3,12}(?!~))(.*)", line)
        if not found or "```" in found.group(2):
            continue
        ticks, rest = found.groups()
        if not fence:
            fence = ticks
        elif ticks[0] == fence[0] and len(ticks) >= len(fence) and not rest.strip():
            fence = ""
    return not fence


def code_lines(parts: tuple[str, ...]) -> list[str]:
    return [line for part in parts for line in part.splitlines() if line in CODE]


@pytest.mark.parametrize("fence", ["```", "~~~", "````"])
def test_a_long_code_block_is_whole_code_in_each_part(fence: str):
    """B79: an open fence in one message, prose in the next."""
    inside = [*CODE[:150], *(["```", "nested", "```"] if fence == "````" else []), *CODE[150:]]
    parts = split("\n".join(["Run this:", f"{fence}py", *inside, fence, "That is `all."]), DISCORD)
    assert len(parts) > 2
    assert all(len(part) <= DISCORD and is_balanced(part) for part in parts)
    assert parts[0].startswith(f"Run this:\n{fence}py\n")
    assert all(part.startswith(f"{fence}py\n") for part in parts[1:])
    assert parts[-1].endswith(f"\n{fence}\nThat is `all.")
    assert code_lines(parts) == CODE


def test_code_that_is_indented_in_a_list_is_closed_and_opened_again():
    """B79."""
    text = "1. Run\n     ```sh\n" + "".join(f"     {line}\n" for line in CODE) + "     ```\n2. Done"
    parts = split(text, DISCORD)
    assert all(part.count("```") % 2 == 0 for part in parts)
    assert [line.strip() for part in parts for line in part.splitlines() if "print" in line] == CODE


@pytest.mark.parametrize("indent", [5, 20, 21, 150, 250, 2_500])
def test_code_that_stands_far_in_ends(indent: int):
    """B79: its indent alone is longer than a part."""
    far = " " * indent
    text = f"1. Run\n{far}```sh\n" + "".join(f"{far}{line}\n" for line in CODE[:20]) + f"{far}```\n2. Done"
    parts = split(text, LEAST)
    assert all(0 < len(part) <= LEAST for part in parts)
    assert all(line in text for part in parts for line in part.splitlines() if line in CODE)
    assert "".join("".join(parts).split()).count("print(") == 20


@pytest.mark.parametrize("cut", range(1_990, 2_006))
def test_the_closing_fence_has_its_room(cut: int):
    """B80: closed after the length was checked."""
    head = "Use:\n```py\n"
    text = head + "x" * (cut - len(head)) + "\n" + "z" * 50 + "\n```\nDone."
    parts = split(text, DISCORD)
    assert all(len(part) <= DISCORD and is_balanced(part) for part in parts)
    assert "".join(parts).count("x") == cut - len(head)
    assert "".join(parts).count("z") == 50


def test_a_line_of_code_longer_than_a_message_loses_nothing():
    """B80."""
    parts = split("```js\nlet a = 1\n" + "x" * 5_000 + "\n```", DISCORD)
    assert all(len(part) <= DISCORD and is_balanced(part) for part in parts)
    assert sum(part.count("x") for part in parts) == 5_000


@pytest.mark.parametrize("wide", ["👩‍👩‍👧", "🇳🇱", "👍🏽", "e\u0301"])
@pytest.mark.parametrize("before", range(1_992, 2_001))
def test_what_reads_as_one_character_is_never_cut(wide: str, before: int):
    """B82: half a flag, and a part that begins with a joiner."""
    text = "a" * before + wide + "b" * 100
    parts = split(text, DISCORD)
    assert "".join(parts) == text
    assert all(len(part) <= DISCORD for part in parts)
    assert sum(part.count(wide) for part in parts) == 1


def test_a_thousand_flags_without_a_space_stay_flags():
    """B82."""
    parts = split("🇳🇱" * 1_000 + "👩‍👩‍👧" * 1_000, DISCORD)
    assert {grapheme for part in parts for grapheme in iter_graphemes(part)} == {"🇳🇱", "👩‍👩‍👧"}
    assert "".join(parts) == "🇳🇱" * 1_000 + "👩‍👩‍👧" * 1_000


@pytest.mark.parametrize(
    "whole",
    ["[the page](https://docs.example/a_b(c)/page)", "**very bold words**", "`--force and -v`", "https://a.example/x"],
)
@pytest.mark.parametrize("before", range(1_960, 2_003, 3))
def test_a_link_emphasis_or_inline_code_is_whole_in_one_part(whole: str, before: int):
    """B83: a cut at a fixed offset ran through them."""
    text = ("word " * 500)[:before].rstrip() + f" {whole} and more words"
    parts = split(text, DISCORD)
    assert len(parts) == 1 + (len(text) > DISCORD)
    assert any(whole in part for part in parts)


def test_a_part_ends_at_the_best_joint_of_its_second_half():
    words = "lorem ipsum " * 50
    assert split(f"{words}\n\n{words}\nnext line. {words}", 1_000)[0] == words.strip()
    assert split(f"{words}. One more sentence. {words}", 1_000)[0].endswith("sentence.")
    assert split("ab " * 100, LEAST)[0].endswith("ab")


def test_an_answer_that_broke_off_inside_code_is_closed():
    assert split("Run\n```sh\nls", DISCORD) == ("Run\n```sh\nls\n```",)
    assert all(map(is_balanced, split("Run\n```sh\n" + "ls -l\n" * 1_000, DISCORD)))


def test_short_and_blank_texts():
    assert split("One line.", DISCORD) == ("One line.",)
    assert split("", DISCORD) == ()
    assert split(" \n\n ", DISCORD) == ()


PIECES = st.one_of(
    st.sampled_from(
        ["```py\n", "\n```\n", "```", "~~~\n", "\n~~~\n", "````md\n", "`code`", "`", "``a`b``", "\n\n", "\n", ". ", " "]
        + [
            "https://a.example/b?c=d ",
            "[a b](https://a.example)",
            "**bold** ",
            "👩‍👩‍👧",
            "🇳🇱",
            "👍🏽",
            "e\u0301",
            "    x\n",
        ]
        + ["word " * 60, "x" * 350, "line of code\n" * 30, "- item\n" * 20, "\U0001f600" * 90]
    ),
    st.text(alphabet="ab `~*\n[]()", max_size=30),
)


@settings(max_examples=1_500, deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join), st.integers(LEAST, 700))
def test_any_mix_fits_is_balanced_and_joined_is_the_text(text: str, limit: int):
    """T24: a fence that is broken out of, a cut in a character; B80."""
    parts = split(text, limit)
    assert all(0 < len(part) <= limit for part in parts)
    assert all(map(is_balanced, parts))
    assert not [part for part in parts if unicodedata.combining(part[0]) or part[0] in "\u200d\ufe0f🏽"]
    # What a split adds are fences with their language, and what it drops is white space.
    added = str.maketrans("", "", "`~ \n\t")
    joined, original = "".join(parts).translate(added), text.translate(added)
    letters = iter(joined)
    assert all(letter in letters for letter in original), "something is lost or out of order"
    assert len(joined) - len(original) <= MAX_LANGUAGE_CHARS * len(parts), "something is there twice"


@pytest.mark.parametrize(
    "unit", ["\u0301", "🇳🇱", "a", "[a](", "**a", "`", "```\n", "```\n\n", "a b ", "[a b](c) ", "_" * 3]
)
def test_hostile_64_kb_take_no_more_than_a_blink(unit: str):
    text = (unit * (65_536 // len(unit) + 1))[:65_536]
    started = time.process_time()
    parts = split(text, DISCORD)
    assert time.process_time() - started < 1.0
    assert all(len(part) <= DISCORD for part in parts)
