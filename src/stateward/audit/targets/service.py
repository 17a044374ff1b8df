"""A Stateward service as a target: a store that is asked over HTTP."""

from __future__ import annotations

import asyncio
import http.client
from typing import Self
from urllib.parse import urlsplit

from stateward.audit.profiles import AuditSizes
from stateward.audit.targets.store import StoreTarget

LIVE = b'{"live":true}'  # answer that only a Stateward service gives at /live
TIMEOUT = 5.0  # seconds


class ServiceTarget(StoreTarget, frozen=True):
    """A store whose connections are the service's own affair.

    Its `url`, if the user has said so, is where the service itself keeps what it stores.
    """

    @property
    def pool(self) -> int:
        """Return None: only the service has connections to the database, however many agents."""
        return 0

    async def fitted(self, sizes: AuditSizes) -> tuple[Self, AuditSizes]:
        return self, sizes


async def is_service(url: str) -> bool:
    """Return True if a Stateward service answers there. Needs no key, and shows none."""
    return await asyncio.to_thread(_is_live, url)


def _is_live(url: str) -> bool:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "127.0.0.1", parts.port, timeout=TIMEOUT)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/live")
        with connection.getresponse() as answer:
            return answer.status == 200 and answer.read(100) == LIVE
    except (OSError, http.client.HTTPException):
        return False  # the next request raises the right error
    finally:
        connection.close()
