"""Choice of the target that the user's input names."""

from __future__ import annotations

from stateward.audit.targets.custom import CustomTarget
from stateward.audit.targets.framework import FrameworkTarget
from stateward.audit.targets.frameworks.catalogue import FRAMEWORKS
from stateward.audit.targets.http import HttpTarget
from stateward.audit.targets.naive import NAIVE, NaiveTarget
from stateward.audit.targets.service import ServiceTarget
from stateward.audit.targets.store import StoreTarget
from stateward.audit.targets.target import AuditTarget
from stateward.audit.targets.volumes import VolumesTarget
from stateward.errors import InvalidInput

AnyTarget = (
    StoreTarget
    | ServiceTarget
    | HttpTarget
    | VolumesTarget
    | NaiveTarget
    | FrameworkTarget
    | CustomTarget
)
KINDS: tuple[type[AuditTarget], ...] = (
    HttpTarget,
    StoreTarget,
    VolumesTarget,
    NaiveTarget,
    FrameworkTarget,
    CustomTarget,
)


def choose(named: str | None, folder: str, namespace: str, url: str | None) -> AuditTarget:
    """Return the target; raises `InvalidInput` if the input names none."""
    for kind in KINDS:
        target = kind.named(named, folder, namespace, url)
        if target is not None:
            return target
    shown = repr(named) if "@" not in (named or "") else "this"  # the name may hold a password
    raise InvalidInput(
        f"{shown} is not a target: pass a store's URL (sqlite:///agents.db), module:factory, "
        f"the http:// address of a service, "
        f"statefulset:3, {', '.join(FRAMEWORKS)}, or naive:{', naive:'.join(NAIVE)}"
    )
