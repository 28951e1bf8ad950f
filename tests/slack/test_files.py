"""Files that come with a question: text is read, with the token and from Slack alone; others are named."""

from __future__ import annotations

import pytest

from adapters.attachments import CAP
from tests.slack.conftest import AT, Quill, TypingModel
from tests.slack_server import ASKER, SlackServer
from tests.slack_server.events import changed
from tests.slack_server.faults import Json
from tests.slack_server.server import BOT_TOKEN

ANSWER = "It takes 0.8 L of oil [1]."
ASKS = f"{AT} What is wrong with my Kestrel pump oil?"
NOT_READ = "not read, since only text files are"


async def asked(quill: Quill, text: str, *files: Json) -> str:
    """What is shown in answer."""
    quill.model.replies["generate"].append(ANSWER)
    ts = quill.slack.says(ASKER, "C1", text, files=list(files), subtype="file_share" if files else None)
    if files:
        quill.slack.event({**quill.slack.workspace.places["C1"].messages[ts], "type": "app_mention", "channel": "C1"})
    await quill.at_rest()
    return "\n".join(quill.slack.shown("C1", ts))


async def test_a_text_file_is_read_up_to_a_cap(slack: SlackServer, quill: Quill, model: TypingModel):
    log = b"ERROR 77 at boot\n" + b"x" * (CAP + 500) + b"THE END"
    shown = await asked(quill, ASKS, slack.file("boot.log", log))
    assert "ERROR 77 at boot" in quill.asked()[0]
    assert "boot.log:" in quill.asked()[0]
    assert "THE END" not in quill.asked()[0]
    assert NOT_READ not in shown
    assert {token for _, token in slack.fetched} == {f"Bearer {BOT_TOKEN}"}
    assert all(delivery.seconds < 3 for delivery in slack.sockets.deliveries)


async def test_what_is_no_text_is_named(slack: SlackServer, quill: Quill, model: TypingModel):
    picture = slack.file("pump.png", b"\x89PNG", "image/png")
    gone = {"id": "F0", "mode": "tombstone"}
    shown = await asked(quill, ASKS, picture, gone)
    assert f"({NOT_READ}: pump.png, a file)" in shown
    assert not slack.fetched


async def test_the_login_page_is_not_taken_for_the_file(slack: SlackServer, quill: Quill, model: TypingModel):
    slack.scopes -= {"files:read"}
    shown = await asked(quill, ASKS, slack.file("boot.log", b"ERROR 77"), slack.file("p.html", b"<p>x", "text/html"))
    assert f"({NOT_READ}: boot.log, p.html)" in shown
    assert "Sign in" not in quill.asked()[0]


async def test_a_page_that_is_the_file_is_read(slack: SlackServer, quill: Quill, model: TypingModel):
    await asked(quill, ASKS, slack.file("p.html", b"<p>ERROR 78</p>", "text/html"))
    assert "ERROR 78" in quill.asked()[0]


@pytest.mark.parametrize("elsewhere", ["redirect", "address"])
async def test_the_token_goes_to_slack_alone(slack: SlackServer, quill: Quill, model: TypingModel, elsewhere: str):
    async with SlackServer() as other:
        taken = other.file("boot.log", b"STOLEN")
        if elsewhere == "redirect":
            file = slack.file("boot.log", b"ERROR 77")
            slack.moved["boot.log"] = taken["url_private"]
        else:
            file = taken
        shown = await asked(quill, ASKS, file)
        assert not other.fetched
    assert f"({NOT_READ}: boot.log)" in shown
    assert "STOLEN" not in quill.asked()[0]


async def test_a_file_that_is_slow_does_not_keep_the_event(slack: SlackServer, quill: Quill, model: TypingModel):
    slack.file_seconds = 5.0
    shown = await asked(quill, ASKS, slack.file("boot.log", b"ERROR 77"))
    assert "boot.log)" in shown
    assert all(delivery.seconds < 3 for delivery in slack.sockets.deliveries)


async def test_an_edit_reads_the_file_again_and_a_preview_of_a_link_is_no_edit(
    slack: SlackServer, quill: Quill, model: TypingModel
):
    await asked(quill, ASKS, slack.file("boot.log", b"ERROR 77"))
    ts = next(iter(slack.workspace.places["C1"].messages))
    slack.edits("C1", ts, f"{ASKS} It hums.")
    await quill.at_rest()
    (turn,) = await quill.store.turns(quill.key(ts))
    assert "It hums." in turn.typed
    assert "ERROR 77" in turn.typed
    slack.scopes -= {"files:read"}
    message = slack.workspace.places["C1"].messages[ts]
    slack.event(changed("channel", "C1", {**message, "attachments": [{"title": "A page"}]}, message))
    await quill.at_rest()
    (turn,) = await quill.store.turns(quill.key(ts))
    assert "ERROR 77" in turn.typed
