"""Slack's events about messages, as one of three things that people do: post, edit, delete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]

_TOLD_BY_PEOPLE: Final = (None, "file_share", "thread_broadcast", "me_message")
"""Subtypes of messages that somebody typed."""
_SLACKBOT: Final = "USLACKBOT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A message of a person, as Slack has it."""

    channel: str
    ts: str
    thread: str
    """The `ts` of the message that its thread is under; its own if it is in none."""
    user: str
    text: str
    """In Slack's own writing."""
    direct: bool
    """In a direct message to the bot."""
    files: tuple[Json, ...] = ()

    @property
    def in_thread(self) -> bool:
        return self.thread != self.ts


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """A message of a person that reads otherwise now."""

    message: Said


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A message of a person that was deleted."""

    channel: str
    ts: str
    thread: str


def what_happened(event: Json, me: str) -> Said | Rewritten | Gone | None:
    """What `event` tells of people's messages; None if nothing: bots, ourselves, joins, previews of links."""
    subtype, channel = event.get("subtype"), str(event.get("channel") or "")
    if subtype == "message_deleted":
        return _gone(event.get("previous_message") or {}, channel, str(event.get("deleted_ts") or ""), me)
    if subtype == "message_changed":
        message: Json = event.get("message") or {}
        if message.get("subtype") == "tombstone":
            # What is left of a message whose thread goes on.
            return _gone(event.get("previous_message") or {}, channel, str(message.get("ts") or ""), me)
        before: Json = event.get("previous_message") or {}
        if before and all(before.get(name) == message.get(name) for name in ("text", "files")):
            return None  # A preview of a link was added, or the first reply.
        said = _said(message, channel, event.get("channel_type") == "im", me)
        return Rewritten(message=said) if said else None
    if event.get("hidden"):
        return None
    said = _said(event, channel, event.get("channel_type") == "im", me)
    if said and event.get("edited"):
        # A mention that was edited comes as one that is new.
        return Rewritten(message=said)
    return said


def _said(message: Json, channel: str, direct: bool, me: str) -> Said | None:
    user, ts = message.get("user"), message.get("ts")
    if not (user and ts and channel) or not _by_a_person(message, me) or not isinstance(message.get("text"), str):
        return None
    return Said(
        channel=channel,
        ts=str(ts),
        thread=str(message.get("thread_ts") or ts),
        user=str(user),
        text=message["text"],
        direct=direct,
        files=tuple(message.get("files") or ()),
    )


def _by_a_person(message: Json, me: str) -> bool:
    automatic = message.get("bot_id") or message.get("user") in (me, _SLACKBOT)
    return not automatic and message.get("subtype") in _TOLD_BY_PEOPLE


def _gone(before: Json, channel: str, ts: str, me: str) -> Gone | None:
    if not (ts and channel) or before.get("bot_id") or before.get("user") == me:
        return None
    return Gone(channel=channel, ts=ts, thread=str(before.get("thread_ts") or ts))
