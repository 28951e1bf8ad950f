"""An event loop whose clock jumps to the next timer when nothing else is left to do.

    @in_virtual_time
    async def test_something(): ...                    # asyncio.sleep(900) takes no time

Nothing in it may wait for a socket or a thread.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any


class _Jumping(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everything waits, and no timer runs: nothing can happen any more")
        self.now += max(timeout, 0.0)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: object, **fixtures: object) -> None:
        with asyncio.Runner(loop_factory=_Loop) as runner:
            runner.run(test(*args, **fixtures))

    return run


def now() -> float:
    """Seconds of the running loop's clock."""
    return asyncio.get_running_loop().time()
