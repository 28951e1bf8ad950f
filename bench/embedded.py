"""The embedded models as endpoints that are known by address and key, for measuring what the bot does not show."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from bench.run import Run
from bot.engine import Endpoint, Engine, start


@asynccontextmanager
async def engine(run: Run, *, chat: bool) -> AsyncIterator[Engine]:
    """The embedded embedder, and the chat model if `chat`, with the model files of `DATA_DIR`."""
    started = await start(run.data_dir, chat=chat, on_step=lambda step: run.advance(step, 0, 0))
    try:
        yield started
    finally:
        await started.close()


async def tokens(client: httpx.AsyncClient, endpoint: Endpoint, text: str) -> int:
    """How many tokens the endpoint's model makes of `text`."""
    response = await client.post(
        f"{endpoint.base_url.removesuffix('/v1')}/tokenize",
        json={"content": text},
        headers={"Authorization": f"Bearer {endpoint.api_key}"},
    )
    response.raise_for_status()
    return len(response.json()["tokens"])
