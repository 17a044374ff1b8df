"""What SQLAlchemy is told: the drivers that the frameworks name, and the audit's own schema."""

from __future__ import annotations

from typing import Any

from stateward.audit.targets import TargetAddress
from stateward.audit.targets.frameworks import POOL, POSTGRES, kind_of, sandbox


def url_of(place: TargetAddress) -> str:
    url = place.url or ""
    if kind_of(url) == POSTGRES:
        return f"postgresql+asyncpg://{url.partition('://')[2]}"
    return f"sqlite+aiosqlite:///{sandbox.path_of(url)}"


def options_of(place: TargetAddress) -> dict[str, Any]:
    """Of the engine; none for a file."""
    if kind_of(place.url or "") != POSTGRES:
        return {}
    return {
        "pool_size": POOL,
        "max_overflow": 0,
        "pool_pre_ping": True,
        "connect_args": {"server_settings": {"search_path": f'"{sandbox.schema_of(place)}"'}},
    }
