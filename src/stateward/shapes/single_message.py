"""One message by itself as OpenAI's items: for pages, which do not see the whole conversation.

A conversation that is read as a whole is translated by `translate`, which also pairs calls with
their results. Here each call and result has its id, and stands where it stood.
"""

from __future__ import annotations

from itertools import groupby

from msgspec.structs import replace

from stateward.shapes import READERS, ROLES, shape_of
from stateward.shapes.openai_responses import IDS, write
from stateward.shapes.pairs import digest
from stateward.shapes.parts import CallPart, Message, Part, ResultPart, Speech
from stateward.shapes.sources import Sources


def items_alone(message: Message) -> list[Message] | None:
    """The items that a message amounts to, in order; None: it is none of any known shape."""
    shape = shape_of(message)
    if shape is None:
        return None
    read = READERS[shape](message)
    speeches = []
    for speech in read if isinstance(read, list) else [read]:
        role = ROLES.get(speech.role)
        if role is None and speech.parts:
            return None
        named = (_named(part) for part in speech.parts)
        for results, parts in groupby(named, lambda part: isinstance(part, ResultPart)):
            speaker = "tool" if results else role or ""
            speeches.append(Speech(speaker, list(parts), speech.name, speech.turn, shape, message))
    return write(speeches, Sources([speeches], [None]))


def _named(part: Part) -> Part:
    """A call, or its result, with an id that OpenAI takes; Gemini's may have a name alone."""
    if not isinstance(part, CallPart | ResultPart):
        return part
    id = part.id or digest(part.name)
    return replace(part, id=id if IDS.fullmatch(id) else digest(id))
