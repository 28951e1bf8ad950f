"""The tokenizer of an endpoint that offers one under /tokenize: llama.cpp and vLLM.

Many texts are counted by one request: they are joined by a control token, of which the sanitizer leaves none in
any text, and the tokens of the reply are counted between its occurrences. A tokenizer takes control tokens out
before it looks at the rest, so each text is counted as if it stood alone.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any, Final

from core.breaker import Breaker
from core.deadlines import Clock, Deadlines
from core.errors import ModelGarbage
from core.exchange import Connections, Exchange
from core.llm_place import LLM, Named
from core.llm_request import encoded
from core.sanitize import has_control_token

log = logging.getLogger(__name__)

SECONDS: Final = 1.0
"""For one request: an answer waits for it."""
USUAL: Final = ("<eos>", "<|im_end|>", "<|eot_id|>", "</s>", "<|endoftext|>")
"""Control tokens, one of which almost every model has, for endpoints that name none."""
_CANDIDATES: Final = 8
_REPLY_BYTES: Final = 4_000_000
_PASSING: Final = frozenset({408, 425, 429})
"""Refusals that say nothing of whether there is a tokenizer."""


class HttpTokenizer:
    """A `Tokenizer` over HTTP. Connects on the first call; close it with `aclose`."""

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        *,
        model: str = "",
        special_tokens: Sequence[str] = (),
        seconds: float = SECONDS,
        named: Named = LLM,
    ) -> None:
        """`special_tokens`: control tokens of the model, as far as the endpoint names them."""
        self._connections = Connections(base_url, api_key, named)
        self._url = f"{self._connections.base.removesuffix('/v1')}/tokenize"
        self._model = model
        broken = [token for token in (*special_tokens, *USUAL) if has_control_token(token)]
        self._candidates = list(dict.fromkeys(broken))[:_CANDIDATES]
        self._deadlines = Deadlines(connect=seconds, first_token=seconds, gap=seconds, wall=seconds)
        self._breaker = Breaker("tokenizer", failures=3, seconds=60.0)
        self._fields: tuple[str, ...] = ("content", "prompt")
        """What llama.cpp and vLLM call the text; one of them once it is known which of them this is."""
        self._separator: tuple[str, int] | None = None
        """A control token of the model, and its number."""
        self._absent = False

    async def aclose(self) -> None:
        """Closes all connections; running calls fail."""
        await self._connections.aclose()

    async def count(self, texts: Sequence[str]) -> list[int] | None:
        """See `core.ports.Tokenizer`. An endpoint that has no tokenizer is asked once."""
        if self._absent:
            return None
        with self._breaker.admit():
            separator = self._separator or await self._find_separator()
            if separator is None:
                return None
            token, number = separator
            found = await self._tokens(token.join(texts))
            if found is None:
                self._give_up("it refuses to count")
                return None
            counts = _between(found, number)
            if len(counts) != len(texts):
                raise ModelGarbage(f"The tokenizer of {self._connections.where} did not keep the texts apart.")
            return counts

    async def _find_separator(self) -> tuple[str, int] | None:
        for token in self._candidates:
            try:
                found = await self._tokens(token * 3)
            except ModelGarbage:
                found = None
            if found is None:
                self._give_up("it has no tokenizer that Threadwise knows")
                return None
            if len(found) == 3 and len(set(found)) == 1:
                self._separator = token, found[0]
                return self._separator
        self._give_up("no control token of its model is known")
        return None

    def _give_up(self, why: str) -> None:
        self._absent = True
        log.info("Tokens are estimated, not counted by %s: %s.", self._connections.where, why)

    async def _tokens(self, text: str) -> list[int] | None:
        """The numbers of the tokens of `text`, control tokens among them; None if the endpoint does not tell."""
        body = {"model": self._model, "add_special": False, "parse_special": True, "add_special_tokens": False}
        exchange = Exchange(self._connections, Clock(self._deadlines))
        try:
            refusal = await exchange.send("POST", self._url, encoded(body | dict.fromkeys(self._fields, text)))
            if refusal is not None:
                if (300 <= refusal.status < 500 and refusal.status not in _PASSING) or refusal.status == 501:
                    return None
                raise refusal.error(self._connections.where)
            reply: Any = json.loads(await exchange.body(_REPLY_BYTES))
        except (ValueError, RecursionError) as error:
            raise self._garbage() from error
        finally:
            await exchange.close()
        numbers = reply.get("tokens") if isinstance(reply, dict) else None
        if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
            raise self._garbage()
        self._fields = ("prompt",) if "count" in reply else ("content",)
        return numbers

    def _garbage(self) -> ModelGarbage:
        return ModelGarbage(f"The tokenizer of {self._connections.where} does not answer as llama.cpp's and vLLM's do.")


def _between(numbers: Sequence[int], separator: int) -> list[int]:
    counts = [0]
    for number in numbers:
        if number == separator:
            counts.append(0)
        else:
            counts[-1] += 1
    return counts
