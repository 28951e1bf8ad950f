"""Tokens by workspace: found by it alone, or by its organization, and gone when the app is removed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from adapters.store.installations import Installed
from tests.store.conftest import Opener

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=1)
ONE = Installed(place="T1", name="Works", token="xoxb-1", bot="B1", user="U1", scopes="chat:write", at=NOW)
TWO = replace(ONE, place="T2", token="xoxb-2")
ALL = replace(ONE, place="E1", enterprise="E1", org_wide=True, token="xoxb-all")


async def test_a_workspace_has_its_own_token_after_a_restart(open_store: Opener):
    store = await open_store()
    for installed in (ONE, TWO):
        await store.installations.save("app", installed)
    await store.close()
    store = await open_store()
    assert await store.installations.find("app", "T1", "") == ONE
    assert await store.installations.find("app", "T2", "") == TWO
    assert await store.installations.find("app", "T3", "") is None
    assert await store.installations.find("another", "T1", "") is None
    assert await store.installations.all("app") == [ONE, TWO]


async def test_a_new_installation_takes_the_place_of_the_old(open_store: Opener):
    store = await open_store()
    await store.installations.save("app", ONE)
    await store.installations.save("app", again := replace(ONE, token="xoxb-new", at=LATER))
    assert await store.installations.all("app") == [again]


async def test_what_was_removed_is_gone_and_what_was_installed_since_is_not(open_store: Opener):
    store = await open_store()
    await store.installations.save("app", replace(ONE, at=LATER))
    await store.installations.save("app", TWO)
    assert not await store.installations.remove("app", "T1", NOW)
    assert not await store.installations.remove("another", "T1", LATER)
    assert await store.installations.remove("app", "T1", LATER)
    assert await store.installations.all("app") == [TWO]


async def test_an_organization_stands_for_its_workspaces_and_takes_them_with_it(open_store: Opener):
    store = await open_store()
    await store.installations.save("app", ALL)
    await store.installations.save("app", replace(TWO, enterprise="E1"))
    found = await store.installations.find("app", "T5", "E1")
    assert found is not None
    assert (found.place, found.token) == ("T5", "xoxb-all")
    assert await store.installations.find("app", "T5", "") == found, "later the workspace alone is told"
    assert await store.installations.find("app", "T6", "E2") is None
    assert await store.installations.remove("app", "E1", NOW)
    assert [installed.place for installed in await store.installations.all("app")] == ["T2"]


async def test_the_bytes_of_a_token_that_was_removed_are_gone(open_store: Opener):
    store = await open_store()
    await store.installations.save("app", replace(ONE, token="xoxb-canary"))
    await store.installations.remove("app", "T1", NOW)
    path = store.database.path
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert b"canary" not in path.read_bytes()


def test_a_token_is_not_in_its_own_text():
    assert "xoxb" not in repr(ONE)
