"""The context for a prompt: a window of the thread, the user's documents and active workflows."""

from __future__ import annotations

from stateward.codec import check_id
from stateward.context.compaction import Compaction, check_compaction
from stateward.context.window import Bounds
from stateward.kinds import THREAD, USER, WORKFLOW
from stateward.ops import Entity, Fetch, Fetched, List, Listed
from stateward.state.layered import Layered
from stateward.state.scope import Scope
from stateward.state.stored_document import document
from stateward.state.window_record import Context
from stateward.state.window_request import WindowRequest
from stateward.state.windows import Changed, answer, questions, read_window
from stateward.state.workflow_record import READING, workflow_info


async def read_context(
    layered: Layered,
    scopes: tuple[Scope, Scope, Scope],
    user: str,
    thread: str,
    bounds: Bounds,
    compaction: Compaction | None,
    entries: bool,
) -> Context:
    """Read the context in one round trip to each engine, whatever the length of the history.

    `scopes` are those of threads, of users and of workflows.
    """
    check_id(user, "a user")
    threads, users, work = scopes
    if compaction is not None:
        check_compaction(compaction, None, None, bounds.exact)
    entity, owner = threads.entity(THREAD, thread), Entity(users.namespace, USER, user)
    wanted = WindowRequest(entity, user, bounds, compaction=compaction, entries=entries)
    active = List(work.namespace, kind=WORKFLOW, owner=user, status="active", documents=READING)
    asked = questions(threads, wanted, at_once=True)
    everything = Fetch(owner, user, all_documents=True)
    if threads is users is work:
        outcomes = await threads.execute((*asked, everything, active))
    else:
        outcomes = await layered.execute(
            (*((threads, fetch) for fetch in asked), (users, everything), (work, active))
        )
    memory, listed = outcomes[-2:]
    assert type(listed) is Listed
    try:
        window = await answer(threads, wanted, outcomes[:-2])
    except Changed:
        window = await read_window(threads, wanted)
    assert type(memory) is Fetched
    documents = {name: document(value) for name, value in memory.documents.items()}
    return Context(window, documents, [workflow_info(each) for each in listed.entities], user)
