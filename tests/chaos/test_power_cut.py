"""F26: what a power cut would leave. Nothing is said to a platform before it is on the disk, not only in its cache.

A killed process leaves the cache behind, so no kill shows whether the disk was waited for: the system calls do.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.stage import stage
from tests.chaos.syscalls import calls, is_sync_of, strace


async def synced(tmp_path: Path, documents: Path, without: list[str]) -> tuple[int, int]:
    """The syncs of the log between receive and acknowledgement, and between the answer and its final edit."""
    trace = tmp_path / "trace"
    under = strace(trace)
    async with stage(tmp_path / "data", documents) as on:
        await on.start(under=under, without=without)
        id_ = on.board.say("t1", "question 1")
        await on.until_all_ended()
        await on.stop()
        assert on.board.under(id_)[0].body.startswith("<question 1>")
        wal = on.database.with_name(on.database.name + "-wal")
    made = calls(trace)

    def first(name: str, *parts: str, after: int = 0) -> int:
        found = (n for n, call in enumerate(made) if call.startswith(name) and all(part in call for part in parts))
        return next(n for n in found if n >= after)

    def syncs(since: int, until: int) -> int:
        assert since < until
        return sum(is_sync_of(call, wal) for call in made[since:until])

    received = first("recvfrom(", "question 1")
    acknowledged = first("sendto(", "POST /acks/0 ", after=received)
    answered = first("recvfrom(", "[DONE]", after=acknowledged)
    final = first("sendto(", r"\"phase\":\"final\"", after=answered)
    return syncs(received, acknowledged), syncs(answered, final)


async def test_a_question_and_its_answer_are_on_the_disk_before_a_platform_is_told(tmp_path: Path, documents: Path):
    before_acknowledgement, before_final_edit = await synced(tmp_path, documents, without=[])
    assert before_acknowledgement >= 1
    assert before_final_edit >= 1


@pytest.mark.chaos
async def test_without_waiting_for_the_disk_there_is_no_sync_to_be_seen(tmp_path: Path, documents: Path):
    """The proof that the test above sees the mechanism."""
    assert await synced(tmp_path, documents, without=["sync"]) == (0, 0)
