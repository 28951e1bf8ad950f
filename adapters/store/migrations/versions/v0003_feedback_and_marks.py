"""What is heard beside questions, what people think of answers, and up to when a platform was listened to."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Nothing that is there is changed."""
    op.add_column("threads", sa.Column("begins_after", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("turns", sa.Column("exact", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("turns", sa.Column("heard", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("turns", sa.Column("unread", sa.JSON(), nullable=False, server_default="[]"))
    op.create_table(
        "feedback",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("turn_id", sa.Integer(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("helpful", sa.Boolean(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_feedback"),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name="fk_feedback_turn_id_turns", ondelete="CASCADE"),
        sa.UniqueConstraint("turn_id", "person", name="uq_feedback_turn_id_person"),
    )
    op.create_table(
        "marks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_marks"),
        sa.UniqueConstraint("platform", name="uq_marks_platform"),
    )
    op.create_index("ix_outbox_message_id", "outbox", ["message_id"])
    op.create_index("ix_outbox_key", "outbox", ["key"])
