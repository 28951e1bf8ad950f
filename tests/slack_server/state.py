"""What a workspace holds: people, channels, messages."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from tests.slack_server.faults import ApiError, Json

TEAM: Final = "T1"
APP: Final = "A0QUILL"
BOT_USER: Final = "U0QUILL"
BOT: Final = "B0QUILL"
ASKER: Final = "U0ASKER"
SECOND: Final = "U0SECOND"
OTHER_BOT: Final = "B0OTHER"


@dataclass
class Place:
    """A channel or a direct message."""

    id: str
    name: str
    kind: str = "channel"
    """As in events: channel, group, im, mpim."""
    archived: bool = False
    member: bool = True
    """Whether the bot is in it."""
    messages: dict[str, Json] = field(default_factory=dict)
    """By `ts`, oldest first."""

    def as_json(self) -> Json:
        private = self.kind in ("group", "im", "mpim")
        return {
            "id": self.id,
            "name": self.name,
            "is_channel": self.kind == "channel",
            "is_group": self.kind == "group",
            "is_im": self.kind == "im",
            "is_mpim": self.kind == "mpim",
            "is_private": private,
            "is_archived": self.archived,
            "is_member": self.member,
        }


class Workspace:
    """See the module. Everything may be changed while the server runs."""

    def __init__(self, team: str = TEAM) -> None:
        self.team = team
        self.names = {BOT_USER: "Quill", ASKER: "Asker", SECOND: "Second"}
        places = Place("C1", "general"), Place("C2", "ops"), Place("G1", "board", "group"), Place("D1", "", "im")
        self.places = {place.id: place for place in places}
        self.files: dict[str, tuple[bytes, str]] = {}
        """Data and type, by name."""
        self._last = 0

    def new_ts(self) -> str:
        """The name of a new message: unique, and larger than all before."""
        self._last = max(self._last + 1, time.time_ns() // 1000)
        return f"{self._last // 10**6}.{self._last % 10**6:06}"

    def place(self, channel: str) -> Place:
        """Where the bot may write. Raises `ApiError`."""
        place = self.places.get(channel)
        if place is None:
            raise ApiError("channel_not_found")
        if not place.member:
            raise ApiError("not_in_channel")
        return place

    def message(self, channel: str, ts: str, missing: str = "message_not_found") -> Json:
        """Raises `ApiError` if there is no such message."""
        found = self.place(channel).messages.get(ts)
        if found is None:
            raise ApiError(missing)
        return found

    def add(self, channel: str, thread: str | None = None, **fields: object) -> Json:
        """A new message."""
        ts = self.new_ts()
        message: Json = {"type": "message", "ts": ts, **fields}
        if thread is not None:
            message["thread_ts"] = thread
            if root := self.places[channel].messages.get(thread):
                root.setdefault("thread_ts", thread)
                root["reply_count"] = root.get("reply_count", 0) + 1
                root["latest_reply"] = ts
        self.places[channel].messages[ts] = message
        return message

    def remove(self, channel: str, ts: str) -> Json:
        """Deletes a message; what it was."""
        return self.places[channel].messages.pop(ts)

    def thread(self, channel: str, ts: str) -> list[Json]:
        """A message and the replies to it, oldest first."""
        messages = self.places[channel].messages.values()
        return [message for message in messages if message["ts"] == ts or message.get("thread_ts") == ts]
