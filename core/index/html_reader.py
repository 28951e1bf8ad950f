"""HTML -> title and blocks: headings and code kept, links as their text, scripts and navigation dropped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from bs4 import BeautifulSoup, Tag
from bs4.element import PreformattedString

from core.index.document import Block, Kind, fenced

_DROPPED: Final = frozenset("script style nav noscript template svg iframe button head title".split())
_JOINED: Final = 800
"""Characters after which a list or table starts a new block."""
_HEADINGS: Final = {f"h{level}": level for level in range(1, 7)}
_BLOCKS: Final = frozenset(
    "address article aside blockquote body caption dd details div dl dt fieldset figcaption figure footer form "
    "header hr html li main ol p section summary table tbody tfoot thead tr ul".split()
)


def read_html(text: str) -> tuple[str, list[Block]]:
    """The `<title>` (empty if none) and the blocks of the page; of `<main>` alone where there is one."""
    soup = BeautifulSoup(_without_stray_brackets(text), "html.parser")
    title = " ".join(soup.title.get_text().split()) if soup.title else ""
    main = soup.find("main")
    return title, _joined(_Walk(main if isinstance(main, Tag) else soup).blocks())


def _joined(blocks: Iterator[Block]) -> list[Block]:
    """`blocks` with the items of a list, and the rows of a table, put together."""
    joined: list[Block] = []
    for block in blocks:
        before = joined[-1] if joined else block
        row = " | " in before.text and " | " in block.text
        item = before.text.startswith("- ") and block.text.startswith("- ")
        if joined and before.kind is block.kind is Kind.TEXT and (row or item) and len(before.text) < _JOINED:
            joined[-1] = replace(before, text=f"{before.text}\n{block.text}")
        else:
            joined.append(block)
    return joined


def text_of_html(fragment: str) -> str:
    """The readable text of some HTML inside another document."""
    if fragment.lstrip().startswith("<!--") and fragment.rstrip().endswith("-->"):
        start, end = fragment.index("<!--"), fragment.find("-->")
        fragment = fragment[:start] + fragment[end + 3 :] if end >= 0 else fragment
    return "\n\n".join(block.text for block in read_html(fragment)[1])


def _without_stray_brackets(text: str) -> str:
    """`text` with each `<` that opens no tag written as `&lt;`.

    The parser of the standard library searches on to the end for each of them: a page of 100 kB could
    take over a minute. A `<` inside an attribute costs that tag its meaning, not its text.
    """
    out: list[str] = []
    position, start, closing = 0, text.find("<"), -1
    last_comment = text.rfind("-->")
    while start >= 0:
        out.append(text[position:start])
        if text.startswith("<!--", start):
            # What a comment holds is skipped with it.
            position = text.find("-->", start + 2) + 3 if start + 2 <= last_comment else start
            following = text.find("<", max(position, start + 1))
        else:
            following = text.find("<", start + 1)
            if closing < start:
                closing = text.find(">", start)
                closing = closing if closing >= 0 else len(text)
            position = start + 1 if closing < (following if following >= 0 else len(text)) else start
        if position == start:
            out.append("&lt;")
            position += 1
        else:
            out.append(text[start:position])
        start = following
    out.append(text[position:])
    return "".join(out)


class _Walk:
    """One pass over the tree in document order; depth costs nothing, so that no page can exhaust the stack."""

    def __init__(self, root: Tag) -> None:
        self._root = root
        self._block_of: dict[int, int] = {id(root): id(root)}
        self._whole: set[int] = set()
        self._words: list[str] = []
        self._current = id(root)
        self._line = self._start = 1

    def blocks(self) -> Iterator[Block]:
        for node in self._root.descendants:
            parent = id(node.parent)
            if parent in self._whole:
                if isinstance(node, Tag):
                    self._whole.add(id(node))
            elif isinstance(node, Tag):
                yield from self._enter(node, parent)
            elif not isinstance(node, PreformattedString):  # comments, declarations
                block = self._block_of[parent]
                if block != self._current:
                    yield from self._flush()
                    self._current = block
                self._add(str(node))
        yield from self._flush()

    def _enter(self, tag: Tag, parent: int) -> Iterator[Block]:
        self._line = tag.sourceline or self._line
        if tag.name in _DROPPED:
            self._whole.add(id(tag))
            return
        self._block_of[id(tag)] = id(tag) if tag.name in _BLOCKS else self._block_of[parent]
        if tag.name in _HEADINGS or tag.name == "pre":
            yield from self._flush()
            self._whole.add(id(tag))
            yield from _whole_block(tag, self._line)
        elif tag.name == "code":
            self._whole.add(id(tag))
            self._add(_inline_code(tag))
        elif tag.name == "br":
            self._add("\n")
        elif tag.name == "li":
            yield from self._flush()
            self._current = id(tag)
            self._add("- ")
        elif tag.name in ("td", "th") and self._current == self._block_of[parent] and self._words:
            self._add(" | ")

    def _add(self, words: str) -> None:
        if not "".join(self._words[:1]).strip():
            self._words, self._start = [], self._line
        self._words.append(words)

    def _flush(self) -> Iterator[Block]:
        text = "\n".join(" ".join(line.split()) for line in _lines(self._words)).strip()
        self._words = []
        if text.strip("- "):
            yield Block(kind=Kind.TEXT, text=text, line=self._start)


def _lines(words: list[str]) -> list[str]:
    """`words` joined; only a `<br>` breaks a line, line ends of the source do not."""
    return "".join(word if word == "\n" else word.replace("\n", " ") for word in words).split("\n")


def _whole_block(tag: Tag, line: int) -> Iterator[Block]:
    text = tag.get_text()
    if tag.name == "pre":
        if text.strip():
            yield Block(kind=Kind.CODE, text=fenced(text.strip("\n")), line=line)
    elif heading := " ".join(text.strip().rstrip("¶#").split()):  # the permalink sign of Sphinx and MkDocs
        yield Block(kind=Kind.HEADING, text=heading, line=line, level=_HEADINGS[tag.name], label=heading)


def _inline_code(tag: Tag) -> str:
    text = " ".join(tag.get_text().split())
    return f"`{text}`" if text and "`" not in text else text
