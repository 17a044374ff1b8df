"""`make demo`: a support agent with three replicas on one SQLite file, offline; prints proofs."""

import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from functools import partial

from stateward import EffectUnknown, WorkflowInfo, idempotency_key, sync
from stateward.sync.state.run import Run

COUNT = 60  # turns, and updates, of each replica
TTL = 1.5  # seconds until another replica takes over a dead one's work
ORDER = {"order": "o-991", "amount": 40}
failed: list[str] = []


# --- what a replica does, in its own process --------------------------------------------


def effect(world: str, name: str, what: str) -> str:
    """Something that happens outside the store: here, one line in a file."""
    if (name, what) == ("A", "reserve"):
        print("reserving", flush=True)
        time.sleep(60)  # it is killed before this ends
    with open(world, "a", encoding="utf-8") as file:
        file.write(f"{what} {idempotency_key()} {name}\n")
    if (name, what) == ("A", "book"):
        print("booked", flush=True)
        time.sleep(60)  # it is killed before this is recorded
    return f"{what} by {name}"


def refund(do: partial[str], run: Run) -> None:
    """A workflow: finished steps are never run again, and `wait` needs no process."""
    run.step("check", do, "check")
    run.step("reserve", do, "reserve")
    run.save({"waiting for": "approval"})
    if run.wait("approval")["granted"]:
        run.step("pay", do, "pay")


def serve(store: sync.Store, name: str, job: str, do: partial[str]) -> None:
    workflow = store.workflow("refund-991", kind="refund", user="u-1", input=ORDER, ttl=TTL)
    handlers = {"refund": partial(refund, do)}

    def info() -> WorkflowInfo:
        return workflow.info() or sys.exit("the refund is gone")

    if job == "talk":
        for n in range(COUNT):
            turn = [{"role": role, "turn": n, "by": name} for role in ("user", "assistant")]
            with store.thread("s-1", user="u-1").turn(key=f"{name}-{n}", last=20) as request:
                request.store(*turn)
            store.user("u-1").update(lambda known: {"turns": known.get("turns", 0) + 1})
    elif job == "charge":
        for _ in range(5):  # the queue redelivers it, to every replica
            print(store.once("delivery-77", do, "charge").replace(" ", "-"))
    elif job == "refund":
        with workflow as run:
            refund(do, run)
    elif job == "reserve":
        store.work(handlers, poll=0.05, ttl=TTL, until=lambda: bool(info().state))
    elif job == "book":
        store.thread("s-1", user="u-1").effect("call-7", do, "book", ttl=TTL, name="effect")
    elif job == "pay":
        store.work(handlers, poll=0.05, ttl=TTL, until=lambda: info().status != "active")


# --- the proofs -------------------------------------------------------------------------


def start(folder: str, job: str, names: str) -> list[subprocess.Popen[str]]:
    commands = [[sys.executable, __file__, folder, name, job] for name in names]
    return [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]


