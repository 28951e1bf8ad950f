"""The chat model behind one OpenAI-style endpoint: vLLM, llama.cpp, Ollama or a gateway.

A reply is complete only with a finish reason or `[DONE]`; everything else is an error of `core.errors`.
A breaker and deadlines for each purpose. Nothing is repeated here: that is the queue's business
(`core.queued_model`), which knows what else is waiting.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from types import MappingProxyType
from typing import Any, Final

from core.breaker import Breaker
from core.deadlines import Clock, Deadlines
from core.endpoint import (
    EndpointInfo,
    context_in_models,
    context_in_props,
    model_names,
    parallel_of_server,
    slots_in_props,
    special_tokens,
)
from core.errors import ModelError, ModelGarbage, ModelRejected
from core.exchange import Connections, Exchange
from core.llm_place import LLM, Named, Place
from core.llm_refusal import Refusal, retry_after
from core.llm_reply import ReplyReader
from core.llm_request import encoded, request_body
from core.llm_tally import Tally
from core.types import ChatRequest, Delta

__all__ = ["Deadlines", "EndpointInfo", "HttpChatModel", "retry_after"]
log = logging.getLogger(__name__)

REWRITE_DEADLINES: Final = MappingProxyType({"rewrite": Deadlines(wall=3.0)})
_DESCRIBE: Final = Deadlines(first_token=10.0, gap=10.0, wall=10.0)
_LISTING_BYTES: Final = 8_000_000


class HttpChatModel:
    """A `ChatModel` over HTTP. Connects on the first call; close it with `aclose`."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str = "",
        model: str = "",
        deadlines: Deadlines = Deadlines(),
        deadlines_for: Mapping[str, Deadlines] = REWRITE_DEADLINES,
        extra_body: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
        breakers: Mapping[str, Breaker] = MappingProxyType({}),
        named: Named = LLM,
    ) -> None:
        """`deadlines_for`, `extra_body` (more fields of the request) and `breakers` are by purpose,
        `named` are the settings that messages name.

        Without a `model` the endpoint is asked once which one it serves.
        """
        self._connections = Connections(base_url, api_key, named)
        self._model = model
        self._asks_for_model = not model
        self._deadlines = deadlines
        self._deadlines_for = dict(deadlines_for)
        self._extra_body = dict(extra_body)
        self._breakers = dict(breakers)
        self._takes_stream_options = True

    def __repr__(self) -> str:
        return f"HttpChatModel({self._connections.base!r}, model={self._model!r})"

    def __str__(self) -> str:
        return f"{self._model or 'the first that is listed'} at {self._connections.base}"

    @property
    def where(self) -> Place:
        """Host and port, for messages."""
        return self._connections.where

    async def aclose(self) -> None:
        """Closes all connections; running calls fail."""
        await self._connections.aclose()

    def deadlines_of(self, purpose: str) -> Deadlines:
        """The deadlines of calls for this purpose."""
        return self._deadlines_for.get(purpose, self._deadlines)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        """Yields pieces of text, then one delta with `finish` and, if the endpoint counts, `usage`.

        There may be no text at all. Closing the iterator closes the HTTP stream at once.
        """
        breaker = self._breakers.setdefault(request.purpose, Breaker(request.purpose))
        clock = Clock(self.deadlines_of(request.purpose))
        reply = ReplyReader(self._connections.where, self._note)
        with Tally(request.purpose, reply) as tally, breaker.admit() as permit:
            exchange = await self._post(request, clock)
            try:
                async with aclosing(_texts(exchange, reply, clock)) as texts:
                    async for text in texts:
                        yield Delta(text=text)
            finally:
                await exchange.close()
            final = reply.conclude()
            # Now, not after the yield: readers stop at the finish and never come back.
            permit.answered()
            tally.succeeded()
            yield final

    async def describe(self) -> EndpointInfo:
        """What the endpoint tells of itself. Raises `ModelError` if it is not there or refuses the key."""
        clock = Clock(_DESCRIBE)
        listing = await self._get(f"{self._connections.base}/models", clock)
        props = await self._page("props", clock)
        tokenizer = await self._page("tokenizer_info", clock)
        return EndpointInfo(
            reachable=True,
            models=model_names(listing),
            context_tokens=context_in_models(listing, self._model) or context_in_props(props),
            special_tokens=special_tokens(props, tokenizer),
            parallel=slots_in_props(props) or parallel_of_server(listing),
        )

    async def _page(self, name: str, clock: Clock) -> object:
        """A page beside /v1 that only some servers have: llama.cpp's props, vLLM's tokenizer_info."""
        with suppress(ModelError):
            return await self._get(f"{self._connections.base.removesuffix('/v1')}/{name}", clock)
        return None

    async def _post(self, request: ChatRequest, clock: Clock) -> Exchange:
        body = request_body(
            request,
            self._model or await self._ask_for_model(clock),
            self._extra_body.get(request.purpose, {}),
            stream_options=self._takes_stream_options,
        )
        while True:
            exchange = Exchange(self._connections, clock)
            refusal = await exchange.send("POST", f"{self._connections.base}/chat/completions", encoded(body))
            if refusal is None:
                return exchange
            self._note(f"HTTP {refusal.status}: {refusal.text}")
            if "stream_options" not in body or not refusal.names("stream_options"):
                raise self._failure(refusal)
            self._takes_stream_options = False
            del body["stream_options"]

    def _failure(self, refusal: Refusal) -> ModelError:
        if refusal.status == 404 and self._asks_for_model:
            self._model = ""  # It may serve another one by now.
        return refusal.error(self._connections.where)

    async def _ask_for_model(self, clock: Clock) -> str:
        names = model_names(await self._get(f"{self._connections.base}/models", clock))
        if not names:
            raise ModelRejected(f"{self.where} does not say which models it serves: set {self.where.named.model}.")
        if len(names) > 1:
            log.warning(
                "%s is not set and %d models are served: using %.80r.",
                self.where.named.model,
                len(names),
                names[0],
            )
        self._model = names[0]
        return self._model

    async def _get(self, url: str, clock: Clock) -> object:
        """The JSON under `url`, or `None` where there is no such page."""
        exchange = Exchange(self._connections, clock)
        try:
            refusal = await exchange.send("GET", url)
            if refusal is None:
                return json.loads(await exchange.body(_LISTING_BYTES))
        except (ValueError, RecursionError) as error:
            message = f"{self.where} does not answer like an OpenAI-style endpoint: check {self.where.named.url}."
            raise ModelGarbage(message) from error
        finally:
            await exchange.close()
        if refusal.status in (400, 404, 405, 501):
            return None
        raise self._failure(refusal)

    def _note(self, text: str) -> None:
        """Logs what the endpoint said, for debugging only: it may quote the prompt."""
        log.debug("%s said: %.500r", self._connections.where, self._connections.redacted(text))


async def _texts(exchange: Exchange, reply: ReplyReader, clock: Clock) -> AsyncGenerator[str, None]:
    """The pieces of text of a reply, up to its end or `[DONE]`."""
    async for chunk in exchange:
        for text in reply.feed(chunk):
            if text:
                yield text
            # After the yield: the time that the reader took is not the model's.
            clock.progressed()
        if reply.done:
            break
        if reply.finish is not None:
            exchange.finish_soon()
    for text in reply.end():
        if text:
            yield text
    await exchange.drain()
