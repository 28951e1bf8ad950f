"""A server's certificate that was not accepted, found in what an HTTP library raised."""

from __future__ import annotations

import ssl


def why_refused(error: BaseException) -> str | None:
    """What is wrong with the certificate, as "self-signed certificate"; None if `error` is something else."""
    cause: BaseException | None = error
    while cause is not None:
        # aiohttp's own error is one of them too, without what it says.
        if isinstance(cause, ssl.SSLCertVerificationError) and (why := getattr(cause, "verify_message", "")):
            return str(why).rstrip(".")
        cause = cause.__cause__ or cause.__context__
    return None


def advice(why: str, setting: str) -> str:
    """What to do, one sentence without its beginning: "... `advice`"."""
    return f"its certificate is not accepted ({why}): check {setting}, or give the server a valid certificate."
