"""Commands of the user's own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from stateward.errors import InvalidInput


def shell(command: str, told: Mapping[str, str]) -> None:
    """Run it to its end, `told` in its environment; `InvalidInput` if it fails."""
    ran = subprocess.run(
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=os.environ | told,
        check=False,
    )
    if ran.returncode:
        raise InvalidInput(f"{command.split()[0]} failed: {ran.stderr.strip()[-300:]}")
