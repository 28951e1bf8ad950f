"""An organization that installs the app for all its workspaces at once."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from adapters.store.installations import Installed
from tests.slack.conftest import Quill
from tests.slack.workspaces.conftest import (
    ANSWER,
    OTHER_TEAM,
    OTHER_TOKEN,
    QUESTION,
    in_workspace,
    marked,
)
from tests.slack_server import ASKER, BOT, BOT_USER, SlackServer
from tests.slack_server.server import CLIENT_ID
from tests.slack_server.state import Workspace


async def installed_everywhere(quill: Quill) -> None:
    """The app, in an organization."""
    everywhere = Installed(
        place="E1", enterprise="E1", org_wide=True, token=OTHER_TOKEN, bot=BOT, user=BOT_USER, at=datetime.now(UTC)
    )
    await quill.store.installations.save(CLIENT_ID, everywhere)


def asks_in_organization(slack: SlackServer, other: Workspace) -> str:
    """Somebody asks in a workspace of the organization; the `ts`."""
    message = other.add("C1", user=ASKER, text=QUESTION)
    asked = str(message["ts"])
    event = {**message, "type": "app_mention", "channel": "C1", "event_ts": asked}
    who = {"team_id": OTHER_TEAM, "enterprise_id": "E1", "user_id": BOT_USER, "is_bot": True}
    slack._send(
        {
            "type": "event_callback",
            "team_id": OTHER_TEAM,
            "enterprise_id": "E1",
            "event": event,
            "authorizations": [who | {"is_enterprise_install": True}],
        },
        "events_api",
    )
    return asked


async def test_an_organization_that_installs_the_app_has_it_in_each_workspace(
    slack: SlackServer, quill: Quill, other: Workspace
):
    await installed_everywhere(quill)
    quill.model.replies["generate"].append(ANSWER)
    asked = asks_in_organization(slack, other)
    await quill.at_rest()
    assert len(slack.shown("C1", asked, other)) == 1
    assert len(await quill.store.turns(in_workspace(other, asked))) == 1


async def test_what_an_organizations_workspace_missed_is_read_up_with_its_id(
    slack: SlackServer, quill: Quill, other: Workspace
):
    slack._installed[OTHER_TOKEN][1].org_wide = True
    await installed_everywhere(quill)
    quill.model.replies["generate"] += [ANSWER] * 3
    asks_in_organization(slack, other)
    await marked(quill, OTHER_TEAM)
    await quill.at_rest()
    await quill.stop()
    missed = str(other.add("C2", user=ASKER, text=QUESTION)["ts"])
    await quill.start()
    await quill.connected()
    asks_in_organization(slack, other)
    await slack.until(lambda: len(slack.shown("C2", missed, other)) == 1, 10)
    await quill.at_rest()


@pytest.mark.parametrize("listed", ["T9", "E1", OTHER_TEAM])
async def test_an_organization_is_listed_by_its_own_id_or_by_those_of_its_workspaces(
    slack: SlackServer, quill: Quill, listed: str
):
    await installed_everywhere(quill)
    await quill.restart(teams=frozenset({listed}))
    found = await quill.socket._workspace.of(OTHER_TEAM, "E1")
    assert (found is not None) == (listed != "T9")
