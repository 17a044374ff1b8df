"""Arguments that several tools take, described for a model."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from stateward.codec import MOST as HIGHEST

Number = Annotated[int, Meta(ge=1, le=HIGHEST)]
Limit = Annotated[int, Meta(ge=1, le=100, description="How many at most, 1 to 100.")]
After = Annotated[
    str | None, Meta(description="The `next` of the page before, for what comes after it.")
]
User = Annotated[str | None, Meta(description="Only what belongs to this user id.")]
Owner = Annotated[str | None, Meta(description="The id of the user whose documents are meant.")]
ThreadId = Annotated[
    str, Meta(min_length=1, description="The id of the conversation (thread), e.g. s-abc123.")
]
Name = Annotated[
    str, Meta(min_length=1, description="The name of the document, e.g. profile or preferences.")
]
