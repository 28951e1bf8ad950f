"""The files of a message on Slack: text is read with the bot's token, from Slack's own hosts and nowhere else."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Final
from urllib.parse import urlsplit

from adapters.attachments import File, with_files
from adapters.slack.events import Json

log = logging.getLogger(__name__)

SECONDS: Final = 1.4
"""For all files of a message: the event has to be acknowledged within three."""
SLACK: Final = ("slack.com", "slack-gov.com")


class Files:
    """For one workspace."""

    def __init__(self, token: str, api_base_url: str) -> None:
        host = urlsplit(api_base_url).netloc
        self._hosts = frozenset({f"files.{host}" if host in SLACK else host})
        self._headers = {"Authorization": f"Bearer {token}"}

    async def read(self, text: str, files: tuple[Json, ...], until: float) -> tuple[str, tuple[str, ...]]:
        """`text` with what its text files hold, and the names of the files that were not read until a moment of the
        monotonic clock."""
        if not files:
            return text, ()
        told = [_file(file) for file in files]
        try:
            left = min(SECONDS, until - time.monotonic())
            return await asyncio.wait_for(with_files(text, told, self._hosts, self._headers), left)
        except TimeoutError:
            log.info("The files of a message could not be read in time")
            return text, tuple(file.name for file in told)


def _file(file: Json) -> File:
    # Without an address: deleted, hidden by the plan, or of another workspace.
    url = file.get("url_private_download") or file.get("url_private") or ""
    name = str(file.get("name") or file.get("title") or "a file")
    return File(name=name, url=str(url), content_type=str(file.get("mimetype") or ""))
