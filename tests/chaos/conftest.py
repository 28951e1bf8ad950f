from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.chaos.stage import ingest


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a few documents in it, to be copied."""
    data_dir = tmp_path_factory.mktemp("documents") / "data"
    asyncio.run(ingest(data_dir))
    return data_dir
