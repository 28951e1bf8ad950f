"""Socket Mode: addresses that are good once and for a while, envelopes, acknowledgements, redelivery."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from aiohttp import WSMsgType, web

from tests.slack_server.faults import Json
from tests.slack_server.state import APP

ACK_SECONDS: Final = 3.0
MOST_SOCKETS: Final = 10


@dataclass
class Delivery:
    """One event on its way to the app."""

    payload: Json
    type: str
    sent: list[float] = field(default_factory=list)
    """When it was sent; more than once if it was not acknowledged in time."""
    acked: list[float] = field(default_factory=list)
    response: Json | None = None
    """What came with the acknowledgement."""
    given_up: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def seconds(self) -> float:
        """From the last sending to the first acknowledgement."""
        return self.acked[0] - self.sent[-1]


class Sockets:
    """See the module. All attributes may be changed while the server runs."""

    def __init__(self) -> None:
        self.retries: Sequence[float] = (0.0, 60.0, 300.0)
        """Seconds before each redelivery."""
        self.ack_seconds = ACK_SECONDS
        self.address_seconds = 30.0
        """How long an address is good."""
        self.refused = False
        """Whether handshakes fail."""
        self.mute = False
        """Whether a connection that was made hears nothing: no hello, no events, no pongs."""
        self.alternating = False
        """Whether events go to the open connections in turn, as Slack does where there are several."""
        self.deliveries: list[Delivery] = []
        self.hellos: list[float] = []
        self._tickets: dict[str, float] = {}
        self._waiting: dict[str, Delivery] = {}
        self._sockets: list[web.WebSocketResponse] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers, self._turns = itertools.count(1), itertools.count()

    @property
    def connected(self) -> int:
        """Open connections."""
        return len(self._sockets)

    def address(self, host: str) -> str:
        """A new address for a client."""
        ticket = f"ticket-{next(self._numbers)}"
        self._tickets[ticket] = time.monotonic()
        return f"ws://{host}/link/?ticket={ticket}&app_id={APP}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """A client that connects."""
        issued = self._tickets.get(request.query.get("ticket", ""))
        if self.refused or issued is None or time.monotonic() - issued > self.address_seconds:
            return web.Response(status=408)
        del self._tickets[request.query["ticket"]]
        # Pongs are sent by hand, so that they can be left out.
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        if self.mute:
            while not socket.closed:
                await socket.receive()
            return socket
        self._sockets.append(socket)
        try:
            await self._greet(socket)
            async for message in socket:
                if message.type is WSMsgType.PING and not self.mute:
                    await socket.pong(message.data)
                elif message.type is WSMsgType.TEXT:
                    self._acknowledged(json.loads(message.data))
        finally:
            if socket in self._sockets:
                self._sockets.remove(socket)
        return socket

    async def _greet(self, socket: web.WebSocketResponse) -> None:
        if len(self._sockets) > MOST_SOCKETS:
            await socket.send_json({"type": "disconnect", "reason": "too_many_websockets", "debug_info": {}})
            await socket.close()
            return
        info = {"num_connections": len(self._sockets), "connection_info": {"app_id": APP}}
        debug = {"host": "applink", "build_number": 1, "approximate_connection_time": 18060}
        await socket.send_json({"type": "hello", "debug_info": debug, **info})
        self.hellos.append(time.monotonic())

    async def disconnect(self, reason: str, *, close: bool = True) -> None:
        """Says good-bye to all clients: `warning`, `refresh_requested`, `too_many_websockets`, `link_disabled`."""
        for socket in list(self._sockets):
            await socket.send_json({"type": "disconnect", "reason": reason, "debug_info": {"host": "applink"}})
            if close:
                await socket.close()

    async def cut(self) -> None:
        """Ends all connections without a word."""
        for socket in list(self._sockets):
            if socket._req is not None and socket._req.transport is not None:
                socket._req.transport.abort()

    def send(self, payload: Json, type_: str = "events_api") -> Delivery:
        """Delivers an event, again if it is not acknowledged."""
        delivery = Delivery(payload, type_)
        self.deliveries.append(delivery)
        self._spawn(delivery)
        return delivery

    def _spawn(self, delivery: Delivery) -> None:
        task = asyncio.get_running_loop().create_task(self._deliver(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, delivery: Delivery) -> None:
        for attempt, pause in enumerate((0.0, *self.retries)):
            await asyncio.sleep(pause)
            if await self._sent(delivery, attempt):
                return
            if delivery.type != "events_api":
                break  # Only events come again.
        delivery.given_up = True
        delivery.done.set()

    async def _sent(self, delivery: Delivery, attempt: int) -> bool:
        """Whether it was acknowledged in time."""
        envelope = f"envelope-{next(self._numbers)}"
        message: Json = {"envelope_id": envelope, "type": delivery.type, "payload": delivery.payload}
        message["accepts_response_payload"] = delivery.type != "events_api"
        if delivery.type == "events_api":
            message |= {"retry_attempt": attempt, "retry_reason": "timeout" if attempt else ""}
        live = [socket for socket in self._sockets if not socket.closed]
        if not live or self.mute:
            await asyncio.sleep(0.01)
            return False
        self._waiting[envelope] = delivery
        delivery.sent.append(time.monotonic())
        try:
            await live[next(self._turns) % len(live) if self.alternating else -1].send_json(message)
            await asyncio.wait_for(delivery.done.wait(), self.ack_seconds)
        except (TimeoutError, ConnectionError):
            return False
        return True

    def _acknowledged(self, message: Json) -> None:
        delivery = self._waiting.get(message.get("envelope_id", ""))
        if delivery is not None:
            delivery.acked.append(time.monotonic())
            delivery.response = message.get("payload")
            delivery.done.set()

    async def stop(self) -> None:
        """Ends everything that is under way."""
        for task in list(self._tasks):
            task.cancel()
        for socket in list(self._sockets):
            await socket.close()
