"""What exists on the server: people, channels, messages, as the JSON that Discord sends."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

Json = dict[str, Any]

EPOCH_MS: Final = 1_420_070_400_000
BOT: Final = 9000
OTHER_BOT: Final = 9100
ASKER: Final = 101
SECOND: Final = 102
THIRD: Final = 103
GUILD: Final = 1 << 22
"""Of two shards it is on the second one, and private messages are on the first."""
GENERAL: Final = 50
FORUM: Final = 60
NEWS: Final = 70
CREW: Final = 44
BOT_ROLE: Final = 45
SOLVED_TAG: Final = 61

TEXT_TYPE: Final = 0
DM_TYPE: Final = 1
NEWS_TYPE: Final = 5
NEWS_THREAD_TYPE: Final = 10
THREAD_TYPE: Final = 11
FORUM_TYPE: Final = 15
THREAD_TYPES: Final = (NEWS_THREAD_TYPE, THREAD_TYPE, 12)

ALL_PERMISSIONS: Final = str((1 << 50) - 1)
EPHEMERAL: Final = 64


def now_ms() -> int:
    return int(time.time() * 1000)


def when(snowflake: int) -> str:
    """The moment that an id tells, in ISO 8601."""
    moment = datetime.fromtimestamp(((snowflake >> 22) + EPOCH_MS) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds")


@dataclass
class World:
    """Everything by id. Payloads may be changed by a test at any time."""

    users: dict[int, Json] = field(default_factory=dict)
    members: dict[int, Json] = field(default_factory=dict)
    channels: dict[int, Json] = field(default_factory=dict)
    messages: dict[int, dict[int, Json]] = field(default_factory=dict)
    """By channel; in the order of posting."""
    roles: list[Json] = field(default_factory=list)
    denied: dict[int, set[str]] = field(default_factory=dict)
    """By channel, what the bot may not do: "view", "send", "create_thread"."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Attachments by path."""
    _last: int = 0

    def new_id(self, at_ms: int | None = None) -> int:
        """A snowflake, above all earlier ones unless `at_ms` lies back."""
        made = ((at_ms or now_ms()) - EPOCH_MS) << 22
        if at_ms is None:
            made = max(made, self._last + 1)
            self._last = made
        else:
            made += len(self.users) + sum(map(len, self.messages.values()))
        return made

    def add_user(self, id_: int, name: str, *, bot: bool = False, roles: tuple[int, ...] = ()) -> Json:
        user = {
            "id": str(id_),
            "username": name.lower(),
            "global_name": name,
            "discriminator": "0",
            "avatar": None,
            "bot": bot,
        }
        self.users[id_] = user
        self.members[id_] = {
            "user": user,
            "nick": None,
            "roles": [str(role) for role in roles],
            "joined_at": "2024-01-01T00:00:00+00:00",
            "deaf": False,
            "mute": False,
            "flags": 0,
        }
        return user

    def add_channel(self, id_: int, name: str, type_: int = TEXT_TYPE, **more: Any) -> Json:
        channel = {
            "id": str(id_),
            "type": type_,
            "guild_id": str(GUILD),
            "name": name,
            "position": len(self.channels),
            "permission_overwrites": [],
            "parent_id": None,
            "topic": None,
            "nsfw": False,
            "rate_limit_per_user": 0,
            "last_message_id": None,
            "flags": 0,
        } | more
        self.channels[id_] = channel
        self.messages.setdefault(id_, {})
        return channel

    def add_dm(self, id_: int, user: int) -> Json:
        channel = {
            "id": str(id_),
            "type": DM_TYPE,
            "last_message_id": None,
            "recipients": [self.users[user]],
            "flags": 0,
        }
        self.channels[id_] = channel
        self.messages.setdefault(id_, {})
        return channel

    def add_thread(self, id_: int, parent: int, name: str, owner: int, **more: Any) -> Json:
        kind = NEWS_THREAD_TYPE if self.channels[parent]["type"] == NEWS_TYPE else THREAD_TYPE
        thread = {
            "id": str(id_),
            "guild_id": str(GUILD),
            "parent_id": str(parent),
            "owner_id": str(owner),
            "type": kind,
            "name": name,
            "last_message_id": None,
            "message_count": 0,
            "member_count": 1,
            "rate_limit_per_user": 0,
            "applied_tags": [],
            "flags": 0,
            "thread_metadata": {
                "archived": False,
                "auto_archive_duration": 1440,
                "archive_timestamp": when(self.new_id()),
                "locked": False,
            },
        } | more
        self.channels[id_] = thread
        self.messages.setdefault(id_, {})
        starter = self.messages[parent].get(id_)
        if starter is not None:
            starter["thread"] = thread
        return thread

    def add_message(
        self, channel: int, author: int, content: str, *, id_: int | None = None, type_: int = 0, **more: Any
    ) -> Json:
        id_ = id_ or self.new_id()
        message: Json = {
            "id": str(id_),
            "type": type_,
            "channel_id": str(channel),
            "author": self.users[author],
            "content": content,
            "timestamp": when(id_),
            "edited_timestamp": None,
            "tts": False,
            "mention_everyone": "@everyone" in content or "@here" in content,
            "mentions": [user for user_id, user in self.users.items() if _mentions(content, user_id)],
            "mention_roles": [role["id"] for role in self.roles if f"<@&{role['id']}>" in content],
            "attachments": [],
            "embeds": [],
            "pinned": False,
            "components": [],
            "flags": 0,
        }
        reference = more.pop("reply_to", None)
        if reference is not None:
            message["type"] = 19 if type_ == 0 else type_
            message["message_reference"] = {"type": 0, "channel_id": str(channel), "message_id": str(reference)}
            if self.channels[channel].get("guild_id"):
                message["message_reference"]["guild_id"] = str(GUILD)
            message["referenced_message"] = self.messages[channel].get(int(reference))
        message |= more
        self.messages[channel][id_] = message
        self.channels[channel]["last_message_id"] = str(id_)
        return message

    def is_thread(self, channel: int) -> bool:
        return channel in self.channels and self.channels[channel]["type"] in THREAD_TYPES

    def threads(self) -> list[Json]:
        return [self.channels[id_] for id_ in self.channels if self.is_thread(id_)]

    def guild(self) -> Json:
        """What GUILD_CREATE says."""
        plain = [channel for channel in self.channels.values() if channel.get("guild_id")]
        return {
            "id": str(GUILD),
            "name": "Works",
            "owner_id": str(THIRD),
            "roles": self.roles,
            "emojis": [],
            "features": [],
            "members": [self.members[BOT]],
            "member_count": len(self.members),
            "channels": [channel for channel in plain if channel["type"] not in THREAD_TYPES],
            "threads": [thread for thread in self.threads() if not thread["thread_metadata"]["archived"]],
            "presences": [],
            "voice_states": [],
            "guild_scheduled_events": [],
            "stage_instances": [],
            "stickers": [],
            "large": False,
            "unavailable": False,
            "premium_tier": 0,
            "preferred_locale": "en-US",
            "joined_at": "2024-01-01T00:00:00+00:00",
        }