def said(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Everything that replicas print until they exit; they must exit without an error."""
    words = [word for process in processes for word in process.communicate()[0].split()]
    proof(
        not any(p.returncode for p in processes),
        f"{len(processes)} replica(s) exited without an error",
    )
    return words


def proof(holds: bool, claim: str) -> None:
    print(f"  {'✓' if holds else '✗'} {claim}")
    if not holds:
        failed.append(claim)


def happened(folder: str) -> Counter[str]:
    """How often each thing was done outside the store."""
    with open(f"{folder}/world", encoding="utf-8") as file:
        return Counter(line.split()[0] for line in file)


def main(folder: str) -> None:
    url = f"sqlite:///{folder}/agents.db"
    print("Three replicas serve one conversation and learn about one user:")
    said(start(folder, "talk", "ABC"))
    with sync.open(url) as store:  # the replicas have exited: this is the restart
        messages = store.thread("s-1", user="u-1").load().messages
        counted = store.user("u-1").get().value["turns"]
    pairs = list(zip(messages[::2], messages[1::2], strict=True))
    whole = sum(question | {"role": "assistant"} == answer for question, answer in pairs)
    proof(len(pairs) == 3 * COUNT, f"{len(pairs)} of {3 * COUNT} turns remembered after a restart")
    proof(whole == len(pairs), f"{whole} questions are followed by their own answers")
    proof(counted == 3 * COUNT, f"{counted} of {3 * COUNT} updates counted: none was lost")

    print("kill -9 hits a replica in the middle of a refund:")
    (doomed,) = start(folder, "refund", "A")
    with doomed:
        assert doomed.stdout is not None
        doomed.stdout.readline()  # it is in its second step
        doomed.kill()
    before = happened(folder)
    proof(before == {"check": 1}, f"before it died: {dict(before)}")
    said(start(folder, "reserve", "BC"))
    after = happened(folder)
    proof(
        after == {"check": 1, "reserve": 1}, f"the others continued: {dict(after)}, nothing twice"
    )

    print("A person approves while no replica runs:")
    with sync.open(url) as store:
        waiting = store.context(user="u-1", thread="s-1").workflows
        parked = [(info.id, info.state) for info in waiting]
        proof(parked == [("refund-991", {"waiting for": "approval"})], f"still there: {parked}")
        click = partial(store.workflow("refund-991").signal, "approval", {"granted": True})
        clicks = [click(key="click-1"), click(key="click-1")]
        proof(clicks == [True, False], "two clicks are one approval")
    said(start(folder, "pay", "ABC"))
    paid = happened(folder)
    proof(
        paid == after + Counter(pay=1), f"then three replicas started, and one paid: {dict(paid)}"
    )
    with sync.open(url) as store:
        refunded = store.workflow("refund-991").info()
        status = refunded.status if refunded else "gone"
        proof(status == "completed", f"the refund is {status}")

    print("A queue delivers one charge 15 times, to three replicas concurrently:")
    answers = said(start(folder, "charge", "ABC"))
    charges = happened(folder)["charge"]
    proof(charges == 1, f"charged {charges} time(s)")
    same = len(set(answers)) == 1
    proof(same and len(answers) == 15, f"{len(answers)} deliveries, all answered: {answers[0]}")

    print("kill -9 hits a tool after it has booked a flight, before that is recorded:")
    (doomed,) = start(folder, "book", "A")
    with doomed:
        assert doomed.stdout is not None
        doomed.stdout.readline()  # it has booked
        doomed.kill()
    with sync.open(url) as store:
        book = partial(effect, f"{folder}/world", "B")
        thread = store.thread("s-1", user="u-1")
        with suppress(EffectUnknown):  # waits until the dead replica's lease expires
            thread.effect("call-7", book, "book", name="effect")
        unknown = [info.id for info in store.effects("unknown")]
        booked = happened(folder)["book"]
        proof(unknown == ["thread/s-1/call-7"], f"the outcome is unknown, and listed: {unknown}")
        proof(booked == 1, f"booked {booked} time(s): it was not silently repeated")
        store.effect(unknown[0]).resolve("done", result="flight 991", by="a person who checked")
        answer = thread.effect("call-7", book, "book", name="effect")
        proof(answer == "flight 991", f"a person checked and decided: {answer!r}")
        left = list(store.effects("unknown"))
        proof(not left and happened(folder)["book"] == 1, "nothing is left to decide")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        place, replica, job = sys.argv[1:]
        with sync.open(f"sqlite:///{place}/agents.db") as opened:
            serve(opened, replica, job, partial(effect, f"{place}/world", replica))
        sys.exit()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        main(temporary)
    took = f"in {time.monotonic() - begun:.1f} s"
    print(f"{len(failed)} proofs failed, {took}." if failed else f"All proofs hold, {took}.")
    print("To explore such a store, with a day of data in it: make dashboard")
    sys.exit(1 if failed else 0)
