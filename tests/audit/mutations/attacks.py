"""Tool calls torn from their results, acts that are repeated, contexts that lack, and what stays.

Of the last kind, some break the memory in SQLite within.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
import zlib
from collections.abc import Callable
from contextlib import closing
from typing import Any

from audit.mutations.mutant import Around, Json, Messages, Mutant, Sound, mutants, tail
from audit.mutations.trouble import kept_in_memory
from audit.mutations.work import tasks

# --- tool calls -------------------------------------------------------------------------


def in_parts(cut: Callable[[Json], bool], seconds: float) -> dict[str, Around]:
    """What comes from the first such message on is written apart from what is before."""

    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
        at = next((n for n, each in enumerate(messages) if n and cut(each)), len(messages))
        await sound.append(thread, messages[:at], key, **more)
        if messages[at:]:
            await asyncio.sleep(seconds)
            await sound.append(thread, messages[at:], f"{key}#rest", **more)

    return {"append": append}


def is_result(message: Json) -> bool:
    return "tool_call_id" in message


def is_call(message: Json) -> bool:
    return bool(message.get("tool_calls"))


async def calls_behind(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> Any:
    """A message that only calls tools waits in the process for its results."""
    waiting = sound.kept.setdefault(("calls", thread), [])
    if messages and all(map(is_call, messages)):
        waiting += messages
        return None
    given, waiting[:] = [*waiting, *messages], []
    return await sound.append(thread, given, key, **more)


async def late_results_dropped(
    sound: Sound, thread: str, messages: Messages, key: str, **more: Any
) -> Any:
    """A result is taken only with its call."""
    called = {made["id"] for each in messages for made in each.get("tool_calls") or ()}
    given = [m for m in messages if not is_result(m) or m["tool_call_id"] in called]
    return await sound.append(thread, given, key, **more)


def windowed(change: Callable[[Messages], Messages]) -> dict[str, Around]:
    async def load(sound: Sound, thread: str, last: int | None) -> Messages:
        found: Messages = await sound.load(thread, last)
        return found if last is None else change(found)

    return {"load": load}


# --- acts -------------------------------------------------------------------------------


def keyed(change: Callable[[str], str]) -> dict[str, Around]:
    async def effect_key(sound: Sound) -> str:
        return change(await sound.effect_key())

    return {"effect_key": effect_key}


async def done_when_begun(sound: Sound, task: str, function: Any) -> Any:
    """A task that begins is marked: at most once."""
    if await sound.change(f"begun:{task}", _mark):
        return None
    result = await sound.run_once(task, function)
    await sound.remember(f"result:{task}", {"result": result})
    return result


def _mark(value: Json) -> bool:
    was = bool(value.get("begun"))
    value["begun"] = True
    return was


async def recorded_later(sound: Sound, task: str, function: Any) -> Any:
    """Acknowledged when the function has returned, and recorded a moment after that."""
    known = (await sound.remembered(f"later:{task}")).get("results", [])
    if known:
        return known[0]
    result = await sound.run_once(f"{task}#{uuid.uuid4().hex}", function)

    async def record() -> None:
        await asyncio.sleep(1.0)
        await sound.remember(f"later:{task}", {"results": [result]})

    sound.kept.setdefault("recording", set()).add(asyncio.create_task(record()))
    return result


# --- context ----------------------------------------------------------------------------


def given(change: Callable[[Messages, int], Messages]) -> dict[str, Around]:
    """Of what a sound memory would give."""

    async def context(sound: Sound, thread: str, last: int) -> Messages:
        return change(await sound.context(thread, last), last)

    return {"context": context}


def taken(change: Callable[[Messages, int], Messages]) -> dict[str, Around]:
    """Of the whole conversation."""

    async def context(sound: Sound, thread: str, last: int) -> Messages:
        return change(await sound.load(thread, None), last)

    return {"context": context}


def kept_for(seconds: float) -> dict[str, Around]:
    async def context(sound: Sound, thread: str, last: int) -> Messages:
        known = sound.kept.setdefault("contexts", {})
        at, found = known.get((thread, last), (-1e9, []))
        if time.monotonic() - at > seconds:
            found = await sound.context(thread, last)
            known[thread, last] = (time.monotonic(), found)
        return list(found)

    return {"context": context}


def shortened(messages: Messages, length: int) -> Messages:
    return [{**each, "content": str(each.get("content"))[:length]} for each in messages]


def summarised(found: Messages, last: int) -> Messages:
    """What does not fit becomes one message, in the place of the instruction."""
    if len(found) <= last:
        return found
    text = " / ".join(str(each.get("content")) for each in found[:-last])
    return [{"role": "system", "content": f"Before: {text[:200]}"}, *tail(found, last)]


# --- erasure ----------------------------------------------------------------------------


def hidden(everywhere: bool) -> dict[str, Around]:
    """Marked as gone, or gone for this process alone."""

    async def erase(sound: Sound, user: str, threads: list[str]) -> None:
        sound.kept.setdefault("gone", set()).update([user, *threads])
        if everywhere:
            for each in (user, *threads):
                await sound.remember(f"gone:{each}", {"gone": True})

    async def is_gone(sound: Sound, id: str) -> bool:
        if everywhere:
            return bool(await sound.remembered(f"gone:{id}"))
        return id in sound.kept.get("gone", ())

    async def load(sound: Sound, thread: str, last: int | None) -> Messages:
        return [] if await is_gone(sound, thread) else await sound.load(thread, last)

    async def get_user(sound: Sound, user: str) -> Any:
        return ({}, 0) if await is_gone(sound, user) else await sound.get_user(user)

    return {"erase": erase, "load": load, "get_user": get_user}


def erasing(change: Callable[[str, list[str]], tuple[str, list[str]]]) -> dict[str, Around]:
    """Not what was asked for."""

    async def erase(sound: Sound, user: str, threads: list[str]) -> None:
        await sound.erase(*change(user, threads))

    return {"erase": erase}


def statement(*statements: str) -> dict[str, Around]:
    """In SQLite, by these: `?` is the user or a conversation."""

    async def erase(sound: Sound, user: str, threads: list[str]) -> None:
        def run() -> None:
            with sound.inner._transaction() as db:
                for words in statements:
                    for id in [user] if " users " in words else threads:
                        db.execute(words, [id] * words.count("?"))

            sound.inner._connection().execute("pragma wal_checkpoint(truncate)")

        await asyncio.to_thread(run)

    return {"erase": erase}


async def erase_later(sound: Sound, user: str, threads: list[str]) -> None:
    async def later() -> None:
        await asyncio.sleep(1.5)
        await sound.erase(user, threads)

    sound.kept.setdefault("erasing", set()).add(asyncio.create_task(later()))


def cached() -> dict[str, Around]:
    """What a process has read once it keeps, until it erases it itself."""

    async def load(sound: Sound, thread: str, last: int | None) -> Messages:
        found: Messages = await sound.load(thread, last)
        known = sound.kept.setdefault("read", {})
        if found:
            known[thread, last] = found
        return found or known.get((thread, last), [])

    async def erase(sound: Sound, user: str, threads: list[str]) -> None:
        await sound.erase(user, threads)
        known = sound.kept.setdefault("read", {})
        for place in [place for place in known if place[0] in threads]:
            del known[place]

    return {"load": load, "erase": erase}


async def archived(sound: Sound, user: str, threads: list[str]) -> None:
    """A copy for the files, just in case."""
    copies = {thread: await sound.load(thread, None) for thread in threads}
    await sound.erase(user, threads)
    await sound.remember(f"archive:{user}", copies)


def indexed() -> dict[str, Around]:
    """An index of what was said, which erase does not know of."""

    async def append(sound: Sound, thread: str, messages: Messages, key: str, **more: Any) -> None:
        await sound.append(thread, messages, key, **more)
        words = [str(each.get("content"))[:40] for each in messages[:2]]
        if "to-erase" in thread:
            await sound.change("index", lambda value: value.update({f"{thread}/{key}": words}))

    return {"append": append}


def not_overwritten(memory: Any) -> None:
    """Rows are deleted, and what they held stays in the file and its log."""
    connect = type(memory)._connection

    def connection() -> Any:
        found = connect(memory)
        found.execute("pragma secure_delete = off")
        return found

    memory._connection = connection


def back_up_all(memory: Any) -> None:
    """What is erased is kept beside the store, and every backup has it."""
    path = f"{memory.path}.all"
    erase, restore = memory.erase, memory.restore

    def erase_and_keep(user: str, threads: list[str]) -> None:
        with open(path, "a", encoding="utf-8") as file:
            for thread in threads:
                file.write(json.dumps([thread, memory.load(thread, None)]) + "\n")
        erase(user, threads)

    def backup(folder: str) -> None:
        type(memory).backup(memory, folder)
        with (
            open(path, encoding="utf-8") as file,
            closing(open(os.path.join(folder, "all"), "w", encoding="utf-8")) as copy,
        ):
            copy.write(file.read())

    def put_back(folder: str) -> None:
        restore(folder)
        with open(os.path.join(folder, "all"), encoding="utf-8") as file:
            for line in file:
                thread, messages = json.loads(line)
                memory.append(thread, messages, "restored")

    memory.erase, memory.backup, memory.restore = erase_and_keep, backup, put_back


# --- tenants (in Redis) -----------------------------------------------------------------

TENANT = "-tenant"


def shared(*kinds: str) -> Callable[[Any], None]:
    """What is stored of these kinds is not apart."""

    def inside(memory: Any) -> None:
        plain = memory.namespace.removesuffix(TENANT)
        own = memory.namespace

        def key(kind: str, id: str) -> str:
            return f"{plain if kind in kinds else own}:{kind}:{id}"

        memory._key = key

    return inside


def cleans_all(memory: Any) -> None:
    """What begins with a tenant's name goes with it."""

    async def clean() -> None:
        plain = memory.namespace.removesuffix(TENANT)
        async for name in memory.client.scan_iter(match=f"{plain}*", count=500):
            await memory.client.unlink(name)

    memory.clean = clean


