"""A line for the model in which nobody waits, unless a test says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from core.errors import QueueFull
from core.gpu import Slot
from core.shedding import ShedLevel


class OpenSeat:
    level, patience_seconds = ShedLevel.NONE, 20.0

    def __init__(self, line: OpenLine) -> None:
        self.line = line
        self.ahead, self.wait_seconds = 0, 0.0

    async def near(self) -> None:
        return

    @asynccontextmanager
    async def slot(self, cost: int, *, optional: bool = False) -> AsyncIterator[Slot]:
        raise NotImplementedError("scripted answers take no slot")
        yield

    def leave(self) -> None:
        self.line.seats.discard(self)


class OpenLine:
    def __init__(self, full: str = "") -> None:
        self.seats: set[OpenSeat] = set()
        self.full = full
        self.entered: list[tuple[str, str, bool]] = []

    def enter(self, asker: str, place: str, *, enforce: bool = True, ttl: float | None = None) -> OpenSeat:
        self.entered.append((asker, place, enforce))
        if self.full and enforce:
            raise QueueFull(self.full)
        self.seats.add(seat := OpenSeat(self))
        return seat
