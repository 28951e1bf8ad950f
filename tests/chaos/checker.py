"""Judges what a run left: by SQL over the database, and by what the board shows.

Each check is a promise. `judge` returns what is wrong, in words; an empty list is a good run.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from tests.chaos.board import FINAL, Board

ENDED: Final = ("done", "cancelled", "undeliverable")
MOST_ATTEMPTS: Final = 3


def judge(board: Board, database: Path) -> list[str]:
    """What is wrong after the process has ended in order."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        jobs = _rows(connection, "SELECT i.message_id, i.thread, j.* FROM jobs j JOIN inbox i ON i.id = j.inbox_id")
        turns = _rows(connection, "SELECT * FROM turns ORDER BY thread_id, seq")
        return [
            *_sound(connection),
            *_one_job_each(board, jobs),
            *_one_ending_each(board),
            *_shown_as_stored(board, turns),
            *_bounded(jobs),
            *_remembered_once(turns),
        ]


def outcomes(database: Path) -> Counter[str]:
    """How the jobs ended."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return Counter(row["ending"] for row in _rows(connection, "SELECT ending FROM jobs"))


def _rows(connection: sqlite3.Connection, query: str) -> list[dict[str, Any]]:
    cursor = connection.execute(query)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _sound(connection: sqlite3.Connection) -> Iterator[str]:
    """I7."""
    if (said := connection.execute("PRAGMA integrity_check").fetchall()) != [("ok",)]:
        yield f"the database is damaged: {said}"
    if said := connection.execute("PRAGMA foreign_key_check").fetchall():
        yield f"rows without their owners: {said}"


def _one_job_each(board: Board, jobs: list[dict[str, Any]]) -> Iterator[str]:
    """I1, and P1 the other way: what was acknowledged is there."""
    counts = Counter(job["message_id"] for job in jobs)
    for event in board.questions:
        id_ = event.body["id"]
        if event.acknowledged_at is None:
            yield f"{id_} was never acknowledged"
        if counts[id_] != 1:
            yield f"{id_} has {counts[id_]} jobs"


def _one_ending_each(board: Board) -> Iterator[str]:
    """I2, I3."""
    for event in board.questions:
        id_ = event.body["id"]
        under = board.under(id_)
        if [shown.part for shown in under] != list(range(len(under))) or not under:
            yield f"{id_} has the parts {[shown.part for shown in under]}"
        if unfinished := [shown.body for shown in under if shown.phase != FINAL]:
            yield f"{id_} still shows {unfinished}"
        text = "".join(shown.body for shown in under)
        if "<" in text and f"<{event.body['text']}>" not in text:
            yield f"{id_} shows the answer to something else: {text[:80]}"
        if any(shown.thread != event.body["thread"] for shown in under):
            yield f"{id_} is answered in another thread"


def _shown_as_stored(board: Board, turns: list[dict[str, Any]]) -> Iterator[str]:
    """I4."""
    for turn in turns:
        text = "".join(shown.body for shown in board.under(turn["message_id"]))
        if text != turn["answered"]:
            yield f"{turn['message_id']} shows {text[:60]!r}, stored is {turn['answered'][:60]!r}"


def _bounded(jobs: list[dict[str, Any]]) -> Iterator[str]:
    """I5, and every job has ended."""
    for job in jobs:
        if job["attempts"] > MOST_ATTEMPTS:
            yield f"{job['message_id']} was tried {job['attempts']} times"
        if job["state"] not in ENDED:
            yield f"{job['message_id']} is {job['state']}"


def _remembered_once(turns: list[dict[str, Any]]) -> Iterator[str]:
    """I6."""
    places = Counter((turn["thread_id"], turn["seq"]) for turn in turns)
    messages = Counter(turn["message_id"] for turn in turns)
    for name, count in [*places.items(), *messages.items()]:
        if count > 1:
            yield f"{name} is remembered {count} times"
