"""Slash commands and the commands of a message's menu.

Each is acknowledged before anything else is done: Discord gives 3 s for that. What they show is for whoever asked
alone, but for `/ask`: it is acknowledged with the question itself as a message for all, which is found again if the
process dies before it is stored. The answers are ordinary messages in a thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, Final, Literal, ParamSpec

import aiohttp
import discord
from discord import app_commands

from adapters import about_me, inspection
from adapters.discord import asking, rendering
from adapters.discord.access import Access
from adapters.discord.delivery import PLATFORM
from adapters.discord.intake import ASK_SOMETHING, Intake
from adapters.discord.places import Place, is_one, is_private, key_in, person_in
from adapters.discord.reading import decoded
from adapters.dispatcher import Dispatcher
from adapters.markdown.splitting import split
from adapters.ports import StoredTurn, ThreadKey, again, opener_of
from adapters.store import SqlConversationStore
from core.errors import ThreadwiseError
from core.sanitize import is_blank

log = logging.getLogger(__name__)

P = ParamSpec("P")
Act = Callable[Concatenate[discord.Interaction, P], Coroutine[Any, Any, None]]

TROUBLE: Final = (discord.DiscordException, aiohttp.ClientError, OSError)
"""A request of ours that fails."""
NOT_HERE: Final = "Use this in a thread with me, or in a private chat: in a channel I cannot tell which one you mean."
NOT_ALLOWED: Final = "I may not answer you here. Ask whoever runs this server where I do."
NOT_YOURS: Final = "Only the person who opened this conversation, or somebody who may manage messages, can do that."
NOT_ASKED: Final = "That message is neither a question to me nor an answer of mine."
TOO_LONG: Final = (
    "Your question has too many special characters to be shown here. Ask it in a message that mentions me."
)
NO_TEXT: Final = "That message has no text that I could look up."
DELETED: Final = "That message was deleted meanwhile."
ASKED: Final = "Asked. The answer comes in the thread."
UNFORTUNATE: Final = "That did not work just now. Please try again in a minute."
RESET: Final = "From here on I start afresh: earlier messages of this thread are no longer taken into account."
ELSEWHERE: Final = (
    " What you said elsewhere on Discord stays ({}): `/forget` in a private chat with me removes all of it."
)
NO_SOURCES: Final = "The last answer cites no source."
HELP: Final = """\
**Ask** by mentioning me in a channel: I open a thread. In my threads and in private, just write.
`/ask` asks without a mention · **Stop** under an answer ends it
`/rewrite` shows what was searched for the last question of a thread, and why
`/sources` lists the sources of the last answer · `/context` tells what the model was given
`/reset` starts afresh in this thread · `/forget` removes the conversation from my memory for good
`/memory` shows to you alone what I remember of you · `/forget` with *what: me* removes it, with *fact* one of it
In the menu of a message (Apps): *Ask about this*, *Show rewritten query*
I keep out of a thread when people talk to each other, and after "solved". Mention me to go on."""


def acknowledged(act: Act[P]) -> Act[P]:
    """`act`, after the interaction was acknowledged; what goes wrong in it is said or logged, never raised."""

    @wraps(act)
    async def run(interaction: discord.Interaction, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            await interaction.response.defer(ephemeral=True, thinking=True)
            try:
                await act(interaction, *args, **kwargs)
            except ThreadwiseError as error:
                log.warning("A command failed: %s", error)
                await say(interaction, UNFORTUNATE)
        except TROUBLE as error:
            # Too late, or its token has ended: nobody is waiting for it any more.
            log.info("A command could not be answered: %s", type(error).__name__)

    return run


async def say(interaction: discord.Interaction, text: str, buttons: discord.ui.View | None = None) -> None:
    """The answer to an interaction that was acknowledged."""
    await interaction.edit_original_response(
        content=rendering.safe(text)[: rendering.LIMIT] or "…",
        view=buttons,
        allowed_mentions=discord.AllowedMentions.none(),
    )


async def say_all(interaction: discord.Interaction, lines: Sequence[str]) -> None:
    """The answer to an interaction that was acknowledged, in as many messages as it takes; for the same eyes."""
    first, *others = split("\n".join(map(rendering.safe, lines)), rendering.LIMIT)
    await say(interaction, first)
    for text in others:
        await interaction.followup.send(text, ephemeral=True, allowed_mentions=discord.AllowedMentions.none())


class Commands:
    """What the commands do."""

    def __init__(self, access: Access, intake: Intake, dispatcher: Dispatcher, store: SqlConversationStore) -> None:
        self._access, self._intake, self._dispatcher, self._store = access, intake, dispatcher, store

    def register(self, client: discord.Client) -> app_commands.CommandTree:
        """The commands of `client`; Discord is told of them by `sync`."""
        tree = app_commands.CommandTree(client)

        @tree.command(description="Ask something about the documents")
        @app_commands.describe(question="Your question")
        async def ask(interaction: discord.Interaction, question: app_commands.Range[str, 1, 1500]) -> None:
            await self._asked(interaction, question)

        @tree.command(description="Remove this conversation, or what I remember of you, for good")
        @app_commands.describe(what="What to remove", fact="Only this one of what /memory shows, by its number")
        async def forget(
            interaction: discord.Interaction,
            what: Literal["this conversation", "me"] = "this conversation",
            fact: app_commands.Range[int, 1, about_me.LARGEST] | None = None,
        ) -> None:
            if fact is not None or what == about_me.ME:
                await acknowledged(self._forget_me)(interaction, fact)
            else:
                await acknowledged(self._forget_thread)(interaction)

        for name, act, about in (
            ("rewrite", self._rewrite, "What was searched for the last question of this thread, and why"),
            ("sources", self._sources, "The sources of the last answer in this thread"),
            ("context", self._context, "What the model was given for the last question of this thread"),
            ("reset", self._reset, "Start afresh in this thread"),
            ("memory", self._memory, "What I remember of you, for your eyes alone"),
            ("help", self._help, "How to ask, and what else I can do"),
        ):
            tree.add_command(_command(name, about, acknowledged(act)))
        tree.add_command(_menu("Show rewritten query", acknowledged(self._rewrite_of)))
        tree.add_command(_menu("Ask about this", acknowledged(self._ask_about)))
        return tree

    # ---------------------------------------------------------------------------------------------- asking

    async def _asked(self, interaction: discord.Interaction, question: str) -> None:
        question = asking.cleaned(question)
        shown = asking.shown(interaction.user.display_name, question)
        if not self._access.open_to(interaction):
            await acknowledged(say)(interaction, NOT_ALLOWED)
        elif is_blank(question):
            await acknowledged(say)(interaction, ASK_SOMETHING)
        elif shown is None:
            await acknowledged(say)(interaction, TOO_LONG)
        else:
            await self._ask(interaction, question, shown)

    async def _ask(self, interaction: discord.Interaction, question: str, shown: str) -> None:
        place = place_of(interaction)
        try:
            message = await _shown(interaction, shown)
            if message is None:
                log.info("A question by command was acknowledged too late")
                return
            if not await self._access.may_ask(interaction.user, place, interaction.client):
                await say(interaction, NOT_ALLOWED)
                return
        except TROUBLE as error:
            # It may be there all the same.
            log.warning("A question by command is looked for again: %s", type(error).__name__)
            self._intake.missed.set()
            return
        await self._intake.asked(message, place, interaction.user, question, at=interaction.created_at)

    async def _ask_about(self, interaction: discord.Interaction, message: discord.Message) -> None:
        place = place_of(interaction)
        us = interaction.client.user
        text = asking.question_in(message, us) or (decoded(message.content, message, us) if us is not None else "")
        if not await self._access.may_ask(interaction.user, place, interaction.client):
            await say(interaction, NOT_ALLOWED)
        elif not text:
            await say(interaction, NO_TEXT)
        else:
            taken = await self._intake.submit(
                again(str(interaction.id), str(message.id)),
                key_in(place, message.id),
                interaction.user,
                text,
                at=interaction.created_at,
            )
            await say(interaction, ASKED if taken else DELETED)

    # --------------------------------------------------------------------------------------------- looking

    async def _rewrite(self, interaction: discord.Interaction) -> None:
        if (turn := await self._last_turn(interaction)) is not None:
            await self.show_query(interaction, turn)

    async def _rewrite_of(self, interaction: discord.Interaction, message: discord.Message) -> None:
        found = await self._store.lookups.turn_around(PLATFORM, f"{message.channel.id}/{message.id}", str(message.id))
        if found is None:
            await say(interaction, NOT_ASKED)
        else:
            await self.show_query(interaction, found.turn)

    async def show_query(self, interaction: discord.Interaction, turn: StoredTurn) -> None:
        """What was searched, with a way back to the words as they were typed."""
        key = await self._store.lookups.key_of(turn.id)
        differs = key is not None and turn.searched and turn.searched != turn.typed
        await say(
            interaction,
            "\n".join(inspection.rewrite_lines(turn)),
            rendering.view(("exact",), key) if differs and key is not None else None,
        )

    async def _sources(self, interaction: discord.Interaction) -> None:
        if (turn := await self._last_turn(interaction)) is not None:
            await say(interaction, "\n".join(rendering.sources(turn.citations)) or NO_SOURCES)

    async def _context(self, interaction: discord.Interaction) -> None:
        if (thread := await self._thread(interaction)) is not None:
            await say(interaction, "\n".join(inspection.context_lines(await self._store.turns(thread))))

    async def _help(self, interaction: discord.Interaction) -> None:
        await say(interaction, HELP)

    # ------------------------------------------------------------------------------------------- forgetting

    async def _reset(self, interaction: discord.Interaction) -> None:
        if (thread := await self._own(interaction)) is not None:
            await self._dispatcher.reset(thread)
            await say(interaction, RESET)

    async def _memory(self, interaction: discord.Interaction) -> None:
        person = person_in(place_of(interaction), interaction.user)
        await say_all(interaction, await about_me.memory_lines(self._dispatcher, person))

    async def _forget_me(self, interaction: discord.Interaction, fact: int | None) -> None:
        person = person_in(place_of(interaction), interaction.user)
        told = await about_me.forget_me(self._dispatcher, person, fact)
        if fact is None and person.workspace is not None:
            elsewhere = len(await self._dispatcher.facts_about(replace(person, workspace=None)))
            told += ELSEWHERE.format(elsewhere) if elsewhere else ""
        await say(interaction, told)

    async def _forget_thread(self, interaction: discord.Interaction) -> None:
        if (thread := await self._own(interaction)) is not None:
            turns = await self._dispatcher.forget(thread)
            await say(
                interaction,
                f"Forgotten for good: {turns} question{'s' if turns != 1 else ''} with their answers. The messages "
                "that you see here are Discord's; delete them yourself if they are to go as well.",
            )

    # ---------------------------------------------------------------------------------------------- threads

    async def _thread(self, interaction: discord.Interaction) -> ThreadKey | None:
        place = place_of(interaction)
        if is_one(place):
            return key_in(place, place.id)
        await say(interaction, NOT_HERE)
        return None

    async def _last_turn(self, interaction: discord.Interaction) -> StoredTurn | None:
        thread = await self._thread(interaction)
        turn = await self._store.last_turn(thread) if thread is not None else None
        if thread is not None and turn is None:
            await say(interaction, inspection.NOTHING_ASKED)
        return turn

    async def _own(self, interaction: discord.Interaction) -> ThreadKey | None:
        """The thread, if whoever asks may decide over it."""
        thread = await self._thread(interaction)
        if thread is None or is_private(place_of(interaction)) or interaction.permissions.manage_messages:
            return thread
        if opener_of(await self._store.turns(thread)) not in ("", str(interaction.user.id)):
            await say(interaction, NOT_YOURS)
            return None
        return thread


def place_of(interaction: discord.Interaction) -> Place:
    """Where it was done."""
    assert interaction.channel is not None
    return interaction.channel  # type: ignore[return-value]  # forums and categories take no commands


async def _shown(interaction: discord.Interaction, text: str) -> int | None:
    """Acknowledges with a message for all; its id, None if it was too late. It is an ordinary message, which an answer
    may refer to when the interaction has long ended."""
    try:
        told = await interaction.response.send_message(
            text, allowed_mentions=discord.AllowedMentions.none(), suppress_embeds=True
        )
        if told.message_id is not None:
            return told.message_id
    except discord.NotFound:
        return None
    except TROUBLE as error:
        # The reply may be what was lost.
        log.info("Not known whether a question is shown: %s", type(error).__name__)
    return (await interaction.original_response()).id


def _command(name: str, about: str, act: Act[[]]) -> app_commands.Command[Any, ..., None]:
    async def callback(interaction: discord.Interaction) -> None:
        await act(interaction)

    return app_commands.Command(name=name, description=about, callback=callback)


def _menu(name: str, act: Act[[discord.Message]]) -> app_commands.ContextMenu:
    async def callback(interaction: discord.Interaction, message: discord.Message) -> None:
        await act(interaction, message)

    return app_commands.ContextMenu(name=name, callback=callback)
