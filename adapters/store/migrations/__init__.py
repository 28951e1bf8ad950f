"""How the tables came to be. To change them: edit `models.py`, add `versions/v0006_what.py`, name it in `REVISIONS`.

A released step is never edited. Steps run inside one transaction with foreign keys off, after a backup.
This module imports nothing, so that a start without a migration does not pay for Alembic.
"""

REVISIONS = ("0001", "0002", "0003", "0004", "0005")
"""Every revision this code knows, oldest first. Kept here because asking Alembic takes longer than a start may."""

HEAD = REVISIONS[-1]
