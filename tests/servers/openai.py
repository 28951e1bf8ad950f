"""A scripted OpenAI-style server on a real port: it answers, records what it was asked, and misbehaves.

    async with OpenAIServer() as server:
        server.script(Reply(pieces=("Six ", 0.1, "bar.")), Reply(status=503), Reply(end="reset"))
        ...                                  # a client, in this process or another, uses server.base_url
        assert server.chats[0]["temperature"] == 0
        assert server.max_in_flight == 1

Scripted replies are used up in order; after them `server.default(request_json)` answers. With
`server.nemesis = False` each reply loses its faults, which proves that a test depends on them.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Self

from aiohttp import web

from tests.servers.replies import Json, Reply, break_off, choice, embedding, event, writer

__all__ = ["CHAT", "EMBEDDINGS", "MODELS", "TOKENIZE", "OpenAIServer", "Recorded", "Reply", "embedding"]
CHAT, EMBEDDINGS, MODELS = "/v1/chat/completions", "/v1/embeddings", "/v1/models"
TOKENIZE = "/tokenize"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One request as it came in."""

    path: str
    body: Json
    headers: Mapping[str, str]
    at: float
    """Monotonic seconds."""
    port: int
    """Of the client: the same for requests on one connection."""


class _UntilClosed(web.StreamResponse):
    """A response whose end is the end of the connection, so that a cut looks like a good end."""

    _length_check = False


