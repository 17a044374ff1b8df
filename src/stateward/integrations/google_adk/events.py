"""Events of Google's ADK from what stands in a session's thread, also from other frameworks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.genai.types import Content

from stateward.codec import decode
from stateward.errors import EffectUnknown
from stateward.ops import Entry
from stateward.shapes import translate

AUTHOR = "author"  # a key of every event, and of no message of other frameworks
USER = "user"
UNKNOWN = "stateward_unknown"  # an attribute of a session: errors by the call that they answer


def as_events(entries: Sequence[Entry], app_name: str, before: Sequence[Event] = ()) -> list[Event]:
    """Return the events of a session; messages of other frameworks become events.

    The author of a model's messages is the agent that answered first in the session, or the
    application: ADK presents the messages of other authors to an agent in altered form.
    """
    messages = [(entry, decode(entry.body)) for entry in entries]
    answered = [message.get(AUTHOR, USER) for _, message in messages]
    answered = [*(event.author for event in before), *answered]
    agent = next((author for author in answered if author != USER), app_name)
    events: list[Event] = []
    for own, run in groupby(messages, lambda each: AUTHOR in each[1]):
        if own:
            events += (Event.model_validate(message) for _, message in run)
        else:
            events += _events_of(list(run), agent)
    return events


def _events_of(run: Sequence[tuple[Entry, dict[str, Any]]], agent: str) -> list[Event]:
    """Return adjacent messages of other frameworks as events, with the same ids each time."""
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


def note_unknown(session: Session, call: str | None, error: EffectUnknown) -> None:
    """Note in a session that nothing may be stored as the answer of a call but this error."""
    vars(session).setdefault(UNKNOWN, {})[call] = error


def raise_unknown(session: Session, event: Event) -> None:
    """Raise the error noted for a call that this event answers."""
    unknown = vars(session).get(UNKNOWN, {})
    for response in event.get_function_responses() if unknown else ():
        if error := unknown.pop(response.id, None):
            raise error
