"""The first tables: conversations, and their questions with what became of them."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Written out, not taken from `models.py`: a step must do the same for ever."""
    op.create_table(
        "threads",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("thread", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("summary_seq", sa.Integer(), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_threads"),
        sa.UniqueConstraint(
            "platform", "workspace", "channel", "thread", name="uq_threads_platform_workspace_channel_thread"
        ),
        sqlite_autoincrement=True,
    )
    op.create_table("turns", *_turn_columns(), *_turn_constraints(), sqlite_autoincrement=True)


def _turn_columns() -> list[sa.Column[object]]:
    return [
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("thread_id", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("query_status", sa.String(16), nullable=True),
        sa.Column("prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("completion_tokens", sa.Integer(), nullable=True),
        sa.Column("cached_tokens", sa.Integer(), nullable=True),
        sa.Column("author_id", sa.Text(), nullable=False),
        sa.Column("author", sa.Text(), nullable=False),
        sa.Column("query_reason", sa.Text(), nullable=False),
        sa.Column("typed", sa.Text(), nullable=False),
        sa.Column("searched", sa.Text(), nullable=False),
        sa.Column("answered", sa.Text(), nullable=False),
        sa.Column("citations", sa.JSON(), nullable=False),
        sa.Column("degraded", sa.JSON(), nullable=False),
        sa.Column("kept", sa.JSON(), nullable=False),
        sa.Column("timings", sa.JSON(), nullable=False),
    ]


def _turn_constraints() -> list[sa.Constraint]:
    return [
        sa.PrimaryKeyConstraint("id", name="pk_turns"),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.id"], name="fk_turns_thread_id_threads", ondelete="CASCADE"),
        sa.UniqueConstraint("thread_id", "seq", name="uq_turns_thread_id_seq"),
        sa.UniqueConstraint(
            "platform",
            "workspace",
            "channel",
            "message_id",
            name="uq_turns_platform_workspace_channel_message_id",
        ),
    ]
