"""Audit reports, stored for later readers.

Each report is one entity: a document that summarizes the findings, and a log with the report in
pieces. This module treats the report as bytes.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode

import msgspec
from msgspec.structs import replace

from stateward.codec import check_count
from stateward.errors import TooLarge
from stateward.kinds import AUDIT
from stateward.ops import Absent, Append, Commit, Conflict, Fetch, List, Listed, Log, Put
from stateward.records import AuditInfo, KeptAudit, moment
from stateward.state.refusals import stored
from stateward.state.scope import Scope

LARGEST = 8 << 20  # bytes of a report
PIECE = 192 << 10  # bytes of an entry, before base64
RETAIN = 400 * 86_400.0  # seconds: a report of a year ago is still there
MOST = 100  # reports in a listing

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AuditInfo, strict=False).decode


class Audits:
    """The audit reports stored in one namespace."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    async def keep(self, info: AuditInfo, report: bytes) -> None:
        """Store a report for 400 days. An existing report with that id is not replaced.

        Raises `TooLarge` for more than 8 MB.
        """
        if len(report) > LARGEST:
            raise TooLarge(
                f"a report of {len(report):,} bytes is over the limit of {LARGEST:,} bytes; keep "
                "it as a file"
            )
        entity = self._scope.entity(AUDIT, info.id)
        packed = zlib.compress(report)
        pieces = [packed[at : at + PIECE] for at in range(0, len(packed), PIECE)]
        bodies = tuple(f'"{b64encode(piece).decode()}"' for piece in pieces)
        summary = Put(AUDIT, _encode(replace(info, bytes=len(report))).decode())
        writes = (Append(bodies), summary)
        commit = Commit(entity, self._scope.world.new_op(), writes, (Absent(),), retain=RETAIN)
        (outcome,) = await self._scope.execute((commit,))
        if not isinstance(outcome, Conflict):
            stored(outcome, entity)

    async def list(self, limit: int = MOST) -> list[AuditInfo]:
        """List stored reports, newest first: at most 100, in one round trip."""
        limit = min(check_count(limit, "limit"), MOST, self._scope.capabilities.page)
        op = List(self._scope.namespace, AUDIT, reverse=True, documents=(AUDIT,), limit=limit)
        (listed,) = await self._scope.execute((op,))
        assert isinstance(listed, Listed)
        reports = []
        for each in listed.entities:
            try:
                info = _decode(each.documents[AUDIT].json)
            except (KeyError, msgspec.MsgspecError):  # written by another release
                info = AuditInfo(each.entity.id)
            reports.append(replace(info, id=each.entity.id, kept_at=moment(each.head.created)))
        return reports

    async def get(self, id: str) -> KeptAudit | None:
        """Return one report in full; None if there is none with that id, or it cannot be read."""
        entity = self._scope.entity(AUDIT, id)
        fetched = await self._scope.fetch(Fetch(entity, log=Log(), documents=(AUDIT,)))
        if AUDIT not in fetched.documents:
            return None
        try:
            info = _decode(fetched.documents[AUDIT].json)
            packed = b"".join(
                b64decode(msgspec.json.decode(body, type=str)) for body in fetched.lines.split("\n")
            )
            report = zlib.decompressobj().decompress(packed, LARGEST)
        except (msgspec.MsgspecError, ValueError, zlib.error):
            return None
        return KeptAudit(replace(info, id=id, kept_at=moment(fetched.head.created)), report)