def _mentions(content: str, user: int) -> bool:
    return f"<@{user}>" in content or f"<@!{user}>" in content


def role(id_: int, name: str, permissions: str = ALL_PERMISSIONS, **more: Any) -> Json:
    return {
        "id": str(id_),
        "name": name,
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "position": 1,
        "permissions": permissions,
        "managed": False,
        "mentionable": True,
        "flags": 0,
    } | more


def cast() -> World:
    """The people and places of the cases: Quill, Asker, Second, Third, Otherbot, #general, a forum, announcements."""
    world = World()
    world.roles = [
        role(GUILD, "@everyone"),
        role(CREW, "crew"),
        role(BOT_ROLE, "Quill", managed=True, tags={"bot_id": str(BOT)}),
    ]
    world.add_user(BOT, "Quill", bot=True, roles=(BOT_ROLE,))
    world.add_user(OTHER_BOT, "Otherbot", bot=True)
    for id_, name in ((ASKER, "Asker"), (SECOND, "Second"), (THIRD, "Third")):
        world.add_user(id_, name)
    world.add_channel(GENERAL, "general")
    world.add_channel(
        FORUM,
        "questions",
        FORUM_TYPE,
        available_tags=[
            {"id": str(SOLVED_TAG), "name": "Solved", "moderated": False, "emoji_id": None, "emoji_name": None}
        ],
    )
    world.add_channel(NEWS, "news", NEWS_TYPE)
    return world
