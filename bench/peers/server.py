"""The real model server with a recorder before it: prompts are really prefilled, replies are those of the script.

Each request is passed on with one adapter or none and for one token, laid out as Gemma 3's own chat template does it,
or as it came for an adapter, which has a layout of its own; what the server says of its prompt is kept. The caller gets
the scripted text in pieces, from the moment at which the server had its first token.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Self

import httpx
from aiohttp import web

from bench.peers.conversation import NOTES, Exchange, conversation
from bot.engine import Engine

_PIECE: Final = re.compile(r"\s*\S+")
_SUMMARY: Final = "You keep the notes of a chat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to the model."""

    turn: int
    """From 0."""
    purpose: str
    """"rewrite", "answer" or "summary"."""
    prompt_tokens: int
    prefilled_tokens: int
    """Of the prompt, what was not in the server's cache and had to be computed."""
    first_token: float
    """Monotonic seconds: when the caller got its first piece of text."""


class Recorder:
    """A server between the systems and the model. `url` is good for an OpenAI client."""

    def __init__(
        self, engine: Engine, adapter: str = "summarize", slot_for: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        """`adapter`: for what purpose the embedded model has the one that is used; it has none for summaries.

        `slot_for`: by purpose, the slot that is asked for.
        """
        self._slot_for, self._layout = slot_for, _whole if adapter == "rewrite" else gemma_chat
        assert engine.chat is not None
        self._endpoint = engine.chat
        self._fields = engine.chat.fields_for[adapter]
        self._context_tokens = engine.context_tokens
        self.url = ""
        self.turn = 0
        self._turns = conversation()
        self.calls: list[Call] = []

    @property
    def model(self) -> str:
        return self._endpoint.model

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        app = web.Application(client_max_size=2**24)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
            async with httpx.AsyncClient(trust_env=False, timeout=300) as self._client:
                yield self
        finally:
            await runner.cleanup()

    async def _models(self, request: web.Request) -> web.Response:
        entry = {"id": self._endpoint.model, "object": "model", "max_model_len": self._context_tokens}
        return web.json_response({"object": "list", "data": [entry]})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        purpose, text = _reply(body["messages"], self._turns[self.turn])
        if purpose == "answer" and self.turn and self._turns[self.turn - 1].answer not in _whole(body["messages"]):
            raise RuntimeError("the answer before is not in the prompt as it was given: not the same work for all")
        told = await self._prefill(body["messages"], self._slot_for.get(purpose, -1))
        usage = told["usage"] | {"completion_tokens": len(_PIECE.findall(text))}
        self.calls.append(
            Call(
                turn=self.turn,
                purpose=purpose,
                prompt_tokens=usage["prompt_tokens"],
                prefilled_tokens=told["timings"]["prompt_n"],
                first_token=time.perf_counter(),
            )
        )
        frame: dict[str, object] = {"id": "1", "created": 1, "model": self._endpoint.model}
        if not body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            return web.json_response({**frame, "object": "chat.completion", "choices": [choice], "usage": usage})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        frame["object"] = "chat.completion.chunk"
        for piece in _PIECE.findall(text):
            await response.write(_event(frame | _choice({"role": "assistant", "content": piece}, None)))
        await response.write(_event(frame | _choice({}, "stop")))
        await response.write(_event(frame | {"choices": [], "usage": usage}))
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _prefill(self, messages: list[dict[str, Any]], slot: int) -> dict[str, Any]:
        response = await self._client.post(
            f"{self._endpoint.base_url}/completions",
            json={
                "prompt": self._layout(messages),
                "max_tokens": 1,
                "temperature": 0,
                "id_slot": slot,
                **self._fields,
            },
            headers={"Authorization": f"Bearer {self._endpoint.api_key}"},
        )
        response.raise_for_status()
        told: dict[str, Any] = response.json()
        return told


def _reply(messages: list[dict[str, Any]], exchange: Exchange) -> tuple[str, str]:
    """What is asked for, known by what the prompt holds, and the scripted reply."""
    prompt = _whole(messages)
    # A short passage may be the whole of an answer, which stands in later prompts.
    told = "\n".join(turn.answer for turn in conversation())
    held = [passage.text in prompt for passage in exchange.passages if passage.text.rstrip(".") not in told]
    if not held:
        raise RuntimeError("answers hold all of a turn's passages: nothing tells what a prompt is for")
    if all(held):
        return "answer", exchange.answer
    if any(held):
        raise RuntimeError("a prompt holds some of the passages only: not the same work for all")
    return ("summary", NOTES) if prompt.startswith(_SUMMARY) else ("rewrite", exchange.query)


def gemma_chat(messages: list[dict[str, Any]]) -> str:
    """The prompt that Gemma 3's chat template makes: it has no system role, so instructions open the first message."""
    head = "".join(f"{message['content']}\n\n" for message in messages if message["role"] == "system")
    turns = ""
    for message in messages:
        if message["role"] == "system":
            continue
        role = "model" if message["role"] == "assistant" else "user"
        turns += f"<start_of_turn>{role}\n{head}{str(message['content']).strip()}<end_of_turn>\n"
        head = ""
    return f"{turns}<start_of_turn>model\n"


def _whole(messages: list[dict[str, Any]]) -> str:
    return "\n".join(str(message["content"]) for message in messages)


def _choice(delta: dict[str, str], finish: str | None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _event(frame: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(frame)}\n\n".encode()
