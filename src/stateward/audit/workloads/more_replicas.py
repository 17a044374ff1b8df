"""Doubling of the replicas half-way through a load, as auto-scaling does it."""

from __future__ import annotations

from stateward.audit.histogram import LogHistogram
from stateward.audit.record import Doubling
from stateward.audit.replicas.fleet import Replica
from stateward.audit.workloads.load import CALM, calm, loaded, together
from stateward.audit.workloads.workload import Stage, Workload


async def conduct(stage: Stage) -> None:
    await stage.fleet.rest()
    conversations = max(stage.sizes.conversations)
    threads = stage.names("doubling", conversations)
    warm_ones = await stage.fleet.start(stage.sizes.replicas)
    await warm_ones[0].ask("load:prepare", threads=threads)
    for replica in warm_ones[1:]:
        await replica.ask("load:warm", threads=threads)
    tried: list[Doubling] = []
    while not tried or (tried[-1].lag > CALM and len(tried) <= stage.sizes.repeats):
        if tried:
            await calm()
        stage.say("doubling the number of replicas")
        tried.append(await _doubled(stage, warm_ones, threads, len(tried)))
    await stage.fleet.end(*warm_ones)
    stage.record.doubling = min(tried, key=lambda each: each.lag)


async def _doubled(
    stage: Stage, warm_ones: list[Replica], threads: list[str], again: int
) -> Doubling:
    joining = await stage.fleet.start(len(warm_ones), fresh=True)
    measured = await loaded(stage, warm_ones, threads, stage.sizes.rate / 2, again, joining)
    await stage.fleet.end(*joining)
    half = int(stage.sizes.duration / 2 * 10)
    warm = together(
        LogHistogram(counts)
        for each in measured[: len(warm_ones)]
        for tenth, counts in each["lookups"].items()
        if int(tenth) >= half
    )
    cold = together(LogHistogram(each["first"]) for each in measured[len(warm_ones) :])
    return Doubling(
        before=len(warm_ones),
        after=len(warm_ones) + len(joining),
        lookups=cold.total,
        cold_p50=cold.ms(0.5),
        cold_p95=cold.ms(0.95),
        warm_p50=warm.ms(0.5),
        warm_p95=warm.ms(0.95),
        lag=together(LogHistogram(each["lag"]) for each in measured).ms(0.99),
    )


WORKLOAD = Workload("more-replicas", "threads", "doubling the replicas under load", conduct)
