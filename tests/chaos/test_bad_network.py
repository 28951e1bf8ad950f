"""F28: a platform and a model behind a slow line that loses packets, and where there is only IPv6."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.chaos.checker import judge, outcomes
from tests.chaos.stage import Stage, stage
from tests.servers.bad_network import bad_network

MANY = 6
"""Questions in three threads."""


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


async def asked(on: Stage) -> list[str]:
    await on.start()
    ids = [on.board.say(f"t{number % 3}", f"question {number}", author=f"person {number}") for number in range(MANY)]
    await on.until_all_ended(120)
    await on.stop()
    return ids


@pytest.mark.chaos
@pytest.mark.parametrize(
    "host", ["127.0.0.1", pytest.param("::1", marks=pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 here"))]
)
async def test_on_a_bad_line_every_question_is_answered_once(tmp_path: Path, documents: Path, host: str):
    async with (
        stage(tmp_path / "data", documents) as on,
        bad_network(port_of(on.board.url), host) as platform,
        bad_network(port_of(on.model.base_url), host, seed=1) as model,
    ):
        named = f"[{host}]" if ":" in host else host
        on.board.url = f"http://{named}:{platform.port}"
        on.settings = dict.fromkeys(("LLM_BASE_URL", "EMBEDDING_BASE_URL"), f"http://{named}:{model.port}/v1")
        ids = await asked(on)
        assert platform.lost > 0
        assert model.lost > 0
        assert judge(on.board, on.database) == []
        assert outcomes(on.database) == {"answered": MANY}
        for number, id_ in enumerate(ids):
            assert on.board.under(id_)[0].body.startswith(f"<question {number}>")
