from __future__ import annotations

import re
import time
from collections import Counter
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from core.errors import IngestError
from core.index.chunker import LIMIT, TARGET, _balanced, chunk
from core.index.document import Chunk, Kind
from core.index.readers import parse


def cut(markdown: str, name: str = "page.md") -> list[Chunk]:
    return chunk(parse(markdown.encode(), source=name))


def test_a_chunk_has_the_path_of_headings_above_it() -> None:
    chunks = cut("---\ntitle: T\n---\nIntro.\n\n# A\n\none\n\n## B\n\ntwo\n\n### C\n\nthree\n\n## D\n\nfour\n")
    assert [(c.heading, c.text) for c in chunks] == [
        ("", "Intro."),
        ("A", "one"),
        ("A > B", "two"),
        ("A > B > C", "three"),
        ("A > D", "four"),
    ]


def test_a_path_does_not_begin_with_the_title_again() -> None:
    assert [c.heading for c in cut("# Guide\n\none\n\n## B\n\ntwo\n")] == ["Guide", "B"]


def test_repeated_headings_are_numbered_like_the_sections_of_the_evaluation() -> None:
    chunks = cut("## Example\n\na\n\n## `x`\n\nb\n\n## Example\n\nc\n\n## Example\n\nd\n")
    assert [c.section for c in chunks] == ["Example", "`x`", "Example (2)", "Example (3)"]


def test_a_heading_without_text_lives_on_in_its_children() -> None:
    chunks = cut("---\ntitle: T\n---\n## A\n\n### B\n\ntext\n\n## C\n\n## D\n\nmore\n")
    assert [(c.heading, c.text) for c in chunks] == [("A > B", "text"), ("D", "more")]


def test_a_heading_with_nothing_under_it_is_text_if_it_says_something_or_is_all_there_is() -> None:
    chunks = cut("---\ntitle: T\n---\n## No refunds after thirty days\n\n## D\n\nmore\n")
    assert [c.text for c in chunks] == ["No refunds after thirty days", "more"]
    assert [c.text for c in cut("# A\n\n# B\n")] == ["A", "B"]


def test_small_sections_are_not_merged_because_a_citation_names_one_heading() -> None:
    assert len(cut("# A\n\na\n\n# B\n\nb\n")) == 2


def test_paragraphs_are_gathered_up_to_the_target_and_a_short_rest_goes_with_them() -> None:
    chunks = cut("\n\n".join(f"Sentence {number} of the page is here." * 5 for number in range(11)))
    assert all(TARGET * 0.6 < len(c.text) <= LIMIT for c in chunks)


def test_a_code_block_is_not_cut_if_it_fits() -> None:
    code = "```yaml\n" + "\n".join(f"key{number}: value" for number in range(95)) + "\n```"
    assert TARGET < len(code) < LIMIT
    assert any(code in c.text for c in cut(f"{'Before. ' * 90}\n\n{code}\n\n{'After. ' * 90}\n"))


def test_the_sentence_that_introduces_a_code_block_goes_with_it() -> None:
    chunks = cut("Text. " * 150 + "\n\nRun this:\n\n```sh\n" + "ls\n" * 60 + "```\n")
    assert "Run this:\n\n```sh" in chunks[-1].text


def test_a_code_block_over_the_limit_is_cut_at_lines_and_every_part_is_fenced() -> None:
    lines = [f"line {number:04}" for number in range(400)]
    chunks = cut("```python\n" + "\n".join(lines) + "\n```\n")
    assert len(chunks) > 2
    assert all(c.text.startswith("```python\n") and c.text.endswith("\n```") for c in chunks)
    assert re.findall(r"line \d{4}", "".join(c.text for c in chunks)) == lines


def test_a_table_over_the_limit_repeats_its_head() -> None:
    rows = "\n".join(f"| {number} | value |" for number in range(200))
    assert all(c.text.startswith("| a | b |\n|---|---|\n") for c in cut(f"| a | b |\n|---|---|\n{rows}\n"))


def test_what_is_cut_out_of_a_list_loses_its_indentation() -> None:
    item = "1. " + "Step. " * 160 + "\n\n   Then run:\n\n   ```sh\n" + "   ls\n" * 99 + "   ```\n"
    assert cut(item)[-1].text == "Then run:\n\n```sh\n" + "ls\n" * 99 + "```"