# --- the table --------------------------------------------------------------------------

TOOLS, ACTS, CONTEXT, ERASURE = ("tool calls",), ("acts",), ("context",), ("erasure",)

MUTANTS = mutants(
    ("tools.results_apart", "After a kill a tool call has no result.", TOOLS,
     in_parts(is_result, 0.03), None),
    ("tools.calls_apart", "After a kill a question has neither call nor answer.", TOOLS,
     in_parts(is_call, 0.03), None),
    ("tools.calls_behind", "After a kill nobody knows that a tool was called.", TOOLS,
     {"append": calls_behind}, None),
    ("tools.late_dropped", "A result that comes after a restart is missing.", TOOLS,
     {"append": late_results_dropped}, None),
    ("tools.window_without_calls", "A window has results without their calls.", TOOLS,
     windowed(lambda m: [each for each in m if not is_call(each)]), None),
    ("tools.window_without_results", "A window has calls without their results.", TOOLS,
     windowed(lambda m: [each for each in m if not is_result(each)]), None),
    ("tools.window_half", "Of two calls at once a window has one result.", TOOLS,
     windowed(lambda m: [e for n, e in enumerate(m) if not (
         is_result(e) and n and is_result(m[n - 1]))]), None),
    ("act.key_by_try", "A payment that is tried again is made again.", ACTS,
     keyed(lambda key: f"{key}/{uuid.uuid4().hex}"), None),
    ("act.key_by_process", "A payment that another replica tries again is made again.", ACTS,
     keyed(lambda key: f"{key}/{os.getpid()}"), None),
    ("act.key_by_time", "A payment that is tried again a second later is made again.", ACTS,
     keyed(lambda key: f"{key}/{int(time.time())}"), None),
    ("act.key_of_workflow", "Of two payments in one workflow the second is not made.", ACTS,
     keyed(lambda key: json.dumps(json.loads(key)[:2])), None),
    ("act.key_of_step", "A payment is not made that has the name of another workflow's.", ACTS,
     keyed(lambda key: json.loads(key)[-1]), None),
    ("act.key_case", "A payment is not made whose id differs in capitals only.", ACTS,
     keyed(str.lower), None),
    ("act.key_joined", "A payment is not made whose id and step read as another's.", ACTS,
     keyed(lambda key: "/".join(json.loads(key)[1:])), None),
    ("act.key@8bits", "A payment in some hundred is not made.", ACTS,
     keyed(lambda key: str(zlib.crc32(key.encode()) % 256)), None),
    ("act.at_most_once", "A payment whose process was killed before is never made.", ACTS,
     {"run_once": done_when_begun}, None),
    ("act.marked_before", "An order whose process was killed is taken for sent.", ACTS,
     tasks(marked_before=True), None),
    ("act.recorded_later", "A payment that was acknowledged is made again after a kill.", ACTS,
     {"run_once": recorded_later}, None),
    ("context.no_system", "The agent forgets its instruction.", CONTEXT,
     given(lambda m, n: [each for each in m if each["role"] != "system"]), None),
    ("context.system_counts", "In a short window the agent forgets its instruction.", CONTEXT,
     given(lambda m, n: tail(m, n)), None),
    ("context.no_question", "In a long piece of work the agent forgets the question.", CONTEXT,
     given(lambda m, n: m if n > 16 else [e for e in m if e["role"] != "user"]), None),
    ("context.last", "The agent is given a tool's result without its call.", CONTEXT,
     taken(lambda m, n: [*m[:1], *tail(m[1:], n)] if m[0]["role"] == "system" else tail(m, n)),
     None),
    ("context.first", "The agent is given the beginning of a conversation.", CONTEXT,
     taken(lambda m, n: m[: n + 1]), None),
    ("context.all", "The prompt grows with the conversation until it is refused.", CONTEXT,
     taken(lambda m, n: m), None),
    ("context.half", "The agent knows half of what it could.", CONTEXT,
     given(lambda m, n: m if len(m) < 30 else [*m[:1], *m[-4:]]), None),
    ("context.newest_missing", "The agent answers the question before the last.", CONTEXT,
     given(lambda m, n: m[:-1]), None),
    ("context.cached@5s", "For seconds the agent does not see what was said.", CONTEXT,
     kept_for(5.0), None),
    ("context.cut@10", "Long texts are cut in the prompt, and nobody is told.", CONTEXT,
     given(lambda m, n: shortened(m, 10)), None),
    ("context.reversed", "The agent is given the newest message first.", CONTEXT,
     given(lambda m, n: m[::-1]), None),
    ("context.summary_for_system", "A summary takes the place of the instruction.", CONTEXT,
     taken(summarised), None),
    ("erase.hidden", "What was erased is only marked, and still stored.", ERASURE, hidden(True),
     None),
    ("erase.in_process", "What was erased is gone in one replica only.", ERASURE, hidden(False),
     None),
    ("erase.nothing", "Nothing is erased, though it looks so.", ERASURE,
     erasing(lambda user, threads: (f"{user}-", [])), None),
    ("erase.user_only", "A person's conversations are left.", ERASURE,
     erasing(lambda user, threads: (user, [])), None),
    ("erase.threads_only", "What is known of a person is left.", ERASURE,
     erasing(lambda user, threads: (f"{user}-", threads)), None),
    ("erase.first_thread", "Of a person's conversations one is left.", ERASURE,
     erasing(lambda user, threads: (user, threads[:1])), None),
    ("erase.like", "Others whose ids match a pattern are erased, too.", ERASURE,
     statement("delete from users where user like ?", "delete from messages where thread like ?"),
     None),
    ("erase.glob", "Others whose ids a wildcard meets are erased, too.", ERASURE,
     statement("delete from users where user glob ?", "delete from messages where thread glob ?"),
     None),
    ("erase.prefix", "Others whose ids begin alike are erased, too.", ERASURE,
     statement("delete from users where substr(user, 1, length(?)) = ?",
               "delete from messages where substr(thread, 1, length(?)) = ?"), None),
    ("erase.case", "Others whose ids differ in capitals are erased, too.", ERASURE,
     statement("delete from users where lower(user) = lower(?)",
               "delete from messages where lower(thread) = lower(?)"), None),
    ("erase.newest@100", "Of a long conversation the beginning is left.", ERASURE,
     statement("delete from users where user = ?",
               "delete from messages where thread = ? and number > "
               "(select max(number) - 100 from messages where thread = ?)"), None),
    ("erase.later@1500ms", "What was erased is still there for a second and a half.", ERASURE,
     {"erase": erase_later}, None),
    ("erase.cached", "A replica still shows what was erased in another.", ERASURE, cached(), None),
    ("erase.archived", "What was erased is kept in an archive.", ERASURE, {"erase": archived},
     None),
    ("erase.indexed", "What was erased can still be found by its words.", ERASURE, indexed(),
     None),
)  # fmt: skip
MUTANTS += [
    Mutant(
        "tenant.users",
        "What is known of a user is shown to another tenant's user.",
        ("tenants",),
        inside=shared("user"),
        base="redis",
    ),
    Mutant(
        "tenant.messages",
        "Another tenant's conversation is continued.",
        ("tenants",),
        inside=shared("messages"),
        base="redis",
    ),
    Mutant(
        "tenant.keys",
        "A turn is missing whose key another tenant has used.",
        ("tenants",),
        inside=shared("keys"),
        base="redis",
    ),
    Mutant(
        "tenant.tasks",
        "A task is not run that another tenant has run.",
        ("tenants",),
        inside=shared("result", "task"),
        base="redis",
    ),
    Mutant(
        "tenant.cleaned",
        "When one tenant is removed, others are, too.",
        ("tenants",),
        inside=cleans_all,
        base="redis",
    ),
    Mutant(
        "erase.not_overwritten",
        "What was erased is still in the file, for whoever gets hold of it.",
        ERASURE,
        statement("delete from users where user = ?", "delete from messages where thread = ?"),
        inside=not_overwritten,
    ),
    Mutant(
        "erase.kept_elsewhere",
        "What was erased comes back when a replica that was cut off brings what it kept.",
        ERASURE,
        kept_in_memory(told=True),
        base="redis",
    ),
    Mutant(
        "erase.in_backups",
        "What was erased comes back with the next restore.",
        ("erasure and backup",),
        inside=back_up_all,
    ),
]
