"""The server: the world, its REST API, its gateway and its people on one port.

async with DiscordServer() as server:
    ...                                  # a client with DISCORD_API_BASE_URL=server.base_url, token server.token
    message = await server.say(ASKER, GENERAL, "<@9000> How do I install it?")
    assert server.posts()[-1]["content"] == "..."
    server.recorder.arm("POST /channels/{channel}/messages", lose=True)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Self

from aiohttp import web

from tests.discord_server.gateway import Gateway
from tests.discord_server.interactions import COMMAND, COMPONENT, MODAL_SUBMIT, Interaction, Interactions
from tests.discord_server.limits import Limits
from tests.discord_server.recording import Call, Fault, Recorder
from tests.discord_server.rest import Refused, Rest, answer
from tests.discord_server.world import BOT, FORUM, GUILD, Json, World, cast

PREFIX = "/api/v10"
TOKEN = "TOKEN.for.tests"


class DiscordServer:
    """See the module."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world or cast()
        self.recorder = Recorder()
        self.limits = Limits()
        self.token = TOKEN
        self.gateway = Gateway(self.world, lambda: self.gateway_url, TOKEN)
        self.rest = Rest(self.world, self.gateway.dispatch)
        self.interactions = Interactions(self.world, self.rest)
        self.files_open = asyncio.Event()
        """Cleared, files are asked for and do not come."""
        self.files_open.set()
        self.files_asked = 0
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self._port = 0

    @property
    def base_url(self) -> str:
        """What `DISCORD_API_BASE_URL` is set to."""
        return f"http://127.0.0.1:{self._port}{PREFIX}"

    @property
    def gateway_url(self) -> str:
        return f"ws://127.0.0.1:{self._port}/gateway/"

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/gateway/", self.gateway.handle)
        app.router.add_get("/files/{path:.*}", self._file)
        self._add(app, "GET", "/gateway", self._gateway_address)
        self._add(app, "GET", "/gateway/bot", self._gateway_for_bots)
        for method, route, handler in (*self.rest.routes(), *self.interactions.routes()):
            self._add(app, method, route, handler)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.gateway.cut()
        assert self._runner is not None
        await self._runner.cleanup()

    async def stop_listening(self) -> None:
        """New connections are refused until `listen_again`; those that are open are cut."""
        assert self._site is not None
        await self._site.stop()
        self.gateway.cut()

    async def listen_again(self) -> None:
        await self._listen()

    async def _listen(self) -> None:
        assert self._runner is not None
        self._site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await self._site.start()
        self._port = self._port or self._site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]

    # ------------------------------------------------------------------------------------------------- people

    async def say(self, author: int, channel: int, content: str, **more: Any) -> Json:
        """A person's message."""
        message = self.world.add_message(channel, author, content, **more)
        await self.gateway.dispatch("MESSAGE_CREATE", self.rest.event(message))
        return message

    async def change(self, message: Json, content: str) -> None:
        """A person edits a message."""
        message["content"] = content
        message["edited_timestamp"] = message["timestamp"]
        await self.gateway.dispatch("MESSAGE_UPDATE", self.rest.event(message))

    async def take_back(self, message: Json) -> None:
        """A person deletes a message."""
        channel, id_ = int(message["channel_id"]), int(message["id"])
        self.world.messages[channel].pop(id_, None)
        await self.gateway.dispatch("MESSAGE_DELETE", self.rest.gone(channel, id_))

    async def take_back_all(self, messages: list[Json]) -> None:
        """Somebody who may manage messages deletes many of a channel at once."""
        channel = int(messages[0]["channel_id"])
        for message in messages:
            self.world.messages[channel].pop(int(message["id"]), None)
        told = {"ids": [message["id"] for message in messages], "channel_id": str(channel), "guild_id": str(GUILD)}
        await self.gateway.dispatch("MESSAGE_DELETE_BULK", told)

    async def open_post(self, author: int, title: str, content: str, **more: Any) -> int:
        """A new post in the forum; its id."""
        id_ = self.world.new_id()
        thread = self.world.add_thread(id_, FORUM, title, author, **more)
        await self.gateway.dispatch("THREAD_CREATE", thread | {"newly_created": True})
        message = self.world.add_message(id_, author, content, id_=id_)
        await self.gateway.dispatch("MESSAGE_CREATE", self.rest.event(message))
        return id_

    async def open_thread(self, author: int, channel: int, name: str, *, on: Json | None = None) -> int:
        """A person's thread, on a message or alone; its id."""
        id_ = int(on["id"]) if on else self.world.new_id()
        thread = self.world.add_thread(id_, channel, name, author)
        await self.gateway.dispatch("THREAD_CREATE", thread | {"newly_created": True})
        return id_

    async def delete_thread(self, id_: int) -> None:
        thread = self.world.channels.pop(id_)
        self.world.messages.pop(id_)
        told = {key: thread[key] for key in ("id", "parent_id", "type")} | {"guild_id": str(GUILD)}
        await self.gateway.dispatch("THREAD_DELETE", told)

    async def delete_channel(self, id_: int) -> None:
        """With all its threads."""
        for thread in [thread for thread in self.world.threads() if thread["parent_id"] == str(id_)]:
            self.world.channels.pop(int(thread["id"]))
        await self.gateway.dispatch("CHANNEL_DELETE", self.world.channels.pop(id_))

    async def command(
        self, user: int, channel: int, name: str, *, type_: int = 1, target: Json | None = None, **options: str | int
    ) -> Interaction:
        """A slash command, or with `target` a command of a message's menu."""
        known = next((c for c in self.rest.commands if c["name"] == name), None)
        assert known is not None, f"{name} is not registered"
        data: Json = {"id": known["id"], "name": name, "type": known.get("type", type_), "guild_id": str(GUILD)}
        if options:
            data["options"] = [
                {"name": key, "type": 4 if isinstance(value, int) else 3, "value": value}
                for key, value in options.items()
            ]
        if target is not None:
            data |= {"target_id": target["id"], "resolved": {"messages": {target["id"]: target}}}
        return await self._interact(COMMAND, user, channel, data)

    async def press(self, user: int, message: Json, custom_id: str) -> Interaction:
        """A button."""
        data = {"custom_id": custom_id, "component_type": 2}
        return await self._interact(COMPONENT, user, int(message["channel_id"]), data, message=message)

    async def submit(self, user: int, channel: int, custom_id: str, **fields: str) -> Interaction:
        """A modal that was filled in."""
        rows = [
            {"type": 1, "components": [{"type": 4, "custom_id": key, "value": value}]} for key, value in fields.items()
        ]
        return await self._interact(MODAL_SUBMIT, user, channel, {"custom_id": custom_id, "components": rows})

    async def _interact(self, type_: int, user: int, channel: int, data: Json, **more: Any) -> Interaction:
        interaction = self.interactions.make(type_, user, channel, data, **more)
        await self.gateway.dispatch("INTERACTION_CREATE", interaction.payload)
        return interaction

    # -------------------------------------------------------------------------------------------------- sights

    def posts(self, channel: int | None = None) -> list[Json]:
        """The bot's messages as they look now, oldest first; in one channel or everywhere."""
        places = [channel] if channel is not None else list(self.world.messages)
        ours = [
            message
            for place in places
            for message in self.world.messages.get(place, {}).values()
            if message["author"]["id"] == str(BOT)
        ]
        return sorted(ours, key=lambda message: int(message["id"]))

    def buttons(self, message: Json) -> dict[str, str]:
        """Label to custom id."""
        return {
            button["label"]: button["custom_id"]
            for row in message["components"]
            for button in row["components"]
            if button.get("custom_id")
        }

    # -------------------------------------------------------------------------------------------------- routes

    def _add(self, app: web.Application, method: str, route: str, handler: Callable[..., Awaitable[Any]]) -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            text = await request.text()
            call = Call(
                method=method,
                route=route,
                path=request.path.removeprefix(PREFIX),
                body=json.loads(text) if text.startswith(("{", "[")) else {},
                query=dict(request.query),
            )
            self.recorder.calls.append(call)
            given = {key: int(value) if value.isdecimal() else value for key, value in request.match_info.items()}
            return await self._handle(request, call, handler, given)

        app.router.add_route(method, PREFIX + route, handle)

    async def _handle(
        self, request: web.Request, call: Call, handler: Callable[..., Awaitable[Any]], given: dict[str, Any]
    ) -> web.StreamResponse:
        what = f"{call.method} {call.route}"
        free = call.route.startswith(("/webhooks", "/interactions", "/gateway"))
        response = answer({"message": "401: Unauthorized", "code": 0}, 401)
        fault: Fault | None = None
        if free or request.headers.get("Authorization") == f"Bot {self.token}":
            limited = self.limits.check(what, str(given.get("channel", "")))
            fault = self.recorder.fault_for(call)
            if not free and limited.retry_after is not None:
                told = {"message": "You are being rate limited.", "retry_after": limited.retry_after}
                response = answer(told | {"global": limited.is_global}, 429)
            elif fault is not None and fault.status:
                await asyncio.sleep(fault.seconds)
                response = self._faulty(fault)
            else:
                wants_query = "query" in handler.__code__.co_varnames[: handler.__code__.co_argcount]
                extra = {"query": dict(request.query)} if wants_query else {}
                try:
                    response = answer(await handler(call.body, **given, **extra))
                except Refused as refused:
                    response = answer({"message": refused.message, "code": refused.code}, refused.status)
                if fault is not None:
                    await asyncio.sleep(fault.seconds)
            response.headers.update({"Via": "1.1 local"} | limited.headers)
            if fault is not None and "Via" in fault.headers and not fault.headers["Via"]:
                del response.headers["Via"]
        if fault is not None and fault.lose:
            assert request.transport is not None
            request.transport.abort()
            return response
        call.status = response.status
        return response

    def _faulty(self, fault: Fault) -> web.Response:
        if isinstance(fault.body, str):
            response = web.Response(text=fault.body, status=fault.status, content_type="text/html")
        else:
            response = answer(fault.body or {"message": "fault", "code": 0}, fault.status)
        response.headers.update({key: value for key, value in fault.headers.items() if value})
        return response

    async def _gateway_address(self, body: Json) -> Json:
        return {"url": self.gateway_url}

    async def _gateway_for_bots(self, body: Json) -> Json:
        limit = {"total": 1000, "remaining": 999, "reset_after": 1000, "max_concurrency": 1}
        return {"url": self.gateway_url, "shards": 1, "session_start_limit": limit}

    async def _file(self, request: web.Request) -> web.StreamResponse:
        self.files_asked += 1
        await self.files_open.wait()
        data = self.world.files.get(request.match_info["path"])
        assert "Authorization" not in request.headers, "a token went where files are"
        return web.Response(body=data) if data is not None else web.Response(status=404)

    def attach(self, name: str, data: bytes, content_type: str | None = None) -> Json:
        """A file for a message: `say(..., attachments=[server.attach("a.txt", b"...")])`."""
        id_ = self.world.new_id()
        path = f"{id_}/{name}"
        self.world.files[path] = data
        url = f"http://127.0.0.1:{self._port}/files/{path}"
        typed = {"content_type": content_type} if content_type else {}
        return {"id": str(id_), "filename": name, "size": len(data), "url": url, "proxy_url": url} | typed
