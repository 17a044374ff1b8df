"""What the trials come to: by topic, by question, by operator, and who survived."""

from __future__ import annotations

from collections import Counter

from audit.mutations.catalogue import EVERY
from audit.mutations.runner import Trial
from audit.mutations.survivors import KNOWN


def rate(caught: int, count: int) -> str:
    return f"{caught} of {count} ({100 * caught / count:.0f} %)" if count else "none"


def total(trials: list[Trial]) -> str:
    return rate(sum(trial.caught for trial in trials), len(trials))


def by_topic(trials: list[Trial]) -> list[tuple[str, int, int]]:
    """Topic, caught, all: by the first topic of each."""
    counted: Counter[str] = Counter()
    caught: Counter[str] = Counter()
    for trial in trials:
        topic = EVERY[trial.id].caught_by[0]
        counted[topic] += 1
        caught[topic] += trial.caught
    return [(topic, caught[topic], count) for topic, count in counted.items()]


def by_question(trials: list[Trial]) -> list[tuple[str, int]]:
    """Question, and how many mutants it found."""
    return Counter(id for trial in trials for id in trial.by).most_common()


def by_operator(trials: list[Trial]) -> list[tuple[str, int, int]]:
    """The part before the dot, caught, all."""
    counted: Counter[str] = Counter()
    caught: Counter[str] = Counter()
    for trial in trials:
        part = trial.id.partition(".")[0]
        counted[part] += 1
        caught[part] += trial.caught
    return [(part, caught[part], count) for part, count in counted.items()]


def survivors(trials: list[Trial]) -> list[Trial]:
    return sorted((trial for trial in trials if not trial.caught), key=lambda trial: trial.id)


def as_markdown(
    trials: list[Trial], profile: str, seconds: float, date: str = "", note: str = ""
) -> str:
    """The figures of a page; `note` is what else there is to say about the run."""
    unsure = [f"`{trial.id}`" for trial in trials if trial.unsure]
    lines = [
        f"Profile `{profile}`: **{total(trials)}** mutants caught, in one run of "
        f"{seconds / 60:.0f} minutes{f' ({date})' if date else ''}.",
        *([note] if note else []),
        *(
            [f"Caught only because a workload ended in an error: {', '.join(unsure)}."]
            * bool(unsure)
        ),
        "",
        "| what is broken | caught | of |",
        "| --- | ---: | ---: |",
        *(f"| {topic} | {caught} | {count} |" for topic, caught, count in by_topic(trials)),
        "",
        "| question | mutants it found |",
        "| --- | ---: |",
        *(f"| `{id}` | {count} |" for id, count in by_question(trials)),
        "",
    ]
    left = survivors(trials)
    if left:
        lines += [
            "| survivor | what a user would notice | why it survives |",
            "| --- | --- | --- |",
        ]
        lines += [
            f"| `{trial.id}` | {EVERY[trial.id].says} | {KNOWN.get(trial.id, 'not known yet')} |"
            for trial in left
        ]
    else:
        lines.append("None survived.")
    return "\n".join(lines)
