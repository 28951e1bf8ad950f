"""One inbound message, one reply: admit, order, answer, remember, deliver; then condense what is long ago."""

from __future__ import annotations

import asyncio
import logging
from typing import Final
from weakref import WeakValueDictionary

from adapters.ports import AnswerTurn, ConversationStore, Inbound, Reply, ThreadKey, TurnState
from adapters.summaries import Summaries
from core.types import Answer, Query, QueryStatus, Question
from core.window import MAX_PAIRS, MIN_PAIRS

log = logging.getLogger(__name__)

STOPPED: Final = "stopped"
"""The reason of a query that is not known, since the question was stopped before its answer was whole."""


class _Lane:
    """The questions of one thread: one is answered, the others wait."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.questions = 0


class Dispatcher:
    """Turns inbound messages into replies, one at a time in a thread, threads side by side."""

    def __init__(
        self, store: ConversationStore, answer: AnswerTurn, most_turns: int, summaries: Summaries | None = None
    ) -> None:
        """A prompt may take `most_turns`; without `summaries`, older ones are forgotten to the model."""
        self._store = store
        self._answer = answer
        self._most_turns = most_turns
        self._summaries = summaries
        # Weak: the lane of a thread is gone when nobody is in it.
        self._lanes: WeakValueDictionary[ThreadKey, _Lane] = WeakValueDictionary()

    async def submit(self, inbound: Inbound, reply: Reply) -> Answer | None:
        """Answers `inbound` into `reply`; None, without a word, if the message is known already.

        The question is stored before any work, the answer before it is delivered. Cancelled half-way,
        the text so far is stored as incomplete. Raises `DataDirError` when the store cannot write.
        """
        lane = self._lanes.setdefault(inbound.thread, _Lane())
        lane.questions += 1
        try:
            async with lane.lock:
                turn_id = await self._store.ask(inbound)
                if turn_id is None:
                    return None
                answer, turns = await self._run(inbound, turn_id, reply)
        finally:
            lane.questions -= 1
        self._condense(inbound.thread, lane, turns, answer)
        return answer

    def _condense(self, thread: ThreadKey, lane: _Lane, turns: int, answer: Answer) -> None:
        """Lets the thread's older turns be condensed, unless the next question has the model's time already."""
        tight = answer.kept.turns_dropped > 0
        if self._summaries is not None and not lane.questions and turns >= (MIN_PAIRS if tight else MAX_PAIRS):
            self._summaries.start(thread, tight=tight)

    async def _run(self, inbound: Inbound, turn_id: int, reply: Reply) -> tuple[Answer, int]:
        """The answer, delivered, and the number of turns that stood before it, not summarized."""
        shown = ""

        async def show(text: str) -> None:
            nonlocal shown
            shown = text
            await reply.show(text)

        try:
            memory = await self._store.history(inbound.thread, turn_id, self._most_turns)
            question = Question(
                text=inbound.text,
                author=inbound.author,
                history=tuple(memory.turns),
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
        return answer, len(memory.turns)


def _state(answer: Answer) -> TurnState:
    if answer.stand_in:
        return TurnState.FAILED
    return TurnState.ANSWERED if answer.complete else TurnState.INCOMPLETE


def _broken(shown: str) -> Answer:
    query = Query(text="", status=QueryStatus.FAILED, reason=STOPPED)
    return Answer(text=shown, query=query, complete=False, stand_in=not shown)
