"""Short ways to say a question and an answer."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

from adapters.jobs import Ending, Job
from adapters.ports import Inbound, Memory, ThreadKey, TurnState
from adapters.store import SqlConversationStore
from core.types import Answer, Citation, Degradation, Kept, Query, QueryStatus, Usage

NOON = datetime(2026, 8, 1, 14, 0, tzinfo=timezone(timedelta(hours=2)))
"""Noon in UTC, said by a clock that is elsewhere."""


def key(thread: str = "t1", channel: str = "c1", workspace: str = "w1", platform: str = "terminal") -> ThreadKey:
    return ThreadKey(platform=platform, workspace=workspace, channel=channel, thread=thread)


def said(
    message_id: str,
    text: str = "How do I install it?",
    thread: ThreadKey | None = None,
    *,
    author: str = "Ada",
    author_id: str = "u1",
    sent_at: datetime = NOON,
) -> Inbound:
    return Inbound(
        message_id=message_id,
        thread=thread or key(),
        author_id=author_id,
        author=author,
        text=text,
        sent_at=sent_at,
    )


def answer(text: str = "With pip [1].", searched: str = "install threadwise") -> Answer:
    return Answer(
        text=text,
        query=Query(text=searched, status=QueryStatus.REWRITTEN, reason="ok"),
        citations=(Citation(number=1, title="Guide", source="docs/guide.md", heading="Start > Install"),),
        degraded=(Degradation(stage="rewrite", reason="timeout"),),
        usage=Usage(prompt_tokens=100, completion_tokens=20, cached_tokens=80),
        timings={"rewrite": 0.1, "total": 1.5},
        kept=Kept(turns=2, passages=3, prompt_tokens=90, budget=4000),
    )


async def ask(store: SqlConversationStore, inbound: Inbound) -> Job | None:
    """Stores the question; None if the message is known."""
    return await store.jobs.admit(inbound)


async def finish(store: SqlConversationStore, job: Job, reply: Answer, state: TurnState) -> Job:
    """Stores the answer to a question, which is then to be delivered."""
    return await store.jobs.settle(job, reply, state, [reply.text], Ending.ANSWERED)


async def history(store: SqlConversationStore, job: Job, limit: int) -> Memory:
    """What the thread holds before a question."""
    return (await store.jobs.begin(job, limit)).memory


def now() -> datetime:
    return datetime.now(UTC)


def precious(directory: Path) -> dict[str, bytes]:
    """The files that hold anything, and their bytes. Not the shared memory: SQLite builds it anew at every look."""
    files = [file for file in directory.iterdir() if file.is_file() and not file.name.endswith("-shm")]
    return {file.name: file.read_bytes() for file in files if file.stat().st_size}


def names_in(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.iterdir())


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def set_mode(file: Path, bits: int) -> None:
    file.chmod(bits)
