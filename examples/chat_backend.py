"""A chat backend for production: several workers, retries, kills and outages.

    pip install stateward fastapi uvicorn
    export STATEWARD_METRICS=metrics  # one scrape of /metrics then has the sums of all workers
    cd examples && uvicorn chat_backend:app --workers 3

It keeps its conversations in `STATEWARD_URL`: a SQLite file unless you say otherwise, or
redis://… (pip install 'stateward[redis]'), or postgresql://… (pip install 'stateward[postgres]').

    curl -X POST localhost:8000/chat/s-1 -H 'X-User: u-42' -H 'Idempotency-Key: request-1' \
         -H 'Content-Type: application/json' -d '{"text": "Where is my order?"}'
"""

import asyncio
import contextlib
import os
import random
from typing import Annotated, Any

from fastapi import BackgroundTasks, Depends, FastAPI, Header
from pydantic import BaseModel

import stateward
from stateward.integrations.asgi import StoreMiddleware, current_store

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


class Question(BaseModel):
    """What the user typed."""

    text: str


async def ask_the_model(history: list[Message] | None, question: Message) -> Message:
    """Replace it with your model: it takes a while, and never says the same thing twice."""
    await asyncio.sleep(0.05)
    if history is None:
        seen = "I cannot see our conversation right now, but"
    else:
        seen = f"After {len(history)} messages,"
    text = f"{seen} about {question['content']!r}: yes. ({random.randrange(10**12)})"
    return {"role": "assistant", "content": text}


@app.post("/chat/{session}")
async def chat(
    session: str,
    asked: Question,
    idempotency_key: Annotated[str, Header()],
    user: User,
    store: Store,
    later: BackgroundTasks,
) -> dict[str, Any]:
    """Answer a request once, however often it is delivered, and by whichever worker."""
    thread, saved = store.thread(session, user=user), "before"
    async with thread.turn(key=idempotency_key, last=20, alone=True, ttl=3) as turn:
        if turn.answer is None:  # this request has not been answered yet
            question = {"role": "user", "content": asked.text}
            # A history that cannot be read is not empty: the model knows, and tells the user.
            history = None if turn.window is None else turn.messages
            answer = await ask_the_model(history, question)
            saved = (await turn.store(question, answer)).status
            if saved == "stored" and not turn.messages:
                later.add_task(name_it, thread, asked.text[:60])
    return {"answer": (turn.answer or answer)["content"], "saved": saved}


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
