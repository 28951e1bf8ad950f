"""A breaker: when an endpoint has failed several times in a row, further calls fail at once.

closed     every call goes through
open       no call goes through for some seconds
half-open  one call, the probe, goes through; its outcome closes or opens the breaker again
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from core.errors import ModelError, ModelTimeout, ModelUnavailable
from core.llm_refusal import unavailable

log = logging.getLogger(__name__)


class Breaker:
    """Counts failures in a row. Not for threads: all calls come from one event loop."""

    def __init__(
        self,
        name: str,
        *,
        failures: int = 5,
        seconds: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._failures = failures
        self._seconds = seconds
        self._clock = clock
        self._in_a_row = 0
        self._opened_at: float | None = None
        self._probing = False

    @property
    def is_open(self) -> bool:
        """True while calls are refused or probed."""
        return self._opened_at is not None

    def admit(self) -> Permit:
        """Lets a call through, as a context manager that sees how it ends, or raises `ModelUnavailable`."""
        if self._opened_at is None:
            return Permit(self, probe=False)
        wait = self._opened_at + self._seconds - self._clock()
        if wait > 0 or self._probing:
            raise unavailable(
                f"The model failed {self._in_a_row} times in a row; it is asked again in a few seconds.",
                not_taken=True,
                retry_after=max(wait, 1.0),
            )
        self._probing = True
        return Permit(self, probe=True)

    def settle(self, failed: bool | None, *, probe: bool) -> None:
        """Takes in the outcome of a call; `None` when it says nothing about the endpoint."""
        if probe:
            self._probing = False
        if failed is None:
            return
        if not failed:
            if self._opened_at is not None:
                log.warning("The model answers again (%s).", self._name)
            self._in_a_row, self._opened_at = 0, None
            return
        self._in_a_row += 1
        # Calls that began before the breaker opened still end; only the probe may start the wait anew.
        if probe or (self._opened_at is None and self._in_a_row >= self._failures):
            if self._opened_at is None:
                log.warning("The model failed %d times in a row (%s).", self._in_a_row, self._name)
            self._opened_at = self._clock()


class Permit:
    """One admitted call. Leaving the context settles it by the exception, if it is not settled yet."""

    def __init__(self, breaker: Breaker, *, probe: bool) -> None:
        self.probe = probe
        self._breaker = breaker
        self._settled = False

    def answered(self) -> None:
        """The endpoint answered; what happens to the call from here on is not its fault."""
        self._settle(False)

    def _settle(self, failed: bool | None) -> None:
        if not self._settled:
            self._settled = True
            self._breaker.settle(failed, probe=self.probe)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, (ModelUnavailable, ModelTimeout)):
            self._settle(True)
        elif error is None or isinstance(error, ModelError):
            self._settle(False)  # Answered; or refused, cut, nonsense, but there is somebody.
        else:
            self._settle(None)  # Cancelled, or a bug of ours.
