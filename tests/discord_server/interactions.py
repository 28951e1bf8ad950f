"""Commands and buttons: an interaction has to be answered within 3 s, and its token lives for 15 minutes."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import Any, Final

from tests.discord_server.rest import Refused, Rest, unknown
from tests.discord_server.world import BOT, EPHEMERAL, GUILD, Json, World

MESSAGE, DEFERRED, DEFERRED_UPDATE, UPDATE, MODAL = 4, 5, 6, 7, 9
COMMAND, COMPONENT, MODAL_SUBMIT = 2, 3, 5
BY_COMMAND: Final = 20


@dataclass
class Interaction:
    """One use of a command or a button, and what the person saw of it."""

    payload: Json
    made_at: float = field(default_factory=time.monotonic)
    answered_after: float | None = None
    """Seconds until the first response."""
    kind: int | None = None
    """Of the first response."""
    data: Json = field(default_factory=dict)
    """Of the first response."""
    message: Json | None = None
    """The response as a message, once it is one."""
    followups: list[Json] = field(default_factory=list)

    @property
    def ephemeral(self) -> bool:
        return bool(self.data.get("flags", 0) & EPHEMERAL)

    @property
    def shown(self) -> str:
        """All that was said in answer."""
        said = [self.message, *self.followups]
        return "\n".join(message["content"] for message in said if message)


class Interactions:
    """All of them, by token."""

    def __init__(self, world: World, rest: Rest) -> None:
        self.world, self.rest = world, rest
        self.first_seconds = 3.0
        self.token_seconds = 900.0
        self.by_token: dict[str, Interaction] = {}

    def routes(self) -> list[tuple[str, str, Any]]:
        hook = "/webhooks/{application}/{token}"
        original = hook + "/messages/@original"
        return [
            ("POST", "/interactions/{interaction}/{token}/callback", self.callback),
            ("POST", hook, self.followup),
            ("GET", original, self.get_original),
            ("PATCH", original, self.edit_original),
            ("DELETE", original, self.delete_original),
        ]

    def make(self, type_: int, user: int, channel: int, data: Json, **more: Any) -> Interaction:
        """An interaction and its payload for the gateway."""
        place = self.world.channels[channel]
        token = secrets.token_hex(16)
        payload: Json = {
            "id": str(self.world.new_id()),
            "application_id": str(BOT),
            "type": type_,
            "token": token,
            "version": 1,
            "channel_id": str(channel),
            "channel": place | {"permissions": "0"},
            "data": data,
            "locale": "en-US",
            "entitlements": [],
            "authorizing_integration_owners": {},
            "attachment_size_limit": 10_000_000,
        } | more
        if place.get("guild_id"):
            payload |= {
                "guild_id": str(GUILD),
                "member": self.world.members[user] | {"permissions": "2048"},
                "guild": {"id": str(GUILD), "locale": "en-US", "features": []},
                "app_permissions": "0",
                "context": 0,
            }
        else:
            payload |= {"user": self.world.users[user], "app_permissions": "0", "context": 1}
        interaction = Interaction(payload)
        self.by_token[token] = interaction
        return interaction

    async def callback(self, body: Json, interaction: int, token: str, query: dict[str, str]) -> Json | None:
        found = self._of(token)
        waited = time.monotonic() - found.made_at
        if found.kind is not None:
            raise Refused(400, 40060, "Interaction has already been acknowledged.")
        if waited > self.first_seconds:
            raise unknown("interaction", 10062)
        found.kind, found.data, found.answered_after = body["type"], body.get("data") or {}, waited
        if found.kind == MESSAGE:
            found.message = await self._said(found, found.data)
        if found.kind == UPDATE:
            self._target(found).update(found.data)
        if not query.get("with_response"):
            return None
        told: Json = {"interaction": {"id": str(interaction), "type": found.payload["type"]}}
        if found.message is not None:
            told["interaction"]["response_message_id"] = found.message["id"]
            told["resource"] = {"type": found.kind, "message": found.message}
        return told

    async def followup(self, body: Json, application: int, token: str) -> Json:
        found = self._alive(token)
        if found.kind == DEFERRED and found.message is None:
            return await self._fill(found, body)
        message = await self._said(found, body)
        found.followups.append(message)
        return message

    async def get_original(self, body: Json, application: int, token: str) -> Json:
        found = self._alive(token)
        if found.kind in (DEFERRED_UPDATE, UPDATE):
            return self._target(found)
        if found.message is None:
            raise unknown("Message", 10008)
        return found.message

    async def edit_original(self, body: Json, application: int, token: str) -> Json:
        found = self._alive(token)
        if found.kind in (DEFERRED_UPDATE, UPDATE):
            target = self._target(found)
            target.update(body)
            return target
        if found.message is None:
            return await self._fill(found, body)
        self.rest._sendable(found.message | body)
        found.message.update(body)
        return found.message

    async def delete_original(self, body: Json, application: int, token: str) -> None:
        found = self._alive(token)
        if found.message is not None:
            self.world.messages[int(found.payload["channel_id"])].pop(int(found.message["id"]), None)
        found.message = None

    async def _fill(self, found: Interaction, body: Json) -> Json:
        flags = body.get("flags", 0) | (EPHEMERAL if found.ephemeral else 0)
        found.message = await self._said(found, body | {"flags": flags})
        return found.message

    async def _said(self, found: Interaction, body: Json) -> Json:
        self.rest._sendable(body)
        channel = int(found.payload["channel_id"])
        message = self.rest.post(channel, body, type_=BY_COMMAND)
        user = found.payload.get("user") or found.payload["member"]["user"]
        kind = {"id": found.payload["id"], "type": found.payload["type"], "user": user}
        message |= {"interaction_metadata": kind, "webhook_id": str(BOT), "application_id": str(BOT)}
        if body.get("flags", 0) & EPHEMERAL:
            # Nobody else sees it, and no history has it.
            del self.world.messages[channel][int(message["id"])]
        else:
            await self.rest.dispatch("MESSAGE_CREATE", self.rest.event(message))
        return message

    def _target(self, found: Interaction) -> Json:
        target: Json = found.payload["message"]
        return target

    def _of(self, token: str) -> Interaction:
        if token not in self.by_token:
            raise unknown("interaction", 10062)
        return self.by_token[token]

    def _alive(self, token: str) -> Interaction:
        found = self.by_token.get(token)
        if found is None or time.monotonic() - found.made_at > self.token_seconds:
            raise Refused(401, 50027, "Invalid Webhook Token")
        if found.kind is None:
            raise unknown("Webhook", 10015)
        return found
