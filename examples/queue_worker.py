"""A worker that takes orders from a queue and charges each of them once, whatever is killed.

    pip install stateward
    python queue_worker.py

The queue delivers an order until it is acknowledged, as SQS, RabbitMQ and Redis Streams do. One
worker is killed with `kill -9` right after it has charged a card. Then it is unknown whether the
bank has the money: so the next worker asks the bank, and does not charge again.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import stateward
from stateward import sync

URL = os.environ.get("STATEWARD_URL", "sqlite:///orders.db")
QUEUE = Path("orders")  # a file for each order that is not acknowledged: your queue goes here
BANK = Path("bank.txt")  # what was charged: your payment service goes here
ORDERS = ("o-1", "o-2", "o-3")
TTL = 1.0  # seconds until a dead worker's order is taken over; use 30 in production
NAME = sys.argv[1] if len(sys.argv) > 1 else ""


# --- the bank ---------------------------------------------------------------------------


def charges() -> list[str]:
    return BANK.read_text("utf-8").split("\n")[:-1] if BANK.exists() else []


def charge(order: str) -> str:
    with BANK.open("a", encoding="utf-8") as file:
        file.write(f"{stateward.idempotency_key()} {order}\n")
    if NAME == "clumsy":
        print("charged", flush=True)
        time.sleep(60)  # it is killed before that is over
    return f"receipt for {order}"


def look(effect: stateward.EffectInfo) -> stateward.Done | stateward.NotDone:
    """Ask the bank whether a charge with an unknown outcome was made."""
    for line in charges():
        key, _, order = line.partition(" ")
        if key == effect.key:
            return stateward.Done(f"receipt for {order}")
    return stateward.NotDone()


# --- the worker -------------------------------------------------------------------------


def handle(store: sync.Store, order: str) -> str:
    """One delivery. What has been done for this order is not done again."""
    thread = store.thread(f"order {order}", user="u-42")
    receipt = thread.effect("charge", charge, order, reconcile=look, ttl=TTL)
    thread.append({"role": "assistant", "content": f"Here is your {receipt}."}, key="receipt")
    return receipt


def worker() -> None:
    with sync.open(URL) as store:
        for path in sorted(QUEUE.iterdir()):
            receipt = handle(store, path.name)
            print(f"{NAME}: {receipt}", flush=True)
            path.unlink(missing_ok=True)  # acknowledged only when all of it is stored


# --- the demonstration ------------------------------------------------------------------


def start(name: str, **how: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, __file__, name], text=True, **how)


def main() -> None:
    QUEUE.mkdir(exist_ok=True)
    for order in ORDERS:
        (QUEUE / order).touch()
    with start("clumsy", stdout=subprocess.PIPE) as clumsy:
        clumsy.stdout.readline()  # it has charged
        clumsy.kill()
    print("a worker was killed after it had charged, before that was recorded")
    workers = [start("ann"), start("ben")]  # both get every order that is left
    assert [process.wait() for process in workers] == [0, 0]
    charged = [line.partition(" ")[2] for line in charges()]
    assert sorted(charged) == list(ORDERS), charged
    print(f"✓ {len(charged)} orders, each charged once")


if __name__ == "__main__":
    if NAME:
        worker()
    else:
        main()
