"""An application of FastAPI for uvicorn: one conversation, one document, one lock."""

from __future__ import annotations

import os
from typing import Annotated, Any

from fastapi import Depends, FastAPI

import stateward
from stateward.integrations.asgi import StoreMiddleware, current_store

Store = Annotated[stateward.Store, Depends(current_store)]

store = stateward.open(
    os.environ["ASGI_URL"],
    spill=os.environ["ASGI_SPILL"],
    policy=stateward.Policy(read_timeout=0.4, write_timeout=0.4, breaker_seconds=0.05),
)
app = FastAPI()
app.add_middleware(StoreMiddleware, store=store)


@app.post("/chat")
async def say(text: str, store: Store) -> str:
    return (await store.thread("s-1").append({"role": "user", "content": text})).status


@app.get("/chat")
async def history(store: Store) -> list[Any]:
    return (await store.thread("s-1").load()).messages
