"""What nobody can know in advance: it stands beside the delimiters of the context of one prompt."""

from __future__ import annotations

import secrets
from string import ascii_lowercase
from typing import Final

LETTERS: Final = 8
"""2 * 10^11 nonces, one for each prompt. Letters are some 4 tokens; as many hexadecimal digits are 8."""


def fresh_nonce() -> str:
    """`LETTERS` letters from a to z."""
    return "".join(secrets.choice(ascii_lowercase) for _ in range(LETTERS))
