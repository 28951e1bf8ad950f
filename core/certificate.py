"""Whose word for a server's certificate is taken, and a certificate that was not, in what an HTTP library raised."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def context() -> ssl.SSLContext:
    """Takes the word of the usual authorities and of those that the machine knows, a company's among them.

    OpenSSL finds the machine's, in `SSL_CERT_FILE` and `SSL_CERT_DIR` if they are set. httpx alone would ask for them
    only together with the proxies of the environment.
    """
    made = httpx.create_ssl_context(trust_env=False)
    made.set_default_verify_paths()
    return made


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
    return f"its certificate is not accepted ({why}): check {setting}, or name its authority's in SSL_CERT_FILE."
