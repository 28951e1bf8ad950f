"""Answers on the screen: the terminal as a channel, in which a message is what is printed for a question."""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.text import Text

from adapters.ports import Phase, Post
from adapters.present import remarks, source_lines
from core.types import Answer

PLATFORM: Final = "terminal"


class TerminalScreen:
    """Prints answers: as they grow at a terminal, whole in a pipe. What is printed cannot be taken back."""

    platform = PLATFORM
    pace = 0.0

    def __init__(self, console: Console, *, streams: bool) -> None:
        self._console = console
        self._streams = streams
        self._printed = ""
        self._status = console.status("searching ...") if streams else None

    def bodies(self, answer: Answer) -> Sequence[str]:
        body = {"text": answer.text, "remarks": remarks(answer), "sources": source_lines(answer.citations)}
        return [json.dumps(body)]

    async def open(self, post: Post) -> str:
        self._printed = ""
        await self.edit(post.reply_to, post)
        return post.reply_to

    async def find(self, post: Post) -> Sequence[str]:
        return []

    async def edit(self, message_id: str, post: Post) -> None:
        if post.phase is Phase.FINAL:
            self._finish(**json.loads(post.body))
        elif self._status is not None and post.phase is Phase.WAITING:
            self._status.update(post.body)
            self._status.start()
        elif self._streams:
            self._stop_waiting()
            self._print_up_to(post.body)

    async def remove(self, message_id: str, post: Post) -> None:
        self._stop_waiting()

    def _finish(self, text: str, remarks: Sequence[str], sources: Sequence[str]) -> None:
        self._stop_waiting()
        self._print_up_to(text)
        self._console.print()
        for line in remarks:
            self._line(line, "yellow")
        if sources:
            self._line("Sources:", "dim")
        for line in sources:
            self._line(line, "dim")
        self._console.print()

    def _line(self, text: str, style: str) -> None:
        self._console.print(Text(printable(text), style=style), soft_wrap=not self._console.is_terminal)

    def _print_up_to(self, text: str) -> None:
        if not text.startswith(self._printed):
            # The end of the answer showed that its beginning was not one; rare, so it is printed anew.
            self._console.print()
            self._printed = ""
        added = printable(text[len(self._printed) :])
        if self._console.is_terminal:
            added = _wrapped(added, self._printed, self._console.width)
        self._console.print(Text(added), end="", soft_wrap=True)
        self._printed = text

    def _stop_waiting(self) -> None:
        if self._status is not None:
            self._status.stop()


def printable(text: str) -> str:
    """No escape sequence of somebody else's reaches the terminal, and no lone surrogate its encoder."""
    clean = "".join(char if char in "\n\t" or char.isprintable() or char == "\u200d" else "\ufffd" for char in text)
    encoding = sys.stdout.encoding or "utf-8"
    return clean.encode(encoding, "replace").decode(encoding)


def _wrapped(added: str, before: str, width: int) -> str:
    """`added` with line ends between words, where the text goes on after `before` on a screen of `width`."""
    lines = textwrap.wrap(before[before.rfind("\n") + 1 :], width) or [""]
    column = len(lines[-1])
    pieces = []
    for piece in re.findall(r"\n|[^\S\n]+|\S+", added):
        if piece == "\n":
            column = 0
        elif column + len(piece) > width and not piece.isspace() and column:
            pieces.append("\n")
            column = len(piece)
        else:
            column += len(piece)
        pieces.append(piece)
    return "".join(pieces)
