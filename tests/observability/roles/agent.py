"""agent URL LOG: talks without end and answers Prometheus; ends when told a line. Blocking."""

from __future__ import annotations

import logging
import sys
import threading

from stateward import Policy, StoreUnavailable, sync
from stateward.observe.exporters.prometheus import serve
from stateward.observe.logs import JsonFormatter
from stateward.repeats import RepeatDetector

TALKERS = 4
ASKED = {"role": "assistant", "content": "Which colour do you prefer?"}


def talk(store: sync.Store, name: str, over: threading.Event) -> None:
    thread = store.thread(name, user=name)
    while not over.wait(0.01):
        try:
            thread.append({"role": "user", "content": "Green."}, ASKED)
            thread.load(last=5)
            store.user("u-1").update(lambda value: {"n": value.get("n", 0) + 1})
            store.context(user=name, thread=name)
        except StoreUnavailable:
            continue  # the outage that the test makes


def main(url: str, log: str) -> None:
    handler = logging.FileHandler(log)
    handler.setFormatter(JsonFormatter())
    logging.getLogger("stateward").addHandler(handler)
    over = threading.Event()
    policy = Policy(read_timeout=0.2, write_timeout=0.2)
    detector = RepeatDetector()
    with sync.open(url, policy=policy, listener=detector) as store, serve(store, port=0) as at:
        store.thread("s-0", user="s-0").append(ASKED)
        talkers = [
            threading.Thread(target=talk, args=(store, f"s-{n}", over)) for n in range(TALKERS)
        ]
        for talker in talkers:
            talker.start()
        print(at.port, flush=True)
        sys.stdin.readline()
        over.set()
        for talker in talkers:
            talker.join()
    handler.close()


main(*sys.argv[1:])