def test_a_fence_that_nothing_closes_is_closed_with_its_chunk() -> None:
    assert cut("```\ncode\n")[0].text == "```\ncode\n```"


def test_a_row_of_backticks_in_a_text_cannot_swallow_what_follows() -> None:
    assert _balanced("a\n```\nb\n~~~\nc") == "a\n\\```\nb\n\\~~~\nc"


def test_chunks_know_their_line() -> None:
    assert [c.line for c in cut("---\ntitle: T\n---\n# A\n\none\n\n# B\n\n\ntwo\n")] == [6, 11]


FRAGMENTS = (
    ["# ", "## ", "### A\n", "```", "```py\n", "~~~\n", "````\n", "\n", "\n\n", "- ", "  ", "    ", "\t", "> ", "1. "]
    + ["| a | b |\n|---|---|\n", "| 1 | 2 |\n", "<div>", "</div>\n", "<!--", "-->", "<pre>\n", "{{< note >}}", "`", "<"]
    + [
        "{{< mermaid >}}",
        "{{< /mermaid >}}",
        "w",
        "word two. ",
        "x" * 400,
        "y " * 500,
        "{#a}",
        "***\n",
        "===\n",
        "é漢字 ",
    ]
)


@settings(max_examples=250, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join))
def test_nothing_is_lost_limits_hold_and_fences_are_balanced(markdown: str) -> None:
    try:
        document = parse(markdown.encode(), source="page.md")
    except IngestError:
        return
    chunks = chunk(document)
    assert [c.ordinal for c in chunks] == list(range(len(chunks)))
    for c in chunks:
        assert c.text.strip()
        assert len(c.text) <= LIMIT
        assert not unbalanced(c.text)
    kept = Counter("".join(c.heading + c.text for c in chunks) + document.title)
    body = "".join(block.text for block in document.blocks if block.kind is not Kind.HEADING)
    assert not Counter(re.findall(r"\w", body)) - kept


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["# {}", "## {}", "{}", "```\n{}\n```", "- {}", "> {}"]), st.integers(1, 300)))
)
def test_every_word_comes_once_and_in_order(parts: list[tuple[str, int]]) -> None:
    numbers = iter(range(100_000))
    written = [form.format(" ".join(f"{form[0]}{next(numbers)}" for _ in range(count))) for form, count in parts]
    chunks = cut("---\ntitle: T\n---\n" + "\n\n".join([*written, "end"]) + "\n")
    words = re.findall(r"[{`>-]\d+", "\n".join(form for form in written if not form.startswith("#")))
    assert re.findall(r"[{`>-]\d+", "\n".join(c.text for c in chunks)) == words
    named = set(re.findall(r"#\d+", "".join(c.heading + c.text for c in chunks)))
    headings = [text for text in written if text.startswith("#") and len(text.split()) > 5]
    assert named >= set(re.findall(r"#\d+", "".join(headings)))


def unbalanced(text: str) -> bool:
    lines = text.split("\n")
    for token in MarkdownIt("commonmark").enable("table").disable(["inline", "reference"]).parse(text):
        if token.type == "fence" and token.map:
            closing = lines[min(token.map[1], len(lines)) - 1].strip(" \t>")
            if token.map[1] - token.map[0] < 2 or not closing.startswith(token.markup):
                return True
    return False


@pytest.mark.parametrize(
    "hostile",
    [
        "#" * 100_000,
        "# a\n" * 25_000,
        "- a\n" * 25_000,
        "`" * 100_000,
        "> ```\n\n" * 14_000,
        "- ```\n\n" * 12_000,
        "a ``` b\n" * 12_000,
    ]
    + [
        "a" * 100_000,
        "```\n" + "a\n" * 50_000 + "```",
        "|a|b|\n|-|-|\n" + "|c|d|\n" * 16_000,
        "<" * 100_000,
        "~~~~" * 25_000,
    ],
    ids=lambda text: repr(text[:6]),
)
def test_hostile_input_is_cut_in_linear_time(hostile: str) -> None:
    started = time.process_time()
    with suppress(IngestError):
        cut(hostile)
    assert time.process_time() - started < 5
