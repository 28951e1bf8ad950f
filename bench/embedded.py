"""The embedded models as endpoints that are known by address and key, for measuring what the bot does not show."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from bench.run import Run, settings_for
from bot.config import Settings
from bot.engine import CONTEXT_TOKENS, EMBEDDING_TOKENS, Endpoint, Engine, start
from bot.wiring import EMBEDDED_ANSWER_TOKENS, EMBEDDED_PASSAGES


@asynccontextmanager
async def engine(run: Run, *, chat: bool) -> AsyncIterator[Engine]:
    """The embedded embedder, and the chat model if `chat`, with the model files of `DATA_DIR`."""
    started = await start(run.data_dir, chat=chat, on_step=lambda step: run.advance(step, 0, 0))
    try:
        yield started
    finally:
        await started.close()


def settings_as_embedded(data_dir: Path, started: Engine) -> Settings:
    """The settings with which the bot uses both models of `started` just as if it had started them itself."""
    assert started.chat is not None
    assert started.embeddings is not None
    return settings_for(
        data_dir,
        LLM_BASE_URL=started.chat.base_url,
        LLM_API_KEY=started.chat.api_key,
        LLM_MODEL=started.chat.model,
        LLM_PROFILE="base",
        LLM_CONTEXT_TOKENS=str(CONTEXT_TOKENS),
        LLM_MAX_TOKENS=str(EMBEDDED_ANSWER_TOKENS),
        RETRIEVAL_PASSAGES=str(EMBEDDED_PASSAGES),
        EMBEDDING_BASE_URL=started.embeddings.base_url,
        EMBEDDING_API_KEY=started.embeddings.api_key,
        EMBEDDING_MODEL=started.embeddings.model,
        EMBEDDING_MAX_TOKENS=str(EMBEDDING_TOKENS),
    )


async def tokens(client: httpx.AsyncClient, endpoint: Endpoint, text: str) -> int:
    """How many tokens the endpoint's model makes of `text`."""
    response = await client.post(
        f"{endpoint.base_url.removesuffix('/v1')}/tokenize",
        json={"content": text},
        headers={"Authorization": f"Bearer {endpoint.api_key}"},
    )
    response.raise_for_status()
    return len(response.json()["tokens"])
