"""Commands of the user's own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from stateward.audit.safety.limits import COMMAND
from stateward.errors import InvalidInput


def shell(command: str, environment: Mapping[str, str]) -> None:
    """Run a command to its end, with `environment` added; `InvalidInput` if it fails."""
    try:
        process = subprocess.run(
            command,
            shell=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=os.environ | environment,
            check=False,
            timeout=COMMAND,
        )
    except subprocess.TimeoutExpired:
        raise InvalidInput(f"{command.split()[0]} did not end within {COMMAND:g} s") from None
    if process.returncode:
        raise InvalidInput(f"{command.split()[0]} failed: {process.stderr.strip()[-300:]}")
