"""Slack's requests over HTTP: signed, repeated when they are not answered with 200 in time."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import io
import json
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from aiohttp import ClientError, ClientSession, ClientTimeout

from tests.slack_server.faults import Json
from tests.slack_server.sockets import Delivery, Sockets

SIGNING_SECRET: Final = "8f742231b10e8888abcd99yyyzzz85a5"
JSON_TYPE: Final = "application/json"
FORM_TYPE: Final = "application/x-www-form-urlencoded"


class Requests:
    """Deliveries are listed with those of Socket Mode, and repeated as those are."""

    def __init__(self, sockets: Sockets) -> None:
        self._sockets = sockets
        self.url = ""
        """Of the app; empty where it has Socket Mode."""
        self.secret = SIGNING_SECRET
        self.statuses: list[int] = []
        """What the app answered, in order; 0 for nothing."""
        self.headers: list[dict[str, str]] = []
        """Of the requests, in order."""
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, payload: Json, type_: str) -> Delivery:
        """Delivers an event, again if it is not acknowledged."""
        delivery = Delivery(payload, type_)
        self._sockets.deliveries.append(delivery)
        task = asyncio.get_running_loop().create_task(self._deliver(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return delivery

    async def post(self, body: str, type_: str = JSON_TYPE, **headers: str) -> tuple[int, str]:
        """One request, signed as Slack signs; `headers` go over its own. Status and body of the reply."""
        return await self._post(body, {"Content-Type": type_, **self.signature(body), **headers})

    def signature(self, body: str, at: int | None = None) -> dict[str, str]:
        """The headers that sign `body`."""
        stamp = str(int(time.time()) if at is None else at)
        digest = hmac.new(self.secret.encode(), f"v0:{stamp}:{body}".encode(), hashlib.sha256).hexdigest()
        return {"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": f"v0={digest}"}

    async def _post(self, body: str, headers: Mapping[str, str]) -> tuple[int, str]:
        seconds = ClientTimeout(total=self._sockets.ack_seconds)
        async with (
            ClientSession(timeout=seconds) as session,
            session.post(self.url, data=io.BytesIO(body.encode()), headers=headers) as reply,
        ):
            return reply.status, await reply.text()

    async def _deliver(self, delivery: Delivery) -> None:
        body, kind = _body(delivery)
        reason = ""
        for attempt, pause in enumerate((0.0, *self._sockets.retries)):
            await asyncio.sleep(pause)
            retry = {"X-Slack-Retry-Num": str(attempt), "X-Slack-Retry-Reason": reason} if attempt else {}
            headers = {"Content-Type": kind, **self.signature(body), **retry}
            self.headers.append(headers)
            delivery.sent.append(time.monotonic())
            try:
                status, text = await self._post(body, headers)
            except (ClientError, TimeoutError) as error:
                status, text, reason = 0, "", "http_timeout" if isinstance(error, TimeoutError) else "connection_failed"
            self.statuses.append(status)
            if status == 200:
                delivery.acked.append(time.monotonic())
                delivery.response = _response(text)
                delivery.done.set()
                return
            reason = reason if status == 0 else "http_error"
            if delivery.type != "events_api":
                break  # Only events come again.
        delivery.given_up = True
        delivery.done.set()

    async def stop(self) -> None:
        """Ends everything that is under way."""
        for task in list(self._tasks):
            task.cancel()


def _body(delivery: Delivery) -> tuple[str, str]:
    match delivery.type:
        case "events_api":
            return json.dumps(delivery.payload), JSON_TYPE
        case "slash_commands":
            return urlencode(delivery.payload), FORM_TYPE
        case _:
            return urlencode({"payload": json.dumps(delivery.payload)}), FORM_TYPE


def _response(text: str) -> Json | None:
    if not text:
        return None
    return dict(json.loads(text)) if text.startswith("{") else {"text": text}
