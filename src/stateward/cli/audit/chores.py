"""`stateward audit clean` and `stateward audit init`."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from pathlib import Path

from stateward.audit.prices import TEMPLATE as PRICES
from stateward.audit.safety import isolation
from stateward.audit.targets.frameworks.catalogue import FRAMEWORKS
from stateward.audit.targets.frameworks.sandbox import sandbox
from stateward.cli import OK
from stateward.errors import InvalidInput


def clean(targets: list[str], urls: list[str]) -> int:
    if len(targets) == 1 and targets[0] in FRAMEWORKS:
        return _clean_framework(targets[0], urls)
    if len(targets) != 1 or "://" not in targets[0]:
        raise InvalidInput("clean takes a store's URL: stateward audit clean redis://…")
    cleaned = asyncio.run(isolation.clean(targets[0]))
    for said in cleaned:
        print(said)
    if not cleaned:
        print("no audit has left anything here")
    return OK


def _clean_framework(target: str, urls: list[str]) -> int:
    if len(urls) != 1:
        raise InvalidInput(f"say where: stateward audit clean {target} --url postgresql://…")
    cleaned = asyncio.run(sandbox(urls[0], "").clear_all())
    print("\n".join(f"{name}: removed" for name in cleaned) or "no audit has left anything here")
    return OK


def init(names: list[str]) -> int:
    if names[:1] == ["prices"]:
        path = _new(names[1] if len(names) > 1 else "prices.toml")
        path.write_text(PRICES, "utf-8")
        print(f"wrote {path}; fill it in, then: stateward audit --prices {path}")
        return OK
    path = _new(names[0] if names else "audit_target.py")
    template = files("stateward.audit.targets") / "template.py"
    path.write_text(template.read_text("utf-8"), "utf-8")
    print(f"wrote {path}; fill it in, then: stateward audit {path.stem}:create")
    return OK


def _new(name: str) -> Path:
    path = Path(name)
    if path.exists():
        raise InvalidInput(f"{path} exists already: name another file")
    return path
