"""Running summaries: what leaves the window is condensed in the background, one piece at a time in a thread.

Nothing of a turn waits for this, and nothing of it can fail a turn. The text and the watermark move in one
step or not at all, so whatever ends the work half-way (an error, a deadline, a shutdown, a kill) leaves
the old summary with all turns after it, and the next turn tries again.
"""

from __future__ import annotations

import asyncio

from adapters.ports import Summarize, SummaryStore, ThreadKey
from core.fail_open import record
from core.intake import is_history
from core.window import leaving


class Summaries:
    """Condenses in tasks of its own, until it is closed."""

    def __init__(self, store: SummaryStore, summarize: Summarize) -> None:
        self._store = store
        self._summarize = summarize
        # Strong references: the event loop has only weak ones, and would lose a task that waits.
        self._running: dict[ThreadKey, asyncio.Task[None]] = {}
        self._closed = False

    def start(self, thread: ThreadKey, *, tight: bool = False) -> None:
        """Begins to condense what has left the window of `thread`, if anything has and nobody is at it.

        `tight`: the token budget has left turns out of the last prompt.
        """
        if self._closed or thread in self._running:
            return
        task = asyncio.create_task(self._catch_up(thread, tight))
        self._running[thread] = task
        task.add_done_callback(lambda _: self._running.pop(thread, None))

    def again(self, thread: ThreadKey) -> None:
        """Something was taken out of `thread`: what is being condensed of it must not be used, nor asked for."""
        if (task := self._running.get(thread)) is not None:
            task.cancel()
            task.add_done_callback(lambda _: self.start(thread))
        else:
            self.start(thread)

    async def idle(self) -> None:
        """Returns when nothing is being condensed."""
        while self._running:
            await asyncio.wait(list(self._running.values()))

    async def close(self) -> None:
        """Stops what is going on; nothing is begun any more."""
        self._closed = True
        for task in self._running.values():
            task.cancel()
        await self.idle()

    async def _catch_up(self, thread: ThreadKey, tight: bool) -> None:
        try:
            while await self._condense(thread, tight):
                pass
        except Exception as error:  # noqa: BLE001 - nobody awaits this task: what happens in it is told here
            record("summarize", error)

    async def _condense(self, thread: ThreadKey, tight: bool) -> bool:
        """Whether the oldest turns of a backlog have moved into the summary."""
        backlog = await self._store.backlog(thread)
        if backlog is None:
            return False
        pairs = [(seq, turn) for seq, turn in backlog.turns if is_history(turn)]
        batch = pairs[: leaving(len(pairs), tight=tight)]
        if not batch:
            return False
        summary = await self._summarize(backlog.summary, [turn for _, turn in batch])
        if not summary:
            return False
        return await self._store.condense(backlog, batch[-1][0], summary)
