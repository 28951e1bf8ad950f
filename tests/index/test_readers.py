from __future__ import annotations

import codecs
import os
import time
from contextlib import suppress
from pathlib import Path

import pytest

from core.errors import IngestError
from core.index.document import Document, Kind
from core.index.readers import LARGEST, parse, read_bytes


def read(text: str, name: str = "docs/page.md") -> Document:
    return parse(text.encode("utf-8", "surrogatepass"), source=name)


def texts(document: Document) -> list[str]:
    return [block.text for block in document.blocks]


def test_the_title_is_the_front_matters_else_the_first_heading_else_the_file_name() -> None:
    assert read("---\ntitle: Set Up\n---\n# Other\n").title == "Set Up"
    assert read('+++\ntitle = "Set Up"\n+++\ntext\n').title == "Set Up"
    assert read("text\n\n## A `code` [link](x) heading {#anchor}\n").title == "A code link heading"
    assert read("text").title == "page"
    assert read("text", "docs/tools/_index.md").title == "tools"


@pytest.mark.parametrize(
    "front_matter",
    [
        "---\ntitle: [broken\n---\n",
        "---\na: &a [x,x]\nb: &b [*a,*a,*a,*a]\ntitle: [*b,*b,*b,*b]\n---\n",
        "---\n" + "[" * 5000 + "\n---\n",
        "---\n2020-13-45: 1\n---\n",
    ],
)
def test_broken_or_hostile_front_matter_loses_the_title_and_not_the_page(front_matter: str) -> None:
    document = read(front_matter + "# Name\n\nThe text.\n")
    assert document.title == "Name"
    assert texts(document) == ["Name", "The text."]


def test_a_rule_at_the_top_is_no_front_matter() -> None:
    assert "a" in texts(read("---\n\na\n"))


def test_headings_keep_their_label_as_written_without_the_anchor() -> None:
    (heading, _) = read("## Via `resourceFieldRef` {#x}\n\nText.\n").blocks
    assert (heading.text, heading.label, heading.level) == ("Via resourceFieldRef", "Via `resourceFieldRef`", 2)


def test_comments_are_dropped_and_those_shown_as_code_stay() -> None:
    document = read("<!-- a\nb -->\n\nSee <!-- hidden --> this and `<!-- shown -->`.\n\n```html\n<!-- code -->\n```\n")
    assert texts(document) == ["See  this and `<!-- shown -->`.", "```html\n<!-- code -->\n```"]


def test_a_hash_inside_a_code_block_is_no_heading() -> None:
    document = read("```\n# not a heading\n```\n\n    # nor this\n")
    assert [block.kind for block in document.blocks] == [Kind.CODE, Kind.CODE]


def test_blocks_know_their_line() -> None:
    document = read("---\ntitle: T\n---\n\n# A\n\ntext\n\n```\ncode\n```\n")
    assert [block.line for block in document.blocks] == [5, 7, 9]


def test_html_inside_markdown_becomes_its_text() -> None:
    assert texts(read("<details>\n<summary>More</summary>\n<p>Inside</p>\n</details>\n")) == ["More\n\nInside"]


def test_mdx_imports_are_dropped() -> None:
    assert texts(read("import Tabs from '@theme/Tabs';\n\nText.\n", "a.mdx")) == ["Text."]


def test_an_html_page_keeps_headings_links_and_code_and_drops_the_rest() -> None:
    page = (
        "<html><head><title>T &amp; x</title><style>p{}</style></head><body><nav>Home</nav><main>"
        "<h1>Install <code>foo</code>¶</h1><p>See <a href='x'>the link</a>, <code>pip</code>.<br>Second</p>tail"
        "<script>let a = '<p>';</script><ul><li>one</li><li>two</li></ul><pre><code>a\n  b\n</code></pre>"
        "<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table><!-- no --></main>footer"
        "</body></html>"
    )
    document = read(page, "page.html")
    assert document.title == "T & x"
    assert texts(document) == [
        "Install foo",
        "See the link, `pip`.\nSecond",
        "tail",
        "- one\n- two",
        "```\na\n  b\n```",
        "A | B\n1 | 2",
    ]


def test_plain_text_is_cut_at_empty_lines_and_has_no_headings() -> None:
    document = read("# no heading\nsame\n\n\nnext\n", "a.txt")
    assert [(block.kind, block.text, block.line) for block in document.blocks] == [
        (Kind.TEXT, "# no heading\nsame", 1),
        (Kind.TEXT, "next", 5),
    ]


@pytest.mark.parametrize(
    "data",
    [
        codecs.BOM_UTF8 + "Grüße".encode(),
        codecs.BOM_UTF16_LE + "Grüße".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "Grüße".encode("utf-16-be"),
    ],
)
def test_byte_order_marks_are_understood(data: bytes) -> None:
    assert texts(parse(data, source="a.md")) == ["Grüße"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a\0b", "binary"),
        (b"\x89PNG\r\n\x1a\n\0\0", "binary"),
        ("Gr\xfc\xdfe".encode("latin-1"), "not UTF-8 text"),
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"<!-- only a comment -->\n", "empty"),
        (b"\xff\xfea", "not UTF-8 text"),
    ],
)
def test_what_is_no_text_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(IngestError, match=f"^{reason}$"):
        parse(data, source="a.md")


def test_a_file_over_the_limit_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "big.md"
    with path.open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(IngestError, match="larger than 10 MB"):
        read_bytes(path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(IngestError, match="not a regular file"):
        read_bytes(tmp_path / "pipe.md")


@pytest.mark.parametrize(
    "hostile",
    ["<" * 100_000, "<a " * 33_000, "<a b='" * 16_000, "<!--" * 25_000, "<?" * 50_000, "</" * 50_000, "\0" * 100_000]
    + [
        "<div>" * 20_000,
        "<nav>" * 20_000,
        "&#" * 50_000,
        "# " + "*a " * 33_000,
        "# " + "[" * 100_000,
        "a <!-- `\n" * 11_000,
    ],
    ids=lambda text: repr(text[:6]),
)
def test_hostile_input_takes_linear_time(hostile: str) -> None:
    started = time.process_time()
    for name in ("a.md", "a.html"):
        with suppress(IngestError):
            parse(hostile.encode(), source=name)
    assert time.process_time() - started < 5  # quadratic code takes over a minute
