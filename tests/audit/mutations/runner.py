"""Audits of mutants: each with the questions that should find it, and survivors with all."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from datetime import date
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msgspec import Struct
from msgspec.structs import replace
from servers.postgres import PostgresServer
from servers.redis import RedisServer

from audit.mutations.backups import options_of
from audit.mutations.catalogue import EVERY, questions_of
from audit.mutations.mutant import Mutant
from audit.mutations.nursery import MODULE, Nursery
from stateward.audit.conductor import Audit
from stateward.audit.config import THRESHOLDS
from stateward.audit.options import AuditOptions
from stateward.audit.profiles import sizes_of
from stateward.audit.questions import QUESTIONS
from stateward.audit.record import Record
from stateward.audit.verdict import report
from stateward.audit.workloads.catalogue import WORKLOADS

TARGET = "audit.mutations.target:create"
TESTS = str(Path(__file__).parents[2])
# What takes long is asked of survivors only if it has to do with what is broken in them.
SLOW = ("latency", "concurrency", "outage", "growth", "costs", "backup", "monitoring")
Audited = tuple[dict[str, tuple[str, str]], dict[str, str], float]
VERDICTS = {"fail": ("fail", "error"), "warn": ("fail", "error", "warn")}
VERDICTS["unknown"] = (*VERDICTS["warn"], "unknown")


class Trial(Struct, frozen=True):
    """One audit of one mutant."""

    id: str
    caught: bool
    by: tuple[str, ...]  # the questions that found it
    finding: str  # what the first of them said
    asked: tuple[str, ...]
    seconds: float
    verdicts: dict[str, str] = {}
    problems: dict[str, str] = {}

    @property
    def unsure(self) -> bool:
        """Caught only because a workload could not be carried out."""
        return self.caught and all(self.verdicts[id] == "error" for id in self.by)


class Servers:
    """Where the mutants store what they store."""

    def __init__(self, folder: str, redis: str, postgres: str) -> None:
        self.folder, self.redis, self.postgres = folder, redis, postgres

    def url(self, base: str) -> str:
        plain = "?plain=1" if base.startswith("plain") else ""
        if base.endswith("redis"):
            return self.redis + plain
        if base.endswith("postgres"):
            return self.postgres + plain
        return f"sqlite:///{self.folder}/{os.getpid()}-{time.monotonic_ns()}.db"


@contextmanager
def servers() -> Iterator[Servers]:
    """Durable ones, as long as the block lasts."""
    with tempfile.TemporaryDirectory(prefix="stateward-mutations-") as folder:
        redis = RedisServer(Path(folder) / "redis").start()
        postgres = PostgresServer(fsync="on").start()
        try:
            yield Servers(folder, f"{redis.url}/0", postgres.url)
        finally:
            redis.stop()
            postgres.remove()


def audited(
    target: str | None,
    url: str | None,
    profile: str,
    only: Iterable[str],
    seed: int,
    *,
    copied: bool = False,
    **more: Any,
) -> Audited:
    """Question → verdict and summary; what went wrong; seconds.

    `copied` replicas begin as copies of one process, which takes a tenth of the time.
    """
    wanted, workloads = _wanted(only)
    options = AuditOptions(
        target=target,
        url=url,
        profile=profile,
        sizes=sizes_of(profile),
        seed=seed,
        workloads=tuple(dict.fromkeys(workloads)),
        **more,
    )
    began = time.monotonic()
    paths = os.pathsep.join([TESTS, *filter(None, sys.path)])
    with patch.dict(os.environ, PYTHONPATH=paths):  # for the replicas, and for nobody after them
        record = _loop().run(_recorded(options, copied))
    if wanted:
        record.skipped = []  # of a question that is asked, what was left out does not matter
    found = report(record, THRESHOLDS, {}, date(2026, 1, 1))
    answers = {a.id: (a.verdict, a.summary) for a in found.answers if not wanted or a.id in wanted}
    return answers, record.problems, time.monotonic() - began


def _wanted(only: Iterable[str]) -> tuple[set[str], list[str]]:
    """Questions, and the workloads that they or the part of them that is asked need."""
    wanted, workloads = set(), []
    for words in only:
        id, _, parts = words.partition(":")
        wanted.add(id)
        whole = [w for q in QUESTIONS if q.id == id for w in q.workloads]
        workloads += parts.split("+") if parts else whole
    unknown = set(workloads) - {workload.name for workload in WORKLOADS}
    assert not unknown, f"no workloads: {sorted(unknown)}"
    return wanted, workloads


@cache
def _loop() -> asyncio.Runner:
    """One for all audits of this process: the nursery belongs to it."""
    return asyncio.Runner()


@cache
def _nursery() -> Nursery:
    return Nursery()


async def _recorded(options: AuditOptions, copied: bool) -> Record:
    if not copied:
        return await Audit(options, lambda _: None).run()
    nursery, create = _nursery(), asyncio.create_subprocess_exec

    async def started(*words: str, **more: Any) -> Any:
        if MODULE in words:
            return await nursery.start(more["stderr"])
        return await create(*words, **more)

    asyncio.create_subprocess_exec = started
    try:
        return await Audit(options, lambda _: None).run()
    finally:
        asyncio.create_subprocess_exec = create


def tried(mutant: Mutant, where: Servers, profile: str, only: Iterable[str], seed: int) -> Trial:
    """One audit of it, with these questions."""
    url = f"{where.url(mutant.base)}?mutant={quoted(mutant.id)}"
    if mutant.base.startswith("store"):
        url += f"&store={where.folder}"
    options = {} if len(tuple(only)) > 1 else dict(mutant.options)
    if "backup" in mutant.caught_by:
        options |= options_of(mutant, url)
    answers, problems, seconds = audited(TARGET, url, profile, only, seed, copied=True, **options)
    enough = VERDICTS[mutant.least]
    by = tuple(
        id
        for id, (verdict, summary) in answers.items()
        if verdict in enough and (verdict in VERDICTS["fail"] or mutant.found in summary)
    )
    return Trial(
        mutant.id,
        bool(by),
        by,
        answers[by[0]][1] if by else "",
        tuple(only),
        round(seconds, 1),
        {id: verdict for id, (verdict, _) in answers.items()},
        dict(problems),
    )


def quoted(id: str) -> str:
    return id.replace("@", "%40")


def all_questions(mutant: Mutant) -> tuple[str, ...]:
    """Everything that could find it."""
    topical = {words.partition(":")[0] for words in questions_of(mutant)}
    return tuple(q.id for q in QUESTIONS if q.id in topical or q.id not in SLOW)


def _one(id: str, where: Mapping[str, str], profile: str, more: bool, seed: int) -> Trial:
    """Question by question, until one has found it; or all at once."""
    mutant, servers = EVERY[id], Servers(**where)
    if more:
        return tried(mutant, servers, profile, all_questions(mutant), seed)
    trials: list[Trial] = []
    for question in questions_of(mutant):
        trials.append(tried(mutant, servers, profile, (question,), seed))
        if trials[-1].caught and not trials[-1].unsure:
            break
    last = next((trial for trial in reversed(trials) if trial.caught), trials[-1])
    return replace(
        last,
        asked=tuple(id for trial in trials for id in trial.asked),
        verdicts={id: said for trial in trials for id, said in trial.verdicts.items()},
        seconds=round(sum(trial.seconds for trial in trials), 1),
    )


def run(
    ids: Iterable[str],
    where: Servers,
    profile: str,
    jobs: int,
    *,
    more: bool = False,
    seed: int = 1,
) -> Iterator[Trial]:
    """Yield trials as they end; with `more`, of every question that could find the mutant."""
    told = {"folder": where.folder, "redis": where.redis, "postgres": where.postgres}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        trials = [pool.submit(_one, id, told, profile, more, seed) for id in ids]
        for trial in as_completed(trials):
            yield trial.result()


def run_sound(
    where: Servers, profile: str, jobs: int, count: int
) -> Iterator[tuple[str, int, Audited]]:
    """Whole audits of sound memories as they end, each so many times: name, number, answers."""
    named = [
        ("SQLite, by hand", TARGET, "sqlite"),
        ("Redis, by hand", TARGET, "redis"),
        ("PostgreSQL, by hand", TARGET, "postgres"),
        ("Redis, plain methods", TARGET, "plain-redis"),
        ("PostgreSQL, plain methods", TARGET, "plain-postgres"),
        ("Stateward on SQLite", None, None),
        ("Stateward on Redis", where.redis, None),
        ("Stateward on PostgreSQL", where.postgres, None),
    ]
    # A process for each audit: what one leaves behind must not decide about the next.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        audits = {
            pool.submit(audited, target, base and where.url(base), profile, (), number): (
                name,
                number,
            )
            for number in range(1, count + 1)
            for name, target, base in named
        }
        for audit in as_completed(audits):
            yield *audits[audit], audit.result()
