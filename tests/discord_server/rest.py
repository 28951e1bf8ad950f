"""The REST API: what the bot does in the world, under Discord's rules."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from tests.discord_server.world import ALL_PERMISSIONS, BOT, DM_TYPE, EPHEMERAL, FORUM_TYPE, GUILD, Json, World, when

LONGEST_CONTENT: Final = 2000
LONGEST_NAME: Final = 100
NONCE_SECONDS: Final = 300.0
LONGEST_LIMIT: Final = 100

Dispatch = Callable[[str, Json], Awaitable[None]]


class Refused(Exception):
    """An error as Discord tells it."""

    def __init__(self, status: int, code: int, message: str) -> None:
        self.status, self.code, self.message = status, code, message


def unknown(what: str, code: int) -> Refused:
    return Refused(404, code, f"Unknown {what}")


def answer(data: Any, status: int = 200) -> web.Response:
    # discord.py reads JSON only where the content type says just this.
    if data is None:
        return web.Response(status=204)
    return web.Response(body=json.dumps(data).encode(), status=status, content_type="application/json")


class Rest:
    """One method a route. `dispatch` tells the gateway's sessions."""

    def __init__(self, world: World, dispatch: Dispatch) -> None:
        self.world, self.dispatch = world, dispatch
        self.guild_permissions = ALL_PERMISSIONS
        self.application_flags = 1 << 19
        """The Message Content intent, as for bots on few servers."""
        self.commands: list[Json] = []
        """As they were registered last."""
        self._nonces: dict[tuple[int, str], tuple[float, int]] = {}

    def routes(self) -> list[tuple[str, str, Callable[..., Awaitable[Any]]]]:
        """Method, route and handler."""
        message = "/channels/{channel}/messages/{message}"
        return [
            ("GET", "/users/@me", self.me),
            ("GET", "/oauth2/applications/@me", self.application),
            ("GET", "/users/{user}", self.user),
            ("GET", "/users/@me/guilds", self.guilds),
            ("POST", "/users/@me/channels", self.open_dm),
            ("GET", "/guilds/{guild}", self.guild),
            ("GET", "/guilds/{guild}/members/{user}", self.member),
            ("GET", "/guilds/{guild}/threads/active", self.active_threads),
            ("GET", "/channels/{channel}", self.channel),
            ("PATCH", "/channels/{channel}", self.change_channel),
            ("GET", "/channels/{channel}/messages", self.history),
            ("POST", "/channels/{channel}/messages", self.create),
            ("GET", message, self.message),
            ("PATCH", message, self.edit),
            ("DELETE", message, self.delete),
            ("POST", "/channels/{channel}/typing", self.typing),
            ("POST", message + "/threads", self.thread_from_message),
            ("POST", "/channels/{channel}/threads", self.thread),
            ("PUT", "/channels/{channel}/thread-members/@me", self.join),
            ("PUT", "/applications/{application}/commands", self.register),
            ("PUT", "/applications/{application}/guilds/{guild}/commands", self.register),
            ("GET", "/applications/{application}/commands", self.registered),
        ]

    async def me(self, body: Json) -> Json:
        return self.world.users[BOT] | {"verified": True, "mfa_enabled": False, "locale": "en-US", "flags": 0}

    async def application(self, body: Json) -> Json:
        return {
            "id": str(BOT),
            "name": "Quill",
            "icon": None,
            "description": "",
            "rpc_origins": [],
            "bot_public": True,
            "bot_require_code_grant": False,
            "verify_key": "0" * 64,
            "owner": self.world.users[BOT],
            "team": None,
            "summary": "",
            "flags": self.application_flags,
            "hook": True,
        }

    async def user(self, body: Json, user: int) -> Json:
        return self._known(self.world.users, user, "User", 10013)

    async def open_dm(self, body: Json) -> Json:
        asked = int(body["recipient_id"])
        for channel in self.world.channels.values():
            if channel["type"] == DM_TYPE and channel["recipients"][0]["id"] == str(asked):
                return channel
        return self.world.add_dm(self.world.new_id(), asked)

    async def guilds(self, body: Json) -> list[Json]:
        guild = self.world.guild()
        return [{key: guild[key] for key in ("id", "name", "features")} | {"permissions": self.guild_permissions}]

    async def guild(self, body: Json, guild: int) -> Json:
        if guild != GUILD:
            raise unknown("Guild", 10004)
        return self.world.guild()

    async def member(self, body: Json, guild: int, user: int) -> Json:
        return self._known(self.world.members, user, "Member", 10007)

    async def active_threads(self, body: Json, guild: int) -> Json:
        threads = [thread for thread in self.world.threads() if not thread["thread_metadata"]["archived"]]
        return {"threads": threads, "members": []}

    async def channel(self, body: Json, channel: int) -> Json:
        return self._place(channel)

    async def change_channel(self, body: Json, channel: int) -> Json:
        place = self._place(channel)
        metadata = place.get("thread_metadata", {})
        if metadata.get("locked") and body.get("archived") is False:
            raise Refused(403, 50013, "Missing Permissions")
        for name, value in body.items():
            if name in ("archived", "locked", "auto_archive_duration"):
                metadata[name] = value
            else:
                place[name] = value
        await self.dispatch("THREAD_UPDATE" if metadata else "CHANNEL_UPDATE", place)
        return place

    async def history(self, body: Json, channel: int, query: dict[str, str]) -> list[Json]:
        self._place(channel)
        limit = int(query.get("limit", 50))
        if not 1 <= limit <= LONGEST_LIMIT:
            raise Refused(400, 50035, "Invalid Form Body")
        messages = sorted(self.world.messages[channel].values(), key=lambda message: int(message["id"]))
        if "after" in query:
            messages = [message for message in messages if int(message["id"]) > int(query["after"])][:limit]
        elif "before" in query:
            messages = [message for message in messages if int(message["id"]) < int(query["before"])][-limit:]
        return messages[-limit:][::-1]

    async def message(self, body: Json, channel: int, message: int) -> Json:
        self._place(channel)
        return self._message(channel, message)

    async def create(self, body: Json, channel: int) -> Json:
        place = self._place(channel)
        if place["type"] == FORUM_TYPE:
            raise Refused(400, 50008, "Cannot send messages in a non-text channel")
        self._may(channel, "send", 50013)
        metadata = place.get("thread_metadata", {})
        if metadata.get("locked"):
            raise Refused(403, 160005 if not metadata["archived"] else 50083, "Thread is locked or archived")
        self._sendable(body)
        nonce = body.get("nonce")
        if nonce is not None and len(str(nonce)) > 25:
            raise Refused(400, 50035, "Invalid Form Body: nonce")
        known = self._nonces.get((channel, str(nonce)))
        if body.get("enforce_nonce") and known and time.monotonic() - known[0] < NONCE_SECONDS:
            return self.world.messages[channel][known[1]] | {"nonce": nonce}
        metadata["archived"] = False
        reference = body.get("message_reference")
        more: Json = {}
        if reference:
            if int(reference["message_id"]) in self.world.messages[channel]:
                more["reply_to"] = reference["message_id"]
            elif reference.get("fail_if_not_exists", True):
                raise Refused(400, 50035, "Invalid Form Body: MESSAGE_REFERENCE_UNKNOWN_MESSAGE")
        message = self.post(channel, body, **more)
        if nonce is not None:
            self._nonces[channel, str(nonce)] = time.monotonic(), int(message["id"])
        await self.dispatch("MESSAGE_CREATE", self.event(message))
        return message | ({"nonce": nonce} if nonce is not None else {})

    def post(self, channel: int, body: Json, **more: Any) -> Json:
        """A message of the bot, as `body` asks for it."""
        more = {"components": body.get("components", []), "flags": body.get("flags", 0)} | more
        return self.world.add_message(channel, BOT, body.get("content") or "", **more)

    async def edit(self, body: Json, channel: int, message: int) -> Json:
        place = self._place(channel)
        found = self._message(channel, message)
        if found["author"]["id"] != str(BOT):
            raise Refused(403, 50005, "Cannot edit a message authored by another user")
        if place.get("thread_metadata", {}).get("archived"):
            raise Refused(400, 50083, "Thread is archived")
        self._sendable(found | body)
        for name in ("content", "components", "flags", "embeds"):
            if name in body:
                found[name] = body[name]
        found["edited_timestamp"] = when(self.world.new_id())
        await self.dispatch("MESSAGE_UPDATE", self.event(found))
        return found

    async def delete(self, body: Json, channel: int, message: int) -> None:
        self._place(channel)
        self._message(channel, message)
        del self.world.messages[channel][message]
        await self.dispatch("MESSAGE_DELETE", self.gone(channel, message))

    async def typing(self, body: Json, channel: int) -> None:
        self._place(channel)

    async def thread_from_message(self, body: Json, channel: int, message: int) -> Json:
        self._place(channel)
        self._message(channel, message)
        if message in self.world.channels:
            raise Refused(400, 160004, "A thread has already been created for this message")
        return await self._new_thread(body, channel, message)

    async def thread(self, body: Json, channel: int) -> Json:
        self._place(channel)
        return await self._new_thread(body, channel, self.world.new_id())

    async def _new_thread(self, body: Json, channel: int, id_: int) -> Json:
        self._may(channel, "create_thread", 50013)
        if not 1 <= len(body["name"]) <= LONGEST_NAME:
            raise Refused(400, 50035, "Invalid Form Body: name")
        thread = self.world.add_thread(id_, channel, body["name"], BOT)
        await self.dispatch("THREAD_CREATE", thread | {"newly_created": True})
        return thread

    async def join(self, body: Json, channel: int) -> None:
        self._place(channel)

    async def register(self, body: Json, application: int, guild: int | None = None) -> list[Json]:
        commands: Any = body
        self.commands = [
            {"id": str(self.world.new_id()), "application_id": str(application), "version": "1", "type": 1}
            | {"default_member_permissions": None, "description": ""}
            | command
            for command in commands
        ]
        return self.commands

    async def registered(self, body: Json, application: int) -> list[Json]:
        return self.commands

    def event(self, message: Json) -> Json:
        """A message as the gateway tells it."""
        channel = self.world.channels[int(message["channel_id"])]
        if channel["type"] == DM_TYPE:
            return message
        member = self.world.members.get(int(message["author"]["id"]))
        with_member = {"member": {k: v for k, v in member.items() if k != "user"}} if member else {}
        return message | {"guild_id": str(GUILD)} | with_member

    def gone(self, channel: int, message: int) -> Json:
        told: Json = {"id": str(message), "channel_id": str(channel)}
        return told if self.world.channels[channel]["type"] == DM_TYPE else told | {"guild_id": str(GUILD)}

    def _sendable(self, body: Json) -> None:
        content = body.get("content") or ""
        if body.get("flags", 0) & ~(4 | EPHEMERAL | 4096):
            raise Refused(400, 50035, "Invalid Form Body: flags")
        if len(content) > LONGEST_CONTENT:
            raise Refused(400, 50035, "Invalid Form Body: content: Must be 2000 or fewer in length.")
        if not content.strip() and not body.get("embeds"):
            raise Refused(400, 50006, "Cannot send an empty message")

    def _may(self, channel: int, what: str, code: int) -> None:
        parent = self.world.channels[channel].get("parent_id") or 0
        if what in self.world.denied.get(channel, set()) | self.world.denied.get(int(parent), set()):
            raise Refused(403, code, "Missing Access" if code == 50001 else "Missing Permissions")

    def _place(self, channel: int) -> Json:
        place = self._known(self.world.channels, channel, "Channel", 10003)
        self._may(channel, "view", 50001)
        return place

    def _message(self, channel: int, message: int) -> Json:
        return self._known(self.world.messages[channel], message, "Message", 10008)

    def _known(self, things: dict[int, Json], id_: int, what: str, code: int) -> Json:
        if id_ not in things:
            raise unknown(what, code)
        return things[id_]
