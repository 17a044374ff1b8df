"""Two replicas, one SQLite file, no network: what Holdfast promises, tried and counted."""

import subprocess
import sys
import tempfile
import time

from holdfast import sync

COUNT = 200
failed = []


def replica(url: str, name: str, job: str, count: int) -> None:
    """An agent's process. It prints a number once the store has acknowledged that write."""
    with sync.open(url) as store:
        for n in range(count):
            if job == "talk":
                turn = [{"role": role, "turn": n, "by": name} for role in ("user", "assistant")]
                store.thread("s-1", user="u-1").append(*turn, key=f"{name}-{n}")
            else:
                store.user("u-1").update(lambda seen: {"visits": seen.get("visits", 0) + 1})
            print(n, flush=True)


def start(url: str, job: str, **counts: int) -> list[subprocess.Popen[str]]:
    commands = [[sys.executable, __file__, url, by, job, str(n)] for by, n in counts.items()]
    return [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]


def acknowledged(process: subprocess.Popen[str]) -> int:
    """How many writes a replica was promised from here to its end."""
    with process:
        return len(process.stdout.read().split())


def proof(holds: bool, claim: str) -> None:
    print(f"  {'✓' if holds else '✗'} {claim}")
    if not holds:
        failed.append(claim)


def main(url: str) -> None:
    print("Two replicas, each a process of its own, serve one conversation:")
    said = sum(map(acknowledged, start(url, "talk", A=COUNT, B=COUNT)))
    with sync.open(url) as store:  # both have ended: this is the restart
        thread, user = store.thread("s-1", user="u-1"), store.user("u-1")
        messages = thread.load().messages
        turns = list(zip(messages[::2], messages[1::2], strict=True))
        kept = len(turns)
        proof(kept == said == 2 * COUNT, f"{said} turns acknowledged, {kept} there after a restart")
        whole = sum(question | {"role": "assistant"} == answer for question, answer in turns)
        proof(whole == len(turns), f"{whole} questions stand next to their own answers")

        print("Both change one document of one user at once:")
        made = sum(map(acknowledged, start(url, "visit", A=COUNT, B=COUNT)))
        visits = user.get().value["visits"]
        proof(visits == made == 2 * COUNT, f"{made} updates acknowledged, {visits} counted")

        print("kill -9 hits one of two replicas in the middle of its work:")
        doomed, other = start(url, "talk", C=1_000_000, D=COUNT)
        promised = len([doomed.stdout.readline() for _ in range(COUNT)])
        doomed.kill()
        promised += acknowledged(doomed)
        served = acknowledged(other)
        writers = [message["by"] for message in thread.load().messages]
        kept = writers.count("C") / 2  # the last one may be stored without having been answered
        proof(kept - promised in (0, 1), f"{promised} turns acknowledged, {kept:g} stored, no half")
        proof(
            writers.count("D") == 2 * served == 2 * COUNT,
            f"the other served its {served}, undisturbed",
        )

        again = thread.append(*turns[0], key=f"{turns[0][0]['by']}-{turns[0][0]['turn']}")
        proof(again.status == "duplicate", "a turn delivered twice is stored once")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        replica(*sys.argv[1:4], int(sys.argv[4]))
        sys.exit()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        main(f"sqlite:///{folder}/agents.db")
    took = f"in {time.monotonic() - begun:.1f} s"
    print(f"{len(failed)} proofs failed, {took}." if failed else f"All of it holds, {took}.")
    sys.exit(1 if failed else 0)
