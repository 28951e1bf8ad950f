"""One inbound message, one reply: admit, order, answer, remember, deliver."""

from __future__ import annotations

import asyncio
import logging
from weakref import WeakValueDictionary

from adapters.ports import AnswerTurn, ConversationStore, Inbound, Reply, ThreadKey, TurnState
from core.types import Answer, Query, QueryStatus, Question

log = logging.getLogger(__name__)


class Dispatcher:
    """Turns inbound messages into replies, one at a time in a thread, threads side by side."""

    def __init__(self, store: ConversationStore, answer: AnswerTurn, history_pairs: int) -> None:
        self._store = store
        self._answer = answer
        self._history_pairs = history_pairs
        # Weak: the lock of a thread is gone when nobody waits for it.
        self._locks: WeakValueDictionary[ThreadKey, asyncio.Lock] = WeakValueDictionary()

    async def submit(self, inbound: Inbound, reply: Reply) -> Answer | None:
        """Answers `inbound` into `reply`; None, without a word, if the message is known already.

        The question is stored before any work, the answer before it is delivered. Cancelled half-way,
        the text so far is stored as incomplete. Raises `DataDirError` when the store cannot write.
        """
        lock = self._locks.setdefault(inbound.thread, asyncio.Lock())
        async with lock:
            turn_id = await self._store.ask(inbound)
            if turn_id is None:
                return None
            return await self._run(inbound, turn_id, reply)

    async def _run(self, inbound: Inbound, turn_id: int, reply: Reply) -> Answer:
        shown = ""

        async def show(text: str) -> None:
            nonlocal shown
            shown = text
            await reply.show(text)

        try:
            memory = await self._store.history(inbound.thread, turn_id, self._history_pairs)
            question = Question(
                text=inbound.text,
                author=inbound.author,
                history=tuple(memory.turns),
                turns_before=memory.turns_before,
                summary=memory.summary,
            )
            answer = await self._answer(question, show)
        except BaseException:
            # Whatever ends the turn, the conversation goes on: what was shown is kept, marked.
            await asyncio.shield(self._store.finish(turn_id, _broken(shown), _state(_broken(shown))))
            raise
        try:
            await self._store.finish(turn_id, answer, _state(answer))
        finally:
            await reply.finish(answer)
        return answer


def _state(answer: Answer) -> TurnState:
    if answer.stand_in:
        return TurnState.FAILED
    return TurnState.ANSWERED if answer.complete else TurnState.INCOMPLETE


def _broken(shown: str) -> Answer:
    query = Query(text="", status=QueryStatus.FAILED, reason="stopped")
    return Answer(text=shown, query=query, complete=False, stand_in=not shown)
