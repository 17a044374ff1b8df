"""worker URL FOLDER: one of several workers of a host, which does what each line says. Blocking.

Says the port of its metrics. `append N` appends N messages, `fork` leaves a child that does
nothing, `close` closes the store and ends, and `exit` ends without that.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings

from stateward import sync
from stateward.observe.exporters.prometheus import serve


def fork() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # there are threads: it uses none
        if os.fork() == 0:
            os.close(0)
            os.close(1)
            signal.pause()


def main(url: str, folder: str) -> None:
    store = sync.open(url, metrics=folder, spill=False)
    endpoint = serve(store, port=0)
    print(endpoint.port, flush=True)
    for line in sys.stdin:
        match line.split():
            case ["append", count]:
                for _ in range(int(count)):
                    store.thread(f"s-{os.getpid()}").append({"role": "user", "content": "hello"})
                print("appended", flush=True)
            case ["fork"]:
                fork()
                print("forked", flush=True)
            case ["close"]:
                store.close()
                return
            case _:
                return


main(*sys.argv[1:])
