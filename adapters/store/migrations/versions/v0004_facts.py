"""What people said of themselves, and who reads a conversation."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Nothing is remembered of what was said before: nobody knows who could read it."""
    op.add_column("turns", sa.Column("readers", sa.String(16), nullable=False, server_default=""))
    op.create_table(
        "facts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("turn_id", sa.Integer(), nullable=False),
        sa.Column("platform", sa.Text(), nullable=False),
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("person", sa.Text(), nullable=False),
        sa.Column("circle", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_facts"),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name="fk_facts_turn_id_turns", ondelete="CASCADE"),
    )
    op.create_index("ix_facts_person", "facts", ["platform", "workspace", "person"])
    op.create_index("ix_facts_turn_id", "facts", ["turn_id"])
