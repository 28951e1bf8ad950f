"""What people say on Slack -> questions for the dispatcher, stored before this returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Protocol

from adapters.jobs import Admitted, Edited
from adapters.ports import Inbound, ThreadKey, platform_order
from adapters.slack.channel import PLATFORM
from adapters.slack.events import Gone, Json, Rewritten, Said, what_happened
from adapters.slack.names import Names
from adapters.slack.text import mentioned, readable

Owns = Callable[[ThreadKey], Awaitable[bool]]
"""Whether something was asked in a thread before."""


class Desk(Protocol):
    """Takes questions: the dispatcher."""

    async def admit(self, inbound: Inbound) -> Admitted | None: ...

    async def edited(self, inbound: Inbound) -> Edited: ...

    async def deleted(self, thread: ThreadKey, message_id: str) -> None: ...


class Intake:
    """For one workspace. The event may be acknowledged when a call returns, and must not be when it raises."""

    def __init__(self, desk: Desk, names: Names, owns: Owns, *, team: str, me: str) -> None:
        self._desk, self._names, self._owns, self._team, self._me = desk, names, owns, team, me

    async def hear(self, event: Json) -> None:
        """An event about a message. Raises `ThreadwiseError` if it could not be stored."""
        match what_happened(event, self._me):
            case Said() as said:
                if await self._is_addressed(said):
                    await self._desk.admit(await self._inbound(said))
            case Rewritten(message=said):
                await self._desk.edited(await self._inbound(said))
            case Gone() as gone:
                await self._desk.deleted(self._key(gone.channel, gone.thread), gone.ts)

    async def _is_addressed(self, said: Said) -> bool:
        people = mentioned(said.text)
        if said.direct or self._me in people:
            return True
        # A message that names only somebody else is for them.
        return said.in_thread and not people and await self._owns(self._key(said.channel, said.thread))

    async def _inbound(self, said: Said) -> Inbound:
        return Inbound(
            message_id=said.ts,
            thread=self._key(said.channel, said.thread),
            author_id=said.user,
            author=await self._names.user(said.user),
            text=await readable(said.text, self._me, self._names.user, self._names.channel),
            sent_at=datetime.fromtimestamp(float(said.ts), UTC),
            order=platform_order(said.ts),
        )

    def _key(self, channel: str, thread: str) -> ThreadKey:
        return ThreadKey(platform=PLATFORM, workspace=self._team, channel=channel, thread=thread)
