"""What may go wrong between a client and the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]


class ApiError(Exception):
    """Slack's `{"ok": false, "error": ...}`."""

    def __init__(self, error: str, **more: Any) -> None:
        super().__init__(error)
        self.error = error
        self.more = more


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One call that goes wrong. `applied` ones have their effect all the same."""

    applied: bool = False
    delay: float = 0.0
    """Seconds before anything happens."""
    end: Literal["", "hang", "reset", "cut"] = ""
    """What happens in place of a reply: nothing ever, a TCP reset, an end of file."""
    status: int = 200
    error: str = ""
    """Of a reply with `"ok": false`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None
    """The whole body, e.g. the HTML of a proxy."""


def busy(retry_after: float | None, *, status: int = 429) -> Fault:
    """Slack's refusal to a client that is too fast."""
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
    return Fault(status=status, error="ratelimited", headers=headers)
