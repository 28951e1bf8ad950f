"""What is printed of an answer at a terminal or into a pipe."""

from __future__ import annotations

import contextlib
import re
import sys
import textwrap
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from adapters.present import remarks, source_lines
from core.types import Answer


class TerminalReply:
    """Prints an answer: as it grows at a terminal, whole in a pipe."""

    def __init__(self, console: Console, *, streams: bool) -> None:
        self._console = console
        self._streams = streams
        self._printed = ""
        self._status = console.status("searching ...") if streams else None

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Shows that something is going on until the first word is there."""
        if self._status is not None:
            self._status.start()
        try:
            yield
        finally:
            self._stop_waiting()

    async def show(self, text: str) -> None:
        if self._streams:
            self._stop_waiting()
            self._print_up_to(text)

    async def finish(self, answer: Answer) -> None:
        self._stop_waiting()
        self._print_up_to(answer.text)
        self._console.print()
        for line in remarks(answer):
            self._line(line, "yellow")
        if answer.citations:
            self._line("Sources:", "dim")
        for line in source_lines(answer.citations):
            self._line(line, "dim")
        self._console.print()

    def _line(self, text: str, style: str) -> None:
        self._console.print(Text(printable(text), style=style), soft_wrap=not self._console.is_terminal)

    def stopped(self) -> None:
        self._stop_waiting()
        self._console.print(Text("\n(stopped)", style="yellow"))

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


def printable(text: str) -> str:
    """No escape sequence of somebody else's reaches the terminal, and no lone surrogate its encoder."""
    clean = "".join(char if char in "\n\t" or char.isprintable() or char == "\u200d" else "\ufffd" for char in text)
    encoding = sys.stdout.encoding or "utf-8"
    return clean.encode(encoding, "replace").decode(encoding)
