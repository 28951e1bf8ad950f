"""Rate limits as Discord tells and enforces them: a bucket for each route and channel, and a global one."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Verdict:
    """Headers for the reply, and seconds to wait if the request is refused."""

    headers: dict[str, str]
    retry_after: float | None = None
    is_global: bool = False


@dataclass
class Limits:
    """Requests for each time. None: no limit."""

    buckets: dict[str, tuple[int, float]] = field(
        default_factory=lambda: {
            "POST /channels/{channel}/messages": (5, 5.0),
            "PATCH /channels/{channel}/messages/{message}": (5, 5.0),
            "POST /channels/{channel}/typing": (5, 5.0),
        }
    )
    """By "METHOD /route": requests, seconds. For each channel."""
    per_second: int = 50
    _open: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)
    _recent: deque[float] = field(default_factory=deque)

    def check(self, what: str, major: str) -> Verdict:
        """Counts a request."""
        now = time.monotonic()
        while self._recent and now - self._recent[0] >= 1.0:
            self._recent.popleft()
        if len(self._recent) >= self.per_second:
            return Verdict({"X-RateLimit-Global": "true"}, 1.0 - (now - self._recent[0]), is_global=True)
        self._recent.append(now)
        if what not in self.buckets:
            return Verdict({})
        limit, seconds = self.buckets[what]
        left, ends = self._open.get((what, major), (limit, now + seconds))
        if now >= ends:
            left, ends = limit, now + seconds
        headers = {
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": str(max(0, left - 1)),
            "X-RateLimit-Reset": f"{time.time() + ends - now:.3f}",
            "X-RateLimit-Reset-After": f"{ends - now:.3f}",
            "X-RateLimit-Bucket": f"{abs(hash(what)):x}",
        }
        if left <= 0:
            return Verdict(headers, ends - now)
        self._open[what, major] = left - 1, ends
        return Verdict(headers)
