"""Events of Google's ADK from what stands in a session's thread, also from other frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from google.adk.events.event import Event
from google.genai.types import Content

from stateward.codec import decode
from stateward.ops import Entry
from stateward.shapes import translate

AUTHOR = "author"  # every event has one, and no message of others
USER = "user"


def as_events(entries: Sequence[Entry], app_name: str, before: Sequence[Event] = ()) -> list[Event]:
    """The events of a session as they were given, and what others have said as events.

    Those of a model are of the agent that answered in this session first: ADK tells an agent what
    others have said in other words. If none has answered yet, they are of the application's name.
    """
    told = [(entry, decode(entry.body)) for entry in entries]
    answered = [message.get(AUTHOR, USER) for _, message in told]
    answered = [*(event.author for event in before), *answered]
    agent = next((author for author in answered if author != USER), app_name)
    found: list[Event] = []
    for own, run in groupby(told, lambda each: AUTHOR in each[1]):
        if own:
            found += (Event.model_validate(message) for _, message in run)
        else:
            found += _events_of(list(run), agent)
    return found


def _events_of(run: Sequence[tuple[Entry, dict[str, Any]]], agent: str) -> list[Event]:
    """What others have said without interruption; each time the same events."""
    events = []
    last = run[-1][0]
    for number, content in enumerate(translate([each for _, each in run], "gemini").messages):
        answers = any("functionResponse" in part for part in content["parts"])
        author = USER if content["role"] == USER and not answers else agent
        name = f"{last.seq}-{number}"
        event = Event(
            id=f"message-{name}",
            invocation_id=f"thread-{run[0][0].seq}",
            author=author,
            content=Content.model_validate(content),
            timestamp=last.at,
        )
        events.append(event)
    return events
