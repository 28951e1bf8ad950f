"""What was called, and what is to go wrong."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.discord_server.world import Json


@dataclass(kw_only=True)
class Call:
    """One request as it came in, and what became of it."""

    method: str
    route: str
    """With placeholders, "/channels/{channel}/messages"."""
    path: str
    body: Json
    query: Mapping[str, str]
    at: float = field(default_factory=time.monotonic)
    status: int = 0
    """0 while it is being answered, and where the reply was lost."""

    def is_(self, what: str) -> bool:
        """Whether it is "METHOD /route"."""
        return f"{self.method} {self.route}" == what


@dataclass(kw_only=True)
class Fault:
    """What happens to the next requests of a kind."""

    what: str
    """"METHOD /route", or "*"."""
    times: int
    status: int = 0
    """Answered instead of doing anything; 0: done, then `lose`, or after `seconds`."""
    body: Json | str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    lose: bool = False
    """Done, but the connection is cut before the reply."""
    landed: int = 0


class Recorder:
    """All calls in order, and the faults that are armed."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.nemesis = True
        """Off: no fault lands, which proves that a test depends on its fault."""

    def to(self, what: str) -> list[Call]:
        """The calls of one kind, "METHOD /route"."""
        return [call for call in self.calls if call.is_(what)]

    def arm(self, what: str, times: int = 1, **fault: object) -> Fault:
        armed = Fault(what=what, times=times, **fault)  # type: ignore[arg-type]
        self.faults.append(armed)
        return armed

    def fault_for(self, call: Call) -> Fault | None:
        for fault in self.faults:
            if self.nemesis and fault.landed < fault.times and fault.what in ("*", f"{call.method} {call.route}"):
                fault.landed += 1
                return fault
        return None
