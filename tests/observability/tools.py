"""Whether the tools of Prometheus are here."""

from __future__ import annotations

import pytest

from system_packages import is_required


def missing(tools: dict[str, str], name: str) -> bool:
    """Whether a tool is not there. In CI that is a failure."""
    if name in tools:
        return False
    sentence = f"{name} is not installed: what it checks was NOT checked (install prometheus)"
    if is_required("prometheus"):
        pytest.fail(sentence)
    return True  # and the end of the run says so: tests/conftest.py
