"""Logging: where it goes, how much of it, and no secret in it."""

from __future__ import annotations

import logging
import re
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_FILE_BYTES: Final = 2_000_000
# Libraries tell tokens, bodies and other people's text at DEBUG.
_CHATTY: Final = (
    "httpx",
    "httpcore",
    "chromadb",
    "sqlalchemy",
    "aiosqlite",
    "alembic",
    "asyncio",
    "markdown_it",
    "discord",
    "aiohttp",
    "slack_bolt",
    "slack_sdk",
)
_SECRET: Final = re.compile(
    r"xox[a-z]-[\w-]+|xapp-[\w-]+|sk-[\w-]{8,}|(?<=Bearer )[^\s'\"]+|(?<=://)[^/\s@]+(?=@)|[\w-]{23,28}\.[\w-]{6}\.[\w-]{27,}"
)


class _Redacted(logging.Formatter):
    """The usual format, with what looks like a secret taken out of messages and tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        return _SECRET.sub("[secret]", super().format(record))


def set_up(level: str, path: Path | None = None) -> None:
    """Logs of ours at `level`, of libraries at WARNING; into the file `path`, else to standard error."""
    handler: logging.Handler
    if path is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        handler = RotatingFileHandler(path, maxBytes=_FILE_BYTES, backupCount=1, encoding="utf-8", delay=True)
    # A log that cannot be written (disk full, directory gone) must not litter the terminal with tracebacks.
    logging.raiseExceptions = False
    handler.setFormatter(_Redacted(_FORMAT))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