class OpenAIServer:
    """See the module. All attributes may be changed while it runs."""

    def __init__(self, *, model: str = "test-model", context_tokens: int | None = None) -> None:
        self.model = model
        self.context_tokens = context_tokens
        """Told in the list of models; a longer prompt is refused with 400."""
        self.api_key = ""
        """When set, requests without it get 401."""
        self.width = 64
        """Of the embeddings."""
        self.props: Json | None = None
        """Body of llama.cpp's /props."""
        self.tokenizer_info: Json | None = None
        """Body of vLLM's /tokenizer_info."""
        self.tokenizer: Literal["llama.cpp", "vllm", ""] = "llama.cpp"
        """Whose /tokenize it has; "" for none. `<eos>` is its control token."""
        self.nemesis = True
        self.count: Callable[[str], int] = lambda text: len(text) // 4 + 1
        """Tokens of a text."""
        self.default: Callable[[Json], Reply] = lambda body: Reply()
        self.requests: list[Recorded] = []
        self.in_flight = self.max_in_flight = 0
        """Chat requests being answered."""
        self.disconnects = 0
        """Clients that went away before the end of their response."""
        self._scripts: defaultdict[str, deque[Reply]] = defaultdict(deque)
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def base_url(self) -> str:
        """What `LLM_BASE_URL` is set to."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def chats(self) -> list[Json]:
        """Bodies of the chat requests, in order."""
        return [request.body for request in self.requests if request.path == CHAT]

    @property
    def connections(self) -> int:
        """Open connections, idle ones among them."""
        return len(self._runner.server.connections) if self._runner and self._runner.server else 0

    def script(self, *replies: Reply, path: str = CHAT) -> None:
        """Queues replies for requests to come. Other paths than chat use status, body and faults only."""
        self._scripts[path].extend(replies)

    async def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        """Waits for a condition; fails when it takes longer, which is longer than any busy machine takes."""
        start = time.monotonic()
        while not condition():
            assert time.monotonic() - start < seconds, f"not so within {seconds} s"
            await asyncio.sleep(0.005)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.stop()

    async def start(self, port: int = 0) -> None:
        """Listens, on the former port again after a `stop`."""
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post(CHAT, self._route(self._chat))
        app.router.add_post(EMBEDDINGS, self._route(self._embeddings))
        app.router.add_get(MODELS, self._route(self._models))
        app.router.add_get("/props", self._route(self._props))
        app.router.add_get("/tokenizer_info", self._route(self._tokenizer_info))
        app.router.add_post(TOKENIZE, self._route(self._tokenize))
        # Cancelling handlers is how a client that went away is noticed while nothing is written.
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.05, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port or self._port, reuse_address=True)
        await site.start()
        assert site._server is not None
        self._port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]

    async def stop(self) -> None:
        """Closes everything; what was recorded stays."""
        if self._runner is not None:
            await self._runner.cleanup()
        self._runner = None

    def _route(
        self, answer: Callable[[web.Request, Json], Awaitable[web.StreamResponse]]
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            body = await request.json() if request.can_read_body else {}
            port = request.transport.get_extra_info("peername")[1] if request.transport else 0
            headers = dict(request.headers)
            self.requests.append(
                Recorded(path=request.path, body=body, headers=headers, at=time.monotonic(), port=port)
            )
            if self.api_key and request.headers.get("Authorization") != f"Bearer {self.api_key}":
                return web.json_response({"error": {"message": "Incorrect API key"}}, status=401)
            script = self._scripts[request.path]
            with self._watched(request.path == CHAT):
                if not script:
                    return await answer(request, body)
                reply = script.popleft()
                return await self._play(reply if self.nemesis else reply.sound(), request, body)
            return web.Response()  # To a client that went away.

        return handle

    @contextmanager
    def _watched(self, counted: bool) -> Iterator[None]:
        self.in_flight += counted
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            yield
        except ConnectionError:
            self.disconnects += 1
        except asyncio.CancelledError:
            self.disconnects += 1
            raise
        finally:
            self.in_flight -= counted

    async def _chat(self, request: web.Request, body: Json) -> web.StreamResponse:
        tokens = self._prompt_tokens(body)
        if self.context_tokens and tokens > self.context_tokens:
            text = f"request ({tokens} tokens) exceeds the available context size ({self.context_tokens} tokens)"
            error = {"code": 400, "message": text, "type": "exceed_context_size_error"}
            return web.json_response({"error": error}, status=400)
        reply = self.default(body)
        return await self._play(reply if self.nemesis else reply.sound(), request, body)

    async def _play(self, reply: Reply, request: web.Request, body: Json) -> web.StreamResponse:
        await asyncio.sleep(reply.delay)
        if reply.before:
            await break_off(request, reply.before)
            return web.Response()
        if reply.body is not None or reply.status != 200:
            content = reply.body if reply.body is not None else '{"error": {"message": "scripted"}}'
            raw = content.encode() if isinstance(content, str) else content
            return web.Response(status=reply.status, headers=reply.headers, body=raw)
        if reply.plain or not body.get("stream"):
            return web.json_response(self._whole(reply, body), headers=reply.headers)
        kind = _UntilClosed if reply.end == "close" else web.StreamResponse
        response = kind(headers={"Content-Type": "text/event-stream", **reply.headers})
        if reply.end == "close":
            response.force_close()
        await response.prepare(request)
        await self._write(reply, request, body, writer(response, reply.chunk))
        return response

    async def _write(
        self, reply: Reply, request: web.Request, body: Json, write: Callable[[bytes], Awaitable[None]]
    ) -> None:
        if reply.role:
            await write(event({"choices": [choice({"role": "assistant", "content": ""})]}))
        for piece in reply.pieces:
            if isinstance(piece, str):
                await write(event({"choices": [choice({"content": piece})]}))
            elif isinstance(piece, bytes):
                await write(piece)
            else:
                await asyncio.sleep(piece)
        while reply.drip:
            await asyncio.sleep(reply.drip)
            await write(b": ping\n\n")
        if reply.end:
            await break_off(request, reply.end)
            return
        if reply.finish:
            await write(event({"choices": [choice({}, reply.finish)]}))
        wants_usage = (body.get("stream_options") or {}).get("include_usage")
        if wants_usage and (usage := self._usage(reply, body)):
            await write(event({"choices": [], "usage": usage}))
        if reply.done:
            await write(b"data: [DONE]\n\n")

    def _whole(self, reply: Reply, body: Json) -> Json:
        text = "".join(piece for piece in reply.pieces if isinstance(piece, str))
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reply.finish}
        return {"object": "chat.completion", "choices": [choice], "usage": self._usage(reply, body)}

    def _usage(self, reply: Reply, body: Json) -> Json | None:
        if reply.usage is None or isinstance(reply.usage, Mapping):
            return dict(reply.usage) if reply.usage is not None else None
        prompt = self._prompt_tokens(body) // (2 if reply.usage == "halved" else 1)
        completion = sum(self.count(piece) for piece in reply.pieces if isinstance(piece, str))
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def _prompt_tokens(self, body: Json) -> int:
        return sum(4 + self.count(str(message.get("content"))) for message in body.get("messages", ()))

    async def _models(self, request: web.Request, body: Json) -> web.StreamResponse:
        entry: Json = {"id": self.model, "object": "model", "owned_by": "test"}
        if self.context_tokens:
            entry["max_model_len"] = self.context_tokens
        return web.json_response({"object": "list", "data": [entry]})

    async def _props(self, request: web.Request, body: Json) -> web.StreamResponse:
        return web.json_response(self.props, status=200 if self.props else 404)

    async def _tokenizer_info(self, request: web.Request, body: Json) -> web.StreamResponse:
        return web.json_response(self.tokenizer_info, status=200 if self.tokenizer_info else 404)

    async def _tokenize(self, request: web.Request, body: Json) -> web.StreamResponse:
        field = "prompt" if self.tokenizer == "vllm" else "content"
        if not self.tokenizer or (self.tokenizer == "vllm" and body.get("model") != self.model):
            return web.json_response({"detail": "Not Found"}, status=404)
        if self.tokenizer == "vllm" and not isinstance(body.get(field), str):
            return web.json_response({"error": {"message": "Field required"}}, status=400)
        tokens: list[int] = []
        for piece in re.split("(<eos>)", str(body.get(field, ""))):
            tokens += [1] if piece == "<eos>" else range(2, 2 + self.count(piece)) if piece else []
        if self.tokenizer == "vllm":
            return web.json_response({"count": len(tokens), "max_model_len": self.context_tokens, "tokens": tokens})
        return web.json_response({"tokens": tokens})

    async def _embeddings(self, request: web.Request, body: Json) -> web.StreamResponse:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        data = [
            {"object": "embedding", "index": index, "embedding": embedding(text, self.width)}
            for index, text in enumerate(texts)
        ]
        return web.json_response({"object": "list", "data": data, "model": body.get("model", self.model)})
