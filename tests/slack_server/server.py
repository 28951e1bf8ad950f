"""The server: routes calls to the methods, records them, and lets people in the workspace say things."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from aiohttp import encode_basic_auth, web

from tests.servers.replies import break_off
from tests.slack_server.events import changed, deleted, told
from tests.slack_server.faults import ApiError, Fault, Json
from tests.slack_server.limits import PING, Pace, texts_of
from tests.slack_server.methods import Methods
from tests.slack_server.requests import Requests
from tests.slack_server.scopes import GRANTED, check_scope
from tests.slack_server.sockets import Delivery, Sockets
from tests.slack_server.state import APP, BOT_USER, TEAM, Workspace

TAKE_NO_JSON = ("conversations.", "users.", "files.", "bots.")
CLIENT_ID, CLIENT_SECRET = "123.456", "d41d8cd98f00b204e9800998ecf8427e"
BOT_TOKEN, APP_TOKEN = "xoxb-test-token", "xapp-test-token"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the Web API as it came in, and what became of it."""

    method: str
    args: Json
    token: str
    at: float
    """Monotonic seconds."""
    outcome: str
    """`ok`, Slack's error, or the name of a fault."""


class SlackServer:
    """See the package. All attributes may be changed while it runs."""

    def __init__(self) -> None:
        self.workspace = Workspace()
        self.sockets = Sockets()
        self.requests = Requests(self.sockets)
        """With a URL they take the place of the sockets."""
        self.methods = Methods(self.workspace, self._echo)
        self._installed = {BOT_TOKEN: (self.workspace, self.methods)}
        """By token."""
        self.codes: dict[str, str] = {}
        """What Slack leads installers back with, each good once, and the token that it stands for."""
        self.revoked: set[str] = set()
        """Tokens that are good no more."""
        self.nemesis = True
        self.paced = True
        """Whether calls that are too fast get 429."""
        self.echoes = True
        """Whether the app hears of its own messages, as it does."""
        self.scopes = GRANTED
        """Of the bot token."""
        self.calls: list[Call] = []
        self.answers: list[Json] = []
        """What was sent to response addresses."""
        self.file_seconds = 0.0
        """Before a file is there."""
        self.moved: dict[str, str] = {}
        """Names of files that are elsewhere, and where."""
        self.fetched: list[tuple[str, str]] = []
        """Requests for files: the name, and the header with the token."""
        self.on_call: Callable[[str, Json], None] = lambda method, args: None
        self._pace = Pace()
        self._faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self._events = 0
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def api_url(self) -> str:
        """What `SLACK_API_BASE_URL` is set to."""
        return f"http://127.0.0.1:{self._port}/api/"

    def another(self, team: str, token: str) -> Workspace:
        """One more workspace, with the same people and channels in it, and the app."""
        made = Workspace(team)
        self._installed[token] = made, Methods(made, lambda event: self._echo(event, team))
        return made

    def script(self, method: str, *faults: Fault) -> None:
        """Faults for the next calls of a method, one each."""
        self._faults[method].extend(faults)

    def calls_of(self, *methods: str) -> list[Call]:
        """The calls of some methods, in order."""
        return [call for call in self.calls if call.method in methods]

    def growing(self, channel: str, thread: str) -> list[str]:
        """What people see of the bot's streamed messages in a thread while they grow."""
        return [message["text"] for message in self.workspace.thread(channel, thread) if "streaming" in message]

    def shown(self, channel: str, thread: str, workspace: Workspace | None = None) -> list[str]:
        """What people see of the bot's messages in a thread, oldest first."""
        messages = (workspace or self.workspace).thread(channel, thread)
        own = [message for message in messages if message.get("user") == BOT_USER]
        return ["\n".join(texts_of(message.get("blocks") or [])) or message["text"] for message in own]

    def pings(self) -> list[Call]:
        """Calls whose text would notify somebody."""
        texts = ((call, _said(call.args)) for call in self.calls)
        return [call for call, said in texts if any(PING.search(text) for text in said)]

    # ---------------------------------------------------------------------------------- people

    def says(self, user: str, channel: str, text: str, thread: str | None = None, **fields: Any) -> str:
        """Somebody posts a message, and the app hears of it as Slack tells it; its `ts`."""
        return self.says_in(self.workspace, user, channel, text, thread, **fields)

    def says_in(
        self, workspace: Workspace, user: str, channel: str, text: str, thread: str | None = None, **fields: Any
    ) -> str:
        """The same in one of several workspaces."""
        place = workspace.places[channel]
        message = workspace.add(channel, thread, user=user, text=text, team=workspace.team, **fields)
        event = told(place.kind, channel, message)
        if f"<@{BOT_USER}>" in text and place.kind != "im" and not fields.get("subtype"):
            self.event({**event, "type": "app_mention"}, workspace.team)
        self.event(event, workspace.team)
        return str(message["ts"])

    def file(self, name: str, data: bytes, mimetype: str = "text/plain", **fields: Any) -> Json:
        """A file for a message: `says(..., files=[server.file("a.log", b"...")])`."""
        self.workspace.files[name] = data, mimetype
        url = f"http://127.0.0.1:{self._port}/files/{name}"
        private = {"url_private": url, "url_private_download": url}
        return (
            {"id": f"F{name}", "name": name, "mimetype": mimetype, "size": len(data), "mode": "hosted"}
            | private
            | fields
        )

    def edits(self, channel: str, ts: str, text: str) -> None:
        """Somebody edits their message."""
        place, message = self.workspace.places[channel], self.workspace.places[channel].messages[ts]
        before = dict(message)
        message.update(text=text, edited={"user": message["user"], "ts": self.workspace.new_ts()})
        if f"<@{BOT_USER}>" in text and place.kind != "im":
            self.event({**told(place.kind, channel, message), "type": "app_mention"})
        self.event(changed(place.kind, channel, message, before))

    def deletes(self, channel: str, ts: str) -> None:
        """Somebody deletes their message."""
        place = self.workspace.places[channel]
        self.event(deleted(place.kind, channel, self.workspace.remove(channel, ts)))

    def event(self, event: Json, team: str = TEAM) -> Delivery:
        """Tells the app of an event."""
        self._events += 1
        authorization: Json = {"enterprise_id": None, "team_id": team, "user_id": BOT_USER, "is_bot": True}
        return self._send(
            {
                "token": "verification",
                "team_id": team,
                "api_app_id": APP,
                "event": event,
                "type": "event_callback",
                "event_id": f"Ev{self._events}",
                "event_time": int(time.time()),
                "authorizations": [authorization | {"is_enterprise_install": False}],
            },
            "events_api",
        )

    def command(self, user: str, channel: str, command: str, text: str = "", team: str = TEAM) -> Delivery:
        """Somebody types a slash command."""
        place = self.workspace.places[channel]
        payload = {
            "command": command,
            "text": text,
            "user_id": user,
            "user_name": self.workspace.names.get(user, user).lower(),
            "channel_id": channel,
            "channel_name": place.name or "directmessage",
            "team_id": team,
            "api_app_id": APP,
            "response_url": f"http://127.0.0.1:{self._port}/response/1",
            "trigger_id": "1.2.trigger",
        }
        return self._send(payload, "slash_commands")

    def clicks(self, user: str, channel: str, ts: str, action_id: str, value: str = "", **action: Any) -> Delivery:
        """Somebody clicks a button of a message."""
        message = self.workspace.places[channel].messages[ts]
        at = self.workspace.new_ts()
        acted = {"action_id": action_id, "block_id": "b", "type": "button", "value": value, "action_ts": at, **action}
        return self._interaction("block_actions", user, channel, message, actions=[acted])

    def clicks_unkept(self, user: str, channel: str, action_id: str, value: str, thread: str) -> Delivery:
        """Somebody clicks a button of what only they see: Slack tells where it is, and nothing of what it shows."""
        ts = self.workspace.new_ts()
        acted = {"action_id": action_id, "block_id": "b", "type": "button", "value": value, "action_ts": ts}
        where = {"ts": ts, "thread_ts": thread}
        return self._interaction("block_actions", user, channel, where, actions=[acted])

    def shortcut(self, user: str, channel: str, ts: str, callback_id: str) -> Delivery:
        """Somebody picks a shortcut of a message."""
        message = self.workspace.places[channel].messages[ts]
        return self._interaction("message_action", user, channel, message, callback_id=callback_id, message_ts=ts)

    def _interaction(self, type_: str, user: str, channel: str, message: Json, **more: Any) -> Delivery:
        kept = "text" in message
        container = {"type": "message", "message_ts": message["ts"], "channel_id": channel, "is_ephemeral": not kept}
        if thread := message.get("thread_ts"):
            container["thread_ts"] = thread
        payload: Json = {
            "type": type_,
            "user": {"id": user, "team_id": TEAM},
            "team": {"id": TEAM, "domain": "works"},
            "channel": {"id": channel, "name": self.workspace.places[channel].name},
            **({"message": message} if kept else {}),
            "container": container,
            "api_app_id": APP,
            "response_url": f"http://127.0.0.1:{self._port}/response/1",
            "trigger_id": "1.2.trigger",
            "token": "verification",
            **more,
        }
        return self._send(payload, "interactive")

    def _send(self, payload: Json, type_: str) -> Delivery:
        return self.requests.send(payload, type_) if self.requests.url else self.sockets.send(payload, type_)

    def _echo(self, event: Json, team: str = TEAM) -> None:
        if self.echoes:
            self.event(event, team)

    # ---------------------------------------------------------------------------------- life

    async def until(self, condition: Callable[[], bool], seconds: float = 5.0) -> None:
        """Waits for a condition; fails when it takes longer."""
        start = time.monotonic()
        while not condition():
            assert time.monotonic() - start < seconds, f"not so within {seconds} s"
            await asyncio.sleep(0.005)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens, on the former port again after a `stop`."""
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_route("*", "/api/{method}", self._call)
        app.router.add_post("/response/{id}", self._response)
        app.router.add_get("/link/", self.sockets.handle)
        app.router.add_get("/files/{name}", self._file)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.05, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        assert site._server is not None
        self._port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]

    async def stop(self) -> None:
        """Closes everything; what was said and recorded stays."""
        await self.requests.stop()
        await self.sockets.stop()
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None

    # ---------------------------------------------------------------------------------- the Web API

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method, args = request.match_info["method"], await _arguments(request)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ") or str(args.pop("token", ""))
        at = time.monotonic()
        self.on_call(method, args)
        faults = self._faults[method]
        fault = faults.popleft() if faults and self.nemesis else None

        def record(outcome: str) -> None:
            self.calls.append(Call(method=method, args=args, token=token, at=at, outcome=outcome))

        if fault is not None:
            await asyncio.sleep(fault.delay)
            if not fault.applied:
                record(fault.end or fault.error or str(fault.status))
                return await _broken(fault, request)
        if self.paced and (wait := self._pace.wait(method, str(args.get("channel", "")))):
            record("ratelimited")
            return web.json_response(
                {"ok": False, "error": "ratelimited"}, status=429, headers={"Retry-After": str(wait)}
            )
        try:
            reply: Json = {"ok": True} | self._answer(method, args, token, request.host)
        except ApiError as error:
            reply = {"ok": False, "error": error.error, **error.more}
        record(fault.end or "lost" if fault else str(reply.get("error", "ok")))
        if fault is not None:
            return await _broken(fault, request)
        return web.json_response(reply, headers={"x-oauth-scopes": ",".join(sorted(self.scopes))})

    def _answer(self, method: str, args: Json, token: str, host: str) -> Json:
        if method == "oauth.v2.access":
            return self._access(args, token)
        if method == "apps.connections.open" and token == APP_TOKEN:
            return {"url": self.sockets.address(host)}
        if token in self.revoked:
            raise ApiError("token_revoked")
        if method == "apps.connections.open" or token not in self._installed:
            raise ApiError("invalid_auth" if token else "not_authed")
        workspace, methods = self._installed[token]
        if method not in methods.by_name:
            raise ApiError("unknown_method", req_method=method)
        place = workspace.places.get(str(args.get("channel", "")))
        check_scope(method, place.kind if place else "", self.scopes)
        try:
            return methods.by_name[method](args)
        except KeyError as missing:
            raise ApiError("invalid_arguments", missing=str(missing)) from missing

    def _access(self, args: Json, authorization: str) -> Json:
        """A token for a code."""
        if authorization != encode_basic_auth(CLIENT_ID, CLIENT_SECRET):
            raise ApiError("bad_client_secret")
        token = self.codes.pop(str(args.get("code")), None)
        if token is None:
            raise ApiError("invalid_code")
        team = self._installed[token][0].team
        return {
            "access_token": token,
            "token_type": "bot",
            "scope": ",".join(sorted(self.scopes)),
            "bot_user_id": BOT_USER,
            "app_id": APP,
            "team": {"id": team, "name": f"Works {team}"},
            "enterprise": None,
            "is_enterprise_install": False,
            "authed_user": {"id": "U0ADMIN"},
        }

    async def _file(self, request: web.Request) -> web.Response:
        """A file to whoever has the token and the scope; the login page, with status 200, to others."""
        name = request.match_info["name"]
        self.fetched.append((name, request.headers.get("Authorization", "")))
        if name in self.moved:
            return web.Response(status=302, headers={"Location": self.moved[name]})
        if request.headers.get("Authorization") != f"Bearer {BOT_TOKEN}" or "files:read" not in self.scopes:
            return web.Response(text="<html><title>Slack | Sign in</title></html>", content_type="text/html")
        await asyncio.sleep(self.file_seconds)
        data, type_ = self.workspace.files[name]
        return web.Response(body=data, content_type=type_, headers={"Content-Disposition": "attachment"})

    async def _response(self, request: web.Request) -> web.Response:
        self.answers.append(await request.json())
        return web.Response(text="ok")


async def _arguments(request: web.Request) -> Json:
    if request.content_type == "application/json" and request.match_info["method"].startswith(TAKE_NO_JSON):
        return {}
    if request.content_type == "application/json":
        return dict(await request.json())
    return {**request.query, **{key: str(value) for key, value in (await request.post()).items()}}


async def _broken(fault: Fault, request: web.Request) -> web.StreamResponse:
    if fault.end:
        await break_off(request, fault.end)
        return web.Response()
    body = fault.body if fault.body is not None else json.dumps({"ok": not fault.error, "error": fault.error})
    kind = "application/json" if body.startswith("{") else "text/html"
    return web.Response(status=fault.status, headers=fault.headers, text=body, content_type=kind)


def _said(args: Json) -> list[str]:
    """All texts of a call."""
    chunks = args.get("chunks") or []
    return [args.get("text") or "", args.get("markdown_text") or "", *texts_of(_blocks(args)), *texts_of(chunks)]


def _blocks(args: Json) -> list[Json]:
    blocks = args.get("blocks") or []
    return json.loads(blocks) if isinstance(blocks, str) else blocks
