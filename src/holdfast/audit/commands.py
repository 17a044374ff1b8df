"""Commands of the user's own."""

from __future__ import annotations

import os
import subprocess

from holdfast.errors import InvalidInput


def shell(command: str, namespace: str) -> None:
    """Run it to its end; `InvalidInput` if it fails."""
    ran = subprocess.run(
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "HOLDFAST_AUDIT_NAMESPACE": namespace},
        check=False,
    )
    if ran.returncode:
        raise InvalidInput(f"{command.split()[0]} failed: {ran.stderr.strip()[-300:]}")
