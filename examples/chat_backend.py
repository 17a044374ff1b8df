"""A chat backend for production: several workers, retries, kills and outages.

    pip install stateward fastapi uvicorn
    export STATEWARD_METRICS=metrics  # one scrape of /metrics then has the sums of all workers
    cd examples && uvicorn chat_backend:app --workers 3

It keeps its conversations in `STATEWARD_URL`: a SQLite file unless you say otherwise, or
redis://… (pip install 'stateward[redis]'), or postgresql://… (pip install 'stateward[postgres]').

    curl -X POST localhost:8000/chat/s-1 -H 'X-User: u-42' -H 'Idempotency-Key: request-1' \
         -H 'Content-Type: application/json' -d '{"text": "Where is my order?"}'

The same with /chat/s-1/live streams the answer.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Response
from pydantic import BaseModel

import stateward
from stateward.integrations.asgi import StoreMiddleware, current_store
from stateward.integrations.starlette import live_response, resumed_response

Message = dict[str, Any]


def open_store() -> stateward.Store:
    """Each worker opens its own. It also starts while the store is down."""
    return stateward.open(os.environ.get("STATEWARD_URL", "sqlite:///chat.db"))


app = FastAPI()
app.add_middleware(StoreMiddleware, store=open_store)  # also /live, /ready and /metrics


async def signed_in(x_user: Annotated[str, Header()]) -> str:
    """Who is asking. Replace it with your authentication: never trust such a header of a client."""
    return x_user


Store = Annotated[stateward.Store, Depends(current_store)]
User = Annotated[str, Depends(signed_in)]
Key = Annotated[str, Header(alias="Idempotency-Key")]


class Question(BaseModel):
    """What the user typed."""

    text: str


async def ask_the_model(messages: list[Message], *, sees: bool) -> AsyncIterator[str]:
    """Replace it with your model: it takes a while, and never says the same thing twice."""
    seen = f"After {len(messages) - 1} messages" if sees else "I cannot see our conversation"
    for part in (seen, f", about {messages[-1]['content']!r}: ", f"{random.randrange(10**12)}."):
        await asyncio.sleep(0.02)
        yield part


async def answer(thread: stateward.Thread, turn: stateward.Turn) -> str:
    """Write and store the answer to a request, and return what became of it."""
    # A history that cannot be read is not empty: the model knows, and tells the user.
    async for part in ask_the_model(turn.messages, sees=turn.window is not None):
        await turn.write(part)
    saved = (await turn.store({"role": "assistant", "content": turn.text})).status
    if saved == "stored" and len(turn.messages) == 1:
        await name_it(thread, turn.messages[0]["content"][:60])
    return saved


def options(asked: Question, key: str) -> dict[str, Any]:
    """What every turn of this chat has."""
    question = {"role": "user", "content": asked.text}
    return {"key": key, "question": question, "last": 20, "alone": True, "ttl": 3}


@app.post("/chat/{session}")
async def chat(session: str, asked: Question, key: Key, user: User, store: Store) -> Message:
    """Answer a request once, however often it is delivered, and by whichever worker."""
    thread = store.thread(session, user=user)
    async with thread.turn(live=True, **options(asked, key)) as turn:
        saved = await answer(thread, turn) if turn.answer is None else "before"
    return {"answer": turn.reply["content"], "saved": saved}


@app.post("/chat/{session}/live")
async def stream(session: str, asked: Question, key: Key, user: User, store: Store) -> Response:
    """Answer the same way, and stream the answer as server-sent events."""
    thread = store.thread(session, user=user)
    return await live_response(thread, partial(answer, thread), **options(asked, key))


@app.get("/chat/{session}/live/{request}")
async def resume(
    session: str,
    request: str,
    user: User,
    store: Store,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Read on after a reload or a lost connection, from any worker."""
    return await resumed_response(store.thread(session, user=user), request, after=last_event_id)


async def name_it(thread: stateward.Thread, title: str) -> None:
    """For the sidebar. Not worth an error if the store is down, or the conversation deleted."""
    with contextlib.suppress(stateward.StoreUnavailable, stateward.InvalidInput):
        await thread.describe(title=title)


@app.get("/chat")
async def sidebar(user: User, store: Store, before: str | None = None) -> list[Message]:
    """The user's conversations, newest first; `before` is the cursor of the last one on a page."""
    return [
        {"id": it.id, "title": it.title, "updated": it.updated_at, "cursor": it.cursor}
        async for it in store.threads(user=user, order="recent", before=before, limit=50)
    ]


@app.get("/chat/{session}")
async def history(session: str, user: User, store: Store) -> list[Message]:
    """What was said in a conversation."""
    return (await store.thread(session, user=user).load(last=200)).messages


@app.delete("/chat/{session}", status_code=204)
async def delete(session: str, user: User, store: Store) -> None:
    """Forget a conversation. May be repeated."""
    await store.thread(session, user=user).delete()
