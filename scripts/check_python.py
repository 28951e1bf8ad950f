"""Stops an install early, in one line, where the interpreter is too old or too new."""

import sys

if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    found = ".".join(map(str, sys.version_info[:3]))
    sys.exit(f"Threadwise needs Python 3.11, 3.12 or 3.13; this is {found}. Try: make PYTHON=python3.12 ...")
