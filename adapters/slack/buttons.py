"""The buttons of our messages. Which question is meant is in their message, so they work after a restart too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol

from adapters.jobs import Admitted, Job
from adapters.ports import Inbound, Readers, again, platform_order
from adapters.slack import rendering
from adapters.slack.actions import Actions, Memory
from adapters.slack.channel import key_in
from adapters.slack.names import Names
from adapters.slack.setup import SlackSetup
from adapters.slack.web import Json
from adapters.slack.whisper import Whisper
from core.errors import ThreadwiseError

THANKS = "Thank you, noted."
GONE = "I do not remember this question any more: it was deleted or forgotten."
ASKED = "The answer is on its way."
STOPPED = "Stopped."
OVER = "It has ended already."
NOT_YOURS = "Only whoever asked can stop this."
NOT_TAKEN = "It could not be taken just now. Please try again in a minute."


class Jobs(Protocol):
    """The dispatcher."""

    async def admit(self, inbound: Inbound) -> Admitted | None: ...

    def job_of(self, key: str) -> Job | None: ...

    def stop(self, job: int) -> None: ...


class Buttons:
    """For one workspace."""

    def __init__(
        self, setup: SlackSetup, jobs: Jobs, memory: Memory, names: Names, actions: Actions, whisper: Whisper
    ) -> None:
        self._setup, self._jobs, self._memory = setup, jobs, memory
        self._names, self._actions, self._whisper = names, actions, whisper
        self._acts: dict[str, Callable[[Json, str], Awaitable[str]]] = {
            rendering.FEEDBACK: self._rated,
            rendering.QUERY: self._query,
            rendering.TRY_AGAIN: self._again,
            rendering.EXACT: self._exact,
            rendering.STOP: self._stop,
        }

    async def pressed(self, body: Json) -> None:
        """One of our buttons; who pressed it is told what came of it."""
        action: Json = body["actions"][0]
        # A message that one person alone sees comes without its blocks: there the key is the value.
        key = key_in(body.get("message") or {}) or str(action.get("value") or "")
        if text := await self._acts[str(action["action_id"])](body, key):
            await self._tell(body, text)

    async def _tell(self, body: Json, text: str, *blocks: Json) -> None:
        message: Json = body.get("message") or body.get("container") or {}
        await self._whisper.tell(_channel(body), _user(body), text, str(message.get("thread_ts") or ""), blocks)

    async def _rated(self, body: Json, key: str) -> str:
        helpful = body["actions"][0].get("value") == rendering.HELPFUL
        if await self._actions.turn_of(key, _channel(body)) is None:
            return GONE
        kept = await self._memory.lookups.rate(key, _user(body), helpful=helpful)
        return THANKS if kept else GONE

    async def _query(self, body: Json, key: str) -> str:
        found = await self._actions.turn_of(key, _channel(body))
        if found is None:
            return GONE
        text = self._actions.searched(found.turn)
        if found.turn.searched in ("", found.turn.typed):
            return text
        exact = rendering.buttons(("Search my exact words", rendering.EXACT), value=key)
        await self._tell(body, text, rendering.section(text), exact)
        return ""

    async def _again(self, body: Json, key: str) -> str:
        return await self._answer_again(body, key, exact=False)

    async def _exact(self, body: Json, key: str) -> str:
        return await self._answer_again(body, key, exact=True)

    async def _answer_again(self, body: Json, key: str, *, exact: bool) -> str:
        found = await self._actions.turn_of(key, _channel(body))
        if found is None:
            return GONE
        pressed = str(body["actions"][0]["action_ts"])
        inbound = Inbound(
            message_id=again(pressed, found.turn.message_id),
            thread=found.thread,
            author_id=_user(body),
            author=await self._names.user(_user(body)),
            text=found.turn.typed,
            sent_at=datetime.now(UTC),
            exact=exact,
            readers=found.turn.readers if found.turn.author_id == _user(body) else Readers.UNKNOWN,
            order=platform_order(pressed),
        )
        try:
            await self._jobs.admit(inbound)
        except ThreadwiseError:
            return NOT_TAKEN
        return ASKED

    async def _stop(self, body: Json, key: str) -> str:
        job = self._jobs.job_of(key)
        if job is None or not self._actions.is_in(job.thread, _channel(body)):
            return OVER
        if _user(body) != job.asker and not self._setup.is_staff(job.thread.workspace, _user(body)):
            return NOT_YOURS
        self._jobs.stop(job.id)
        return STOPPED


def _channel(body: Json) -> str:
    return str(body["channel"]["id"])


def _user(body: Json) -> str:
    return str(body["user"]["id"])
