"""A place and the desk behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.desk import Desk, desk_at
from tests.contract.places import PLACES, Place
from tests.discord.conftest import _put_back

__all__ = ["_put_back"]


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with desk_at(tmp_path / "conversations.db") as desk:
        yield desk


@pytest.fixture(params=list(PLACES))
async def place(request: pytest.FixtureRequest, desk: Desk) -> AsyncIterator[Place]:
    async with PLACES[request.param](desk) as place:
        yield place
