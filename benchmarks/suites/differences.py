"""Tests of others that fail with this library and pass without: why each of them does.

A pattern of `fnmatch` names tests, from their file on; the first that fits counts. A reason that begins with
"defect:" tells of one of this library; any other says what is meant to differ.
"""

from __future__ import annotations

DIFFERENCES: dict[str, dict[str, str]] = {}
