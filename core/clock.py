"""Seconds by stage of one turn."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType


class Clock:
    """Started when made."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the time of the block to stage `name`, however it ends."""
        started = time.monotonic()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.monotonic() - started

    def timings(self, first_token: float | None = None) -> Mapping[str, float]:
        """What `Answer.timings` holds."""
        seconds = dict(self._seconds, total=time.monotonic() - self._started)
        if first_token is not None:
            seconds["first_token"] = first_token
        return MappingProxyType({name: round(value, 4) for name, value in seconds.items()})
