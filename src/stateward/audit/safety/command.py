"""Commands of the user's own."""

from __future__ import annotations

import os
import subprocess

from stateward.audit.safety import isolation
from stateward.audit.targets import TargetAddress
from stateward.engines.registry import parse
from stateward.errors import InvalidInput


def shell(command: str, place: TargetAddress) -> None:
    """Run it to its end; `InvalidInput` if it fails."""
    told = {"STATEWARD_AUDIT_NAMESPACE": place.namespace}
    if place.kind == "store" and isolation.is_apart(place.name):
        told["STATEWARD_AUDIT_SCHEMA"] = parse(place.name).options["schema"]
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
