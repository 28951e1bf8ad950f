"""The buttons under our messages. What is meant is in their ids, so they work after a restart too."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

import discord

from adapters.discord import rendering
from adapters.discord.access import Access
from adapters.discord.commands import ASKED, NOT_ALLOWED, Commands, acknowledged, place_of, say
from adapters.discord.intake import Intake
from adapters.dispatcher import Dispatcher
from adapters.ports import Readers, again
from adapters.store import SqlConversationStore

GONE: Final = "I do not remember this question any more: it was deleted or forgotten."
THANKS: Final = "Thank you, noted."
STOPPED: Final = "Stopped."
OVER: Final = "It has ended already."
NOT_YOURS: Final = "Only whoever asked, or somebody who may manage messages, can stop this."


class Buttons:
    """What they do."""

    def __init__(
        self,
        access: Access,
        intake: Intake,
        dispatcher: Dispatcher,
        store: SqlConversationStore,
        commands: Commands,
    ) -> None:
        self._access, self._intake, self._dispatcher = access, intake, dispatcher
        self._store, self._commands = store, commands
        self._acts: dict[str, Callable[[discord.Interaction, str], Coroutine[Any, Any, None]]] = {
            "yes": self._helpful,
            "no": self._not_helpful,
            "query": self._query,
            "again": self._again,
            "exact": self._exact,
            "stop": self._stop,
        }

    async def pressed(self, interaction: discord.Interaction) -> None:
        """A component was used; those of others are left alone."""
        prefix, _, rest = str(dict(interaction.data or {}).get("custom_id", "")).partition(":")
        name, _, key = rest.partition(":")
        if prefix == rendering.PREFIX and name in self._acts:
            await acknowledged(self._acts[name])(interaction, key)

    async def _helpful(self, interaction: discord.Interaction, key: str) -> None:
        await self._rate(interaction, key, helpful=True)

    async def _not_helpful(self, interaction: discord.Interaction, key: str) -> None:
        await self._rate(interaction, key, helpful=False)

    async def _rate(self, interaction: discord.Interaction, key: str, *, helpful: bool) -> None:
        kept = await self._store.lookups.rate(key, str(interaction.user.id), helpful=helpful)
        await say(interaction, THANKS if kept else GONE)

    async def _query(self, interaction: discord.Interaction, key: str) -> None:
        found = await self._store.lookups.turn_of(key)
        if found is None:
            await say(interaction, GONE)
        else:
            await self._commands.show_query(interaction, found.turn)

    async def _again(self, interaction: discord.Interaction, key: str) -> None:
        await self._answer_again(interaction, key, exact=False)

    async def _exact(self, interaction: discord.Interaction, key: str) -> None:
        await self._answer_again(interaction, key, exact=True)

    async def _answer_again(self, interaction: discord.Interaction, key: str, *, exact: bool) -> None:
        found = await self._store.lookups.turn_of(key)
        if found is None:
            await say(interaction, GONE)
        elif not await self._access.may_ask(interaction.user, place_of(interaction), interaction.client):
            await say(interaction, NOT_ALLOWED)
        else:
            own = found.turn.author_id == str(interaction.user.id)
            taken = await self._intake.submit(
                again(str(interaction.id), found.turn.message_id),
                found.thread,
                interaction.user,
                found.turn.typed,
                at=interaction.created_at,
                exact=exact,
                readers=found.turn.readers if own else Readers.UNKNOWN,
            )
            await say(interaction, ASKED if taken else GONE)

    async def _stop(self, interaction: discord.Interaction, key: str) -> None:
        job = self._dispatcher.job_of(key)
        if job is None:
            await say(interaction, OVER)
        elif job.asker == str(interaction.user.id) or interaction.permissions.manage_messages:
            self._dispatcher.stop(job.id)
            await say(interaction, STOPPED)
        else:
            await say(interaction, NOT_YOURS)
