"""Messages are taken once, worked on by somebody, and answered in messages of ours: inbox, jobs and outbox."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """What was asked before stays known, so that no redelivery is answered again; it has no jobs."""
    op.add_column("threads", sa.Column("revision", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("turns", sa.Column("edited_at", sa.DateTime(timezone=True), nullable=True))
    op.create_table(
        "inbox",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("thread", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=False),
        sa.Column("order_key", sa.Text(), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_inbox"),
        sa.UniqueConstraint(
            "platform", "workspace", "channel", "message_id", name="uq_inbox_platform_workspace_channel_message_id"
        ),
    )
    op.create_table("jobs", *_job_columns(), sqlite_autoincrement=True)
    op.create_index("ix_jobs_state", "jobs", ["state"])
    op.create_table(
        "outbox",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(16), nullable=False),
        sa.Column("message_id", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("delivered", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_outbox_job_id_jobs", ondelete="CASCADE"),
        sa.UniqueConstraint("job_id", "part", name="uq_outbox_job_id_part"),
    )
    op.execute(
        "INSERT INTO inbox (platform, workspace, channel, thread, message_id, order_key, received_at) "
        "SELECT turns.platform, turns.workspace, turns.channel, threads.thread, turns.message_id, '', turns.asked_at "
        "FROM turns JOIN threads ON threads.id = turns.thread_id ORDER BY turns.id"
    )
    op.execute("UPDATE turns SET state = 'failed' WHERE state = 'asked'")


def _job_columns() -> list[sa.Column[object] | sa.Constraint]:
    return [
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("inbox_id", sa.Integer(), nullable=False),
        sa.Column("turn_id", sa.Integer(), nullable=True),
        sa.Column("asker", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("ending", sa.String(16), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.String(32), nullable=False),
        sa.Column("lease_boot", sa.String(64), nullable=False),
        sa.Column("lease_until", sa.Float(), nullable=False),
        sa.Column("boot", sa.String(64), nullable=False),
        sa.Column("ticks", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.ForeignKeyConstraint(["inbox_id"], ["inbox.id"], name="fk_jobs_inbox_id_inbox", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name="fk_jobs_turn_id_turns", ondelete="SET NULL"),
        sa.UniqueConstraint("inbox_id", name="uq_jobs_inbox_id"),
        sa.UniqueConstraint("turn_id", name="uq_jobs_turn_id"),
    ]
