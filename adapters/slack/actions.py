"""What people do on Slack besides writing and pressing buttons: commands, shortcuts of messages.

Commands cannot be given in a thread and name none, so there they mean the thread in which their user asked last;
shortcuts mean the message that they were chosen at. Answers to both are seen by their user alone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, Protocol

from adapters import about_me
from adapters.inspection import context_lines, rewrite_lines, shortened
from adapters.markdown.mrkdwn import escaped
from adapters.ports import Inbound, Person, Readers, StoredTurn, ThreadKey, opener_of, platform_order
from adapters.slack.channel import PLATFORM, key_in
from adapters.slack.intake import Desk
from adapters.slack.names import Names
from adapters.slack.setup import SlackSetup
from adapters.slack.text import readable
from adapters.slack.web import Json, SlackWeb
from adapters.store.lookups import Found
from core.errors import ChannelBusy, ChannelGone
from core.sanitize import is_blank

SHOW_QUERY: Final = "threadwise_show_query"
RESET_HERE: Final = "threadwise_reset"
FORGET: Final = "threadwise_forget"
TITLE_CHARS: Final = 70

ASK_WHAT: Final = "Write your question after the command: `/ask How do I install it?`"
NOT_HERE: Final = "I cannot write in this channel. Invite me first, or ask me in a direct message."
NOT_NOW: Final = "Slack did not take it just now. Please try again in a minute."
NO_QUESTION: Final = "You have not asked me anything in this channel yet."
NO_SEARCH: Final = "I know of no question that belongs to this message."
NOTHING_HERE: Final = "There is no conversation of mine to forget here."
NOT_YOURS: Final = "Only the person whose question opened a thread can have it forgotten, or begin it afresh."
RESET: Final = "I start afresh in this thread: what was said before is not used any more."
FORGET_WHAT: Final = (
    "`/forget` removes your latest thread in this channel, `/forget me` what I remember of you, `/forget me 12` one "
    "of it by its number."
)
HELP: Final = """\
Mention me with a question in a channel, or write to me directly. In the thread of an answer you can ask on without it.
• `/ask question` asks in this channel, for all to see
• `/rewrite` shows what was searched for your latest question in this channel
• `/context` tells what the model was given for it: turns, notes, passages, tokens
• `/reset` lets me start afresh in your latest thread in this channel
• `/forget` removes your latest thread in this channel from my memory
• `/memory` shows to you alone what I remember of you, `/forget me` removes it, `/forget me 12` one of it by its number
• `/help` shows this
In a thread, open the menu of a message: _Show rewritten query_, _Start afresh_, _Forget this conversation_."""


class Lookups(Protocol):
    """What is known of the messages of a conversation."""

    async def turn_of(self, key: str) -> Found | None: ...

    async def latest_by(self, channel: ThreadKey, person: str) -> Found | None: ...

    async def rate(self, key: str, person: str, *, helpful: bool) -> bool: ...

    async def key_of(self, turn: int) -> str | None: ...


class Memory(Protocol):
    """The store."""

    @property
    def lookups(self) -> Lookups: ...

    async def turns(self, thread: ThreadKey) -> list[StoredTurn]: ...


class ForgetfulDesk(Desk, about_me.Rememberer, Protocol):
    """Takes questions, and forgets conversations and people."""

    async def forget(self, thread: ThreadKey) -> int: ...

    async def reset(self, thread: ThreadKey) -> None: ...


class Actions:
    """For one workspace. Each method returns what its user is told."""

    def __init__(
        self,
        setup: SlackSetup,
        web: SlackWeb,
        desk: ForgetfulDesk,
        memory: Memory,
        names: Names,
        *,
        team: str,
        me: str,
    ) -> None:
        self._setup, self._web, self._desk, self._memory, self._names = setup, web, desk, memory, names
        self._team, self._me = team, me

    async def command(self, command: Json) -> str:
        """One of the slash commands. Raises `ThreadwiseError` if nothing could be stored."""
        channel, user = str(command["channel_id"]), str(command["user_id"])
        match str(command["command"]).lstrip("/").removeprefix("threadwise-"):
            case "ask":
                return await self._ask(channel, user, str(command.get("text") or ""))
            case "rewrite":
                return await self._rewrite(channel, user)
            case "context":
                return await self._context(channel, user)
            case "forget":
                return await self._forget_something(channel, user, str(command.get("text") or "").strip())
            case "memory":
                return escaped("\n".join(await about_me.memory_lines(self._desk, self._person(user))))
            case "reset":
                found = await self._latest(channel, user)
                return await self._reset(found.thread, user) if found else NO_QUESTION
            case _:
                return HELP

    async def shortcut(self, shortcut: Json) -> str:
        """One of the shortcuts of a message."""
        message: Json = shortcut.get("message") or {}
        channel = str((shortcut.get("channel") or {}).get("id") or "")
        user = str((shortcut.get("user") or {}).get("id") or "")
        thread = self._key(channel, str(message.get("thread_ts") or message.get("ts") or ""))
        callback = shortcut.get("callback_id")
        if callback in (FORGET, RESET_HERE):
            return await (self._forget(thread, user) if callback == FORGET else self._reset(thread, user))
        turn = await self._turn_at(message, thread)
        return self.searched(turn) if turn else NO_SEARCH

    async def _ask(self, channel: str, user: str, text: str) -> str:
        question = await readable(text, self._me, self._names.user, self._names.channel)
        if is_blank(question):
            return ASK_WHAT
        if not channel.startswith("D") and not self._setup.answers_in(self._team, channel):
            return NOT_HERE
        name = await self._names.user(user)
        said = f"*{escaped(name)}* asks: {escaped(question)}"
        try:
            posted = await self._web.call(
                "chat.postMessage", channel=channel, text=said, unfurl_links=False, unfurl_media=False
            )
        except ChannelGone:
            return NOT_HERE
        except ChannelBusy:
            return NOT_NOW
        ts = str(posted["ts"])
        await self._desk.admit(
            Inbound(
                message_id=ts,
                thread=self._key(channel, ts),
                author_id=user,
                author=name,
                text=question,
                readers=Readers.ALONE if channel.startswith("D") else Readers.CHANNEL,
                sent_at=datetime.now(UTC),
                order=platform_order(ts),
            )
        )
        return ""

    async def _rewrite(self, channel: str, user: str) -> str:
        found = await self._latest(channel, user)
        if found is None:
            return NO_QUESTION
        name = _named(await self._memory.turns(found.thread))
        return f"In your thread {name}:\n{self.searched(found.turn)}"

    async def _context(self, channel: str, user: str) -> str:
        found = await self._latest(channel, user)
        if found is None:
            return NO_QUESTION
        turns = await self._memory.turns(found.thread)
        # Others may have asked in the thread since: what is shown is the asker's own.
        upto = [turn for turn in turns if turn.seq <= found.turn.seq]
        return f"In your thread {_named(turns)}:\n{_as_code(context_lines(upto))}"

    async def _latest(self, channel: str, user: str) -> Found | None:
        return await self._memory.lookups.latest_by(self._key(channel, ""), user)

    async def _forget_something(self, channel: str, user: str, what: str) -> str:
        if (told := await about_me.forget_as_told(self._desk, self._person(user), what)) is not None:
            return escaped(told)
        if what:
            return FORGET_WHAT
        found = await self._latest(channel, user)
        return await self._forget(found.thread, user) if found else NO_QUESTION

    async def _forget(self, thread: ThreadKey, user: str) -> str:
        turns = await self._memory.turns(thread)
        if not turns:
            return NOTHING_HERE
        if opener_of(turns) not in ("", user):
            return NOT_YOURS
        name = _named(turns)
        count = await self._desk.forget(thread)
        many = f"{count} question{'s' if count != 1 else ''}"
        return f"Removed {many} of the thread {name} from my memory for good. What stands on Slack stays there."

    async def _reset(self, thread: ThreadKey, user: str) -> str:
        turns = await self._memory.turns(thread)
        if not turns:
            return NOTHING_HERE
        if opener_of(turns) not in ("", user):
            return NOT_YOURS
        await self._desk.reset(thread)
        return RESET

    async def _turn_at(self, message: Json, thread: ThreadKey) -> StoredTurn | None:
        """The turn that a message asks or answers."""
        if key := key_in(message):
            found = await self.turn_of(key, thread.channel)
            return found.turn if found else None
        turns = await self._memory.turns(thread)
        return next((turn for turn in turns if turn.message_id == message.get("ts")), None)

    async def turn_of(self, key: str, channel: str) -> Found | None:
        """The turn that our messages with `key` answer, if it was asked in `channel`: what a message of another app
        names may be from a channel that is not for these eyes."""
        found = await self._memory.lookups.turn_of(key) if key else None
        return found if found and self.is_in(found.thread, channel) else None

    def is_in(self, thread: ThreadKey, channel: str) -> bool:
        """Whether a conversation is in a channel of this workspace."""
        return thread == self._key(channel, thread.thread)

    @staticmethod
    def searched(turn: StoredTurn) -> str:
        """What was searched for a question, and why, as mrkdwn."""
        return _as_code(rewrite_lines(turn))

    def _person(self, user: str) -> Person:
        return Person(platform=PLATFORM, workspace=self._team, id=user)

    def _key(self, channel: str, thread: str) -> ThreadKey:
        return ThreadKey(platform=PLATFORM, workspace=self._team, channel=channel, thread=thread)


def _as_code(lines: list[str]) -> str:
    text = "\n".join(lines).replace("```", "'''")
    return f"```\n{escaped(text)}\n```"


def _named(turns: list[StoredTurn]) -> str:
    return f"“{escaped(shortened(turns[0].typed, TITLE_CHARS))}”" if turns else "that is gone"
