"""The tables. A change here needs a step in `migrations/versions`; a test compares the two."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, Float, ForeignKey, Index, Integer, LargeBinary, MetaData, String, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from adapters.store.columns import AnyJson, AnyText, Moment

metadata = MetaData(
    # Constraints have names in every database, so that a later migration can drop them.
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Row(DeclarativeBase):
    metadata = metadata


class ThreadRow(Row):
    """A conversation."""

    __tablename__ = "threads"
    __table_args__ = (
        UniqueConstraint("platform", "workspace", "channel", "thread"),
        # Without it SQLite gives the id of a forgotten row to the next one.
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    platform: Mapped[str] = mapped_column(AnyText)
    workspace: Mapped[str] = mapped_column(AnyText)
    channel: Mapped[str] = mapped_column(AnyText)
    thread: Mapped[str] = mapped_column(AnyText)
    created_at: Mapped[datetime] = mapped_column(Moment)
    summary_seq: Mapped[int] = mapped_column(Integer, default=0)
    """The summary covers the turns up to this `seq`."""
    summary: Mapped[str] = mapped_column(AnyText, default="")
    begins_after: Mapped[int] = mapped_column(Integer, default=0)
    """Prompts hold nothing of the turns up to this `seq`: the conversation was begun afresh after it."""
    revision: Mapped[int] = mapped_column(Integer, default=0)
    """Grows when a turn is deleted or edited: a summary of what was there before must not come back."""


class TurnRow(Row):
    """A question and what became of it. Short columns come first: SQLite reads a row from its front."""

    __tablename__ = "turns"
    __table_args__ = (
        UniqueConstraint("thread_id", "seq"),
        # One platform message makes at most one turn (promise P2), whatever thread it is said to be in.
        UniqueConstraint("platform", "workspace", "channel", "message_id"),
        # An answer that arrives after `forget` must not find another question under its id.
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    thread_id: Mapped[int] = mapped_column(ForeignKey("threads.id", ondelete="CASCADE"))
    seq: Mapped[int] = mapped_column(Integer)
    """The order of answering: that of the platform among all that wait, then that of arrival."""
    platform: Mapped[str] = mapped_column(AnyText)
    workspace: Mapped[str] = mapped_column(AnyText)
    channel: Mapped[str] = mapped_column(AnyText)
    message_id: Mapped[str] = mapped_column(AnyText)
    state: Mapped[str] = mapped_column(String(16))
    asked_at: Mapped[datetime] = mapped_column(Moment)
    answered_at: Mapped[datetime | None] = mapped_column(Moment)
    edited_at: Mapped[datetime | None] = mapped_column(Moment)
    """When `typed` was last replaced by what the asker made of it."""
    exact: Mapped[bool] = mapped_column(Boolean, default=False)
    """Whether the typed words were to be searched as they are."""
    readers: Mapped[str] = mapped_column(String(16), default="")
    """The `Readers` of the conversation; empty also when the asker wanted to be forgotten."""
    query_status: Mapped[str | None] = mapped_column(String(16))
    prompt_tokens: Mapped[int | None] = mapped_column(Integer)
    completion_tokens: Mapped[int | None] = mapped_column(Integer)
    cached_tokens: Mapped[int | None] = mapped_column(Integer)
    author_id: Mapped[str] = mapped_column(AnyText)
    author: Mapped[str] = mapped_column(AnyText)
    query_reason: Mapped[str] = mapped_column(AnyText, default="")
    typed: Mapped[str] = mapped_column(AnyText)
    searched: Mapped[str] = mapped_column(AnyText, default="")
    answered: Mapped[str] = mapped_column(AnyText, default="")
    """Empty unless there is something to see in it."""
    heard: Mapped[list[dict[str, Any]]] = mapped_column(AnyJson, default=list)
    """What was said in the thread between the question before and this one."""
    unread: Mapped[list[str]] = mapped_column(AnyJson, default=list)
    citations: Mapped[list[dict[str, Any]]] = mapped_column(AnyJson, default=list)
    degraded: Mapped[list[dict[str, Any]]] = mapped_column(AnyJson, default=list)
    kept: Mapped[dict[str, int]] = mapped_column(AnyJson, default=dict)
    timings: Mapped[dict[str, float]] = mapped_column(AnyJson, default=dict)


class InboxRow(Row):
    """A message that was taken, once and for ever; what it says is in its turn alone, where it can be deleted."""

    __tablename__ = "inbox"
    __table_args__ = (UniqueConstraint("platform", "workspace", "channel", "message_id"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    platform: Mapped[str] = mapped_column(AnyText)
    workspace: Mapped[str] = mapped_column(AnyText)
    channel: Mapped[str] = mapped_column(AnyText)
    thread: Mapped[str] = mapped_column(AnyText)
    message_id: Mapped[str] = mapped_column(AnyText)
    order_key: Mapped[str] = mapped_column(AnyText)
    received_at: Mapped[datetime] = mapped_column(Moment)


class JobRow(Row):
    """What is to become of a message, and who is at it."""

    __tablename__ = "jobs"
    __table_args__ = (Index("ix_jobs_state", "state"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    inbox_id: Mapped[int] = mapped_column(ForeignKey("inbox.id", ondelete="CASCADE"), unique=True)
    turn_id: Mapped[int | None] = mapped_column(ForeignKey("turns.id", ondelete="SET NULL"), unique=True)
    asker: Mapped[str] = mapped_column(AnyText)
    state: Mapped[str] = mapped_column(String(16))
    ending: Mapped[str | None] = mapped_column(String(16))
    attempts: Mapped[int] = mapped_column(Integer, default=0)
    fence: Mapped[int] = mapped_column(Integer, default=1)
    lease_owner: Mapped[str] = mapped_column(String(32))
    """Empty: nobody is at it."""
    lease_boot: Mapped[str] = mapped_column(String(64))
    lease_until: Mapped[float] = mapped_column(Float)
    """Seconds of the clock of `lease_boot`."""
    boot: Mapped[str] = mapped_column(String(64))
    ticks: Mapped[float] = mapped_column(Float)
    """When it was admitted, by the clock of `boot`: a wall clock jumps."""


class PartRow(Row):
    """One message of ours, from before it is created until it is delivered."""

    __tablename__ = "outbox"
    __table_args__ = (
        UniqueConstraint("job_id", "part"),
        Index("ix_outbox_message_id", "message_id"),
        Index("ix_outbox_key", "key"),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    part: Mapped[int] = mapped_column(Integer)
    key: Mapped[str] = mapped_column(String(16))
    message_id: Mapped[str | None] = mapped_column(AnyText)
    body: Mapped[str | None] = mapped_column(AnyText)
    delivered: Mapped[bool] = mapped_column(default=False)


class FeedbackRow(Row):
    """What somebody thought of an answer; the last word of each counts."""

    __tablename__ = "feedback"
    __table_args__ = (UniqueConstraint("turn_id", "person"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    turn_id: Mapped[int] = mapped_column(ForeignKey("turns.id", ondelete="CASCADE"))
    person: Mapped[str] = mapped_column(AnyText)
    helpful: Mapped[bool] = mapped_column(Boolean)
    at: Mapped[datetime] = mapped_column(Moment)


class MarkRow(Row):
    """Up to when everything that was said on a platform has been heard."""

    __tablename__ = "marks"
    __table_args__ = (UniqueConstraint("platform"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    platform: Mapped[str] = mapped_column(AnyText)
    at: Mapped[datetime] = mapped_column(Moment)


class FactRow(Row):
    """A sentence that a person said of themselves. It goes with the turn that it was said in."""

    __tablename__ = "facts"
    __table_args__ = (Index("ix_facts_person", "platform", "workspace", "person"), Index("ix_facts_turn_id", "turn_id"))

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    turn_id: Mapped[int] = mapped_column(ForeignKey("turns.id", ondelete="CASCADE"))
    platform: Mapped[str] = mapped_column(AnyText)
    workspace: Mapped[str] = mapped_column(AnyText)
    person: Mapped[str] = mapped_column(AnyText)
    circle: Mapped[str] = mapped_column(AnyText)
    """Names those who could read it where it was said."""
    text: Mapped[str] = mapped_column(AnyText)
    model: Mapped[str] = mapped_column(AnyText)
    vector: Mapped[bytes] = mapped_column(LargeBinary)
    """Of the embedding model `model`: float32; empty if there is none."""
    at: Mapped[datetime] = mapped_column(Moment)


class InstallationRow(Row):
    """A Slack app in a workspace, or in an organization."""

    __tablename__ = "installations"
    __table_args__ = (UniqueConstraint("client", "place"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    client: Mapped[str] = mapped_column(AnyText)
    """The app's client id."""
    place: Mapped[str] = mapped_column(AnyText)
    enterprise: Mapped[str] = mapped_column(AnyText)
    org_wide: Mapped[bool] = mapped_column(Boolean)
    name: Mapped[str] = mapped_column(AnyText)
    token: Mapped[str] = mapped_column(AnyText)
    app: Mapped[str] = mapped_column(AnyText)
    bot: Mapped[str] = mapped_column(AnyText)
    user: Mapped[str] = mapped_column(AnyText)
    scopes: Mapped[str] = mapped_column(AnyText)
    at: Mapped[datetime] = mapped_column(Moment)
