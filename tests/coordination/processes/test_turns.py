"""Requests whose process is killed or paused: answered by a successor, and never twice."""

from __future__ import annotations

from pathlib import Path

import stateward.sync
from coordination.processes.conftest import Start
from coordination.processes.replicas import Effects, pause_all

TTL = 0.5
WHO = [f"{fate}-{colour}" for fate in ("killed", "paused") for colour in ("sync", "async")]
QUESTION = {"role": "user", "content": "?"}


def says(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def test_what_a_killed_or_paused_process_was_answering_is_answered_once(
    start: Start, url: str, path: Path, effects: Effects
) -> None:
    facts = {"url": url, "effects": str(effects.path), "ttl": TTL}
    replicas = {
        who: start("answerer", who=who, colour=who.partition("-")[2], **facts) for who in WHO
    }
    for replica in replicas.values():
        replica.until_said(asked="open")
    pause_all(replicas.values(), path)
    for who in WHO[:2]:
        replicas[who].resume()
        replicas[who].kill()
    with stateward.sync.open(url) as store:
        for who in WHO:
            with store.thread(who).turn(key="stored", last=20) as turn:
                assert turn.answer == says(who), "it was stored, though nobody was told"
            with store.thread(who).turn(key="open", last=20, wait=60) as turn:
                assert turn.answer is None
                assert turn.messages == [QUESTION, says(who)]
                turn.store(QUESTION, says("successor"))
        for who in WHO[2:]:
            replicas[who].resume()
            replicas[who].tell(go=True)
        for who in WHO[2:]:
            said = replicas[who].finish()
            assert said[-1] == {"status": "duplicate", "answer": "successor"}
        for who in WHO:
            with store.thread(who).turn(key="open") as turn:
                assert turn.answer == says("successor")
            found = store.thread(who).load().messages
            assert found == [QUESTION, says(who), QUESTION, says("successor")]
    assert effects.count("asked") == {"stored": 4, "open": 4}
