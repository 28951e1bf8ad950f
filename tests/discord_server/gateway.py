"""The gateway: sessions that are identified, heard, cut and resumed."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import WSMsgType, web

from tests.discord_server.world import ASKER, BOT, DM_TYPE, GUILD, Json, World

MESSAGE_CONTENT: Final = 1 << 15
DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11
SYNC_FLUSH: Final = zlib.Z_SYNC_FLUSH


@dataclass
class Session:
    """What a client has by its IDENTIFY; it outlives its connection."""

    id: str
    intents: int
    shard: tuple[int, int]
    events: list[Json] = field(default_factory=list)
    connection: Connection | None = None
    told: bool = False
    """The client was sent its server."""

    async def dispatch(self, name: str, data: Json) -> None:
        event = {"op": DISPATCH, "t": name, "s": len(self.events) + 1, "d": data}
        self.events.append(event)
        if self.connection is not None:
            await self.connection.send(event)


class Connection:
    """One WebSocket, compressed as discord.py asks for it."""

    def __init__(self, socket: web.WebSocketResponse, *, compressed: bool) -> None:
        self.socket = socket
        self._deflate = zlib.compressobj() if compressed else None

    async def send(self, payload: Json) -> None:
        text = json.dumps(payload)
        if self.socket.closed:
            return
        if self._deflate is None:
            await self.socket.send_str(text)
        else:
            await self.socket.send_bytes(self._deflate.compress(text.encode()) + self._deflate.flush(SYNC_FLUSH))

    async def close(self, code: int) -> None:
        await self.socket.close(code=code)

    def cut(self) -> None:
        """Ends it without a word."""
        if self.socket._req is not None and self.socket._req.transport is not None:
            self.socket._req.transport.abort()


class Gateway:
    """All sessions. Everything that may be changed while it runs is a public attribute."""

    def __init__(self, world: World, base_url: Callable[[], str], token: str) -> None:
        self.world, self._base_url, self.token = world, base_url, token
        self.heartbeat_ms = 41_250
        self.acks = True
        self.content_allowed = True
        """Whether the application has the Message Content intent."""
        self.refuse = 0
        """Connections that are refused with 503 before one is taken."""
        self.open_to_new = asyncio.Event()
        """Cleared, new connections wait before they are greeted."""
        self.open_to_new.set()
        self.silent_to: set[int] = set()
        """Shards whose IDENTIFY and RESUME get no answer."""
        self.holds_guilds = False
        """New sessions are not told of their server before `tell_guilds`."""
        self.lists_guilds = True
        """READY names the server, as one that is not available yet."""
        self.close_next_with: int | None = None
        """A close code in place of an answer to the next IDENTIFY."""
        self.sessions: dict[str, Session] = {}
        self.identifies: list[tuple[float, Json]] = []
        self.resumes: list[Json] = []
        self.heartbeats: list[float] = []
        self._connections: set[Connection] = set()

    @property
    def connected(self) -> list[Session]:
        return [session for session in self.sessions.values() if session.connection is not None]

    async def dispatch(self, name: str, data: Json) -> None:
        """Sends an event to the sessions of its shard, now or when they resume, without the content that Discord leaves
        out."""
        for session in list(self.sessions.values()):
            guild = data["id"] if name.startswith("GUILD_") else data.get("guild_id") or 0
            if (int(guild) >> 22) % session.shard[1] == session.shard[0]:
                await session.dispatch(name, self._seen_by(session, name, data))

    async def tell_guilds(self) -> None:
        """The server becomes available to all."""
        self.holds_guilds = False
        await self.dispatch("GUILD_CREATE", self.world.guild())
        for session in self.sessions.values():
            session.told = True

    async def reconnect(self) -> None:
        """Op 7 to all."""
        for connection in list(self._connections):
            await connection.send({"op": RECONNECT, "d": None})

    async def invalidate(self, *, resumable: bool) -> None:
        """Op 9 to all."""
        if not resumable:
            self.forget()
        for connection in list(self._connections):
            await connection.send({"op": INVALID, "d": resumable})

    def forget(self) -> None:
        """No session can be resumed any more."""
        self.sessions.clear()

    async def close(self, code: int) -> None:
        for connection in list(self._connections):
            await connection.close(code)

    def cut(self) -> None:
        for connection in list(self._connections):
            connection.cut()

    def cut_unanswered(self) -> None:
        """Ends the connections that `silent_to` left without a session."""
        heard = [session.connection for session in self.connected]
        for connection in list(self._connections):
            if connection not in heard:
                connection.cut()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.refuse > 0:
            self.refuse -= 1
            raise web.HTTPServiceUnavailable
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        connection = Connection(socket, compressed=request.query.get("compress") == "zlib-stream")
        self._connections.add(connection)
        try:
            await self.open_to_new.wait()
            await connection.send({"op": HELLO, "d": {"heartbeat_interval": self.heartbeat_ms}})
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    await self._received(connection, json.loads(message.data))
        finally:
            self._connections.discard(connection)
            for session in self.sessions.values():
                if session.connection is connection:
                    session.connection = None
        return socket

    async def _received(self, connection: Connection, payload: Json) -> None:
        op, data = payload["op"], payload.get("d") or {}
        if op == HEARTBEAT:
            self.heartbeats.append(time.monotonic())
            if self.acks:
                await connection.send({"op": ACK})
        elif op == IDENTIFY:
            await self._identify(connection, data)
        elif op == RESUME:
            await self._resume(connection, data)

    async def _identify(self, connection: Connection, data: Json) -> None:
        self.identifies.append((time.monotonic(), data))
        if self.close_next_with is not None:
            code, self.close_next_with = self.close_next_with, None
            await connection.close(code)
            return
        if data["token"] != self.token:
            await connection.close(4004)
            return
        if data["intents"] & MESSAGE_CONTENT and not self.content_allowed:
            await connection.close(4014)
            return
        shard = tuple(data.get("shard", (0, 1)))
        if shard[0] in self.silent_to:
            return
        session = Session(secrets.token_hex(8), data["intents"], shard, connection=connection)
        self.sessions[session.id] = session
        mine = (GUILD >> 22) % shard[1] == shard[0]
        await session.dispatch(
            "READY",
            {
                "v": 10,
                "user": self.world.users[BOT],
                "guilds": [{"id": str(GUILD), "unavailable": True}] if mine and self.lists_guilds else [],
                "session_id": session.id,
                "resume_gateway_url": self._base_url(),
                "application": {"id": str(BOT), "flags": 0},
                "shard": list(shard),
            },
        )
        if mine and not self.holds_guilds:
            await session.dispatch("GUILD_CREATE", self.world.guild())
            session.told = True

    async def _resume(self, connection: Connection, data: Json) -> None:
        self.resumes.append(data)
        session = self.sessions.get(data["session_id"])
        if session is None:
            await connection.send({"op": INVALID, "d": False})
            return
        if session.shard[0] in self.silent_to:
            return
        session.connection = connection
        for event in session.events[data["seq"] or 0 :]:
            await connection.send(event)
        await session.dispatch("RESUMED", {})

    def _seen_by(self, session: Session, name: str, data: Json) -> Json:
        if name not in ("MESSAGE_CREATE", "MESSAGE_UPDATE") or session.intents & MESSAGE_CONTENT:
            return data
        channel = self.world.channels[int(data["channel_id"])]
        mentioned = any(user["id"] == str(BOT) for user in data.get("mentions", ()))
        if channel["type"] == DM_TYPE or mentioned or data["author"]["id"] == str(BOT):
            return data
        return data | {"content": "", "attachments": [], "embeds": [], "components": []}


async def until(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    """The value of `condition` as soon as it is true."""
    ends = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < ends, "it never came to that"
        await asyncio.sleep(0.01)
    return value


__all__ = ["ASKER", "Gateway", "Session", "until"]
