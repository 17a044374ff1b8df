"""One replica, in a process of its own: does what each line of its input says, and answers.

python replica.py NAME URL NAMES
"""

from __future__ import annotations

import json
import sys
from typing import Any

import stateward
from stateward import sync


def act(store: sync.Store, line: dict[str, Any]) -> Any:
    thread = store.thread(line.get("thread", "-"), user=line.get("user"))
    match line["do"]:
        case "append":
            return thread.append(*line["messages"], key=line["key"]).status
        case "load":
            window = thread.load()
            return [window.version, window.messages]
        case "list":
            return [info.id for info in store.threads()]
    raise AssertionError(line)


def main(name: str, url: str, names: str) -> None:
    with sync.open(url, replica=name, replicas=names.split(",")) as store:
        store.health()
        print(json.dumps("ready"), flush=True)
        for text in sys.stdin:
            try:
                answer = act(store, json.loads(text))
            except stateward.WrongReplica as error:
                answer = {"wrong": error.owner}
            except stateward.StoreUnavailable as error:
                answer = {"unavailable": str(error)}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
