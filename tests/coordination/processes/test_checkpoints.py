"""Another process that copies the write-ahead log is no reason for a write to fail."""

from __future__ import annotations

from pathlib import Path

import stateward.sync
from coordination.processes.conftest import Start
from coordination.processes.replicas import Effects

MEGABYTE = "x" * 1_000_000


def test_writes_go_on_while_another_process_is_copying_the_write_ahead_log(
    start: Start, url: str, path: Path, effects: Effects
) -> None:
    with stateward.sync.open(url) as store:
        store.thread("t").append({"n": 0})
        blocker = start("blocker", lock="checkpoint", path=str(path), effects=str(effects.path))
        blocker.until_said(ready=True)
        blocker.tell(hold=True)
        blocker.until_said(held=True)
        for number in range(1, 41):  # more than the log may hold before a writer makes room itself
            assert store.thread("t").append({"n": number, "filler": MEGABYTE}).version == number + 1
        assert path.with_name(f"{path.name}-wal").stat().st_size > 8_000 * 4096
        blocker.tell(release=True)
        blocker.finish()
        assert store.thread("t").load(last=1).version == 41
