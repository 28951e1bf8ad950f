"""What Discord or the way to it refuses, as the errors that the outbox knows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import discord

from core.errors import ChannelBusy, ChannelError, ChannelGone

log = logging.getLogger(__name__)

UNKNOWN_CHANNEL: Final = 10003
UNKNOWN_MESSAGE: Final = 10008
THREAD_EXISTS: Final = 160004
ARCHIVED: Final = 50083
CALL_SECONDS: Final = 60.0
"""Of one call with all that discord.py repeats and waits in it."""


@asynccontextmanager
async def translated() -> AsyncIterator[None]:
    """Raises `ChannelBusy`, `ChannelGone` or `ChannelError` for what goes wrong inside."""
    try:
        async with asyncio.timeout(CALL_SECONDS):
            yield
    except ChannelError:
        raise
    except discord.RateLimited as limited:
        raise ChannelBusy(retry_after=limited.retry_after) from limited
    except discord.HTTPException as refused:
        raise _meant(refused) from refused
    except (OSError, TimeoutError, aiohttp.ClientError, RuntimeError) as error:
        # RuntimeError: aiohttp says so that its session is closed.
        raise ChannelError(f"Discord could not be reached: {type(error).__name__}.") from error
    except KeyError as error:
        if error.args != ("retry_after",):
            raise
        # discord.py counts on a 429 to say for how long (seen with 2.7.1).
        raise ChannelBusy("Discord answered 429 without a time.") from error


def _meant(refused: discord.HTTPException) -> ChannelError:
    said = f"Discord answered {refused.status} (code {refused.code})."
    if refused.status == 429:
        return ChannelBusy(said, retry_after=_retry_after(refused))
    if refused.status in (401, 408) or refused.status >= 500:
        return ChannelError(said)
    if refused.code not in (UNKNOWN_CHANNEL, UNKNOWN_MESSAGE):
        log.warning("An answer cannot be shown: %s %s", said, refused.text)
    return ChannelGone(said)


def _retry_after(refused: discord.HTTPException) -> float | None:
    told = refused.response.headers.get("Retry-After", "")
    try:
        return max(0.0, float(told))
    except ValueError:
        return None
