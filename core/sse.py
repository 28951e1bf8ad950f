"""Server-sent events: the decoder of their bytes."""

from __future__ import annotations

import re
from typing import Final

from core.errors import ModelGarbage

MAX_LINE: Final = 1_000_000
"""Bytes of one line, and of the data of one event."""
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")


class SseDecoder:
    """Bytes in any pieces -> the data of each event. Lines are decoded whole, so no character is split."""

    def __init__(self) -> None:
        self.strange_lines = 0
        """Lines that no server of events sends."""
        self._line = bytearray()
        self._data: list[str] = []
        self._data_bytes = 0
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[str]:
        """Data of the events that this chunk completes."""
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        first, *others = _LINE_END.split(chunk)
        events: list[str] = []
        self._line += first
        for piece in others:
            self._end_line(events)
            self._line += piece
        self._after_cr = self._after_cr or chunk.endswith(b"\r")
        self._check(len(self._line))
        return events

    def flush(self) -> list[str]:
        """Data of a last event without its blank line."""
        events: list[str] = []
        self._end_line(events)
        self._end_event(events)
        return events

    def _end_line(self, events: list[str]) -> None:
        self._check(len(self._line))
        line = self._line.decode("utf-8", "replace").removeprefix("\ufeff")
        self._line.clear()
        name, _, value = line.partition(":")
        if not line:
            self._end_event(events)
        elif name in ("data", "error"):
            # "error" is what llama.cpp called the line of an error for years.
            value = value.removeprefix(" ") if name == "data" else f'{{"error":{value}}}'
            self._data_bytes += len(line)
            self._check(self._data_bytes)
            self._data.append(value)
        elif name not in ("", "event", "id", "retry"):
            self.strange_lines += 1

    def _end_event(self, events: list[str]) -> None:
        if self._data:
            events.append("\n".join(self._data))
        self._data.clear()
        self._data_bytes = 0

    @staticmethod
    def _check(size: int) -> None:
        if size > MAX_LINE:
            raise ModelGarbage("The endpoint sent a line of over 1 MB.")
