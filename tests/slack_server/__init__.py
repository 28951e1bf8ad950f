"""A local Slack: the Web API and Socket Mode with their real limits, on a real port.

    async with SlackServer() as slack:
        slack.script("chat.postMessage", Fault(applied=True, end="reset"), busy(3))
        asked = slack.says(ASKER, "C1", f"<@{BOT_USER}> how much oil?")
        ...                              # a client of slack_sdk with base_url=slack.api_url
        assert slack.calls_of("chat.postMessage")[0].args["thread_ts"] == asked

Every call is recorded with its time. With `slack.nemesis = False` scripted faults are left out, which proves that a
test depends on them.
"""

from tests.slack_server.faults import Fault, busy
from tests.slack_server.server import Call, SlackServer
from tests.slack_server.sockets import Delivery
from tests.slack_server.state import APP, ASKER, BOT, BOT_USER, OTHER_BOT, SECOND, TEAM

__all__ = [
    "APP",
    "ASKER",
    "BOT",
    "BOT_USER",
    "OTHER_BOT",
    "SECOND",
    "TEAM",
    "Call",
    "Delivery",
    "Fault",
    "SlackServer",
    "busy",
]
