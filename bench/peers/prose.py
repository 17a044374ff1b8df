"""What the page says besides its figures."""

from __future__ import annotations

OPENING = """\
# Performance compared with other stores

<!-- Written by `make bench-peers`: change bench/peers, not this page. -->

Stateward compared with the stores that come with agent frameworks, and with DBOS for tasks that run
once: on the same engine, with the same durability, alternating within one run. How it compares with
raw drivers is on [another page](explanation/performance.md).

```
make bench-peers
```

installs them into a separate environment, measures for about {minutes} minutes and writes this
page.
"""

TARGETS = """\
On SQLite a new DBOS task makes about four commits; judging by its statements, three of them write.
Stateward makes two: it claims the task and completes it. If only waiting for the disk counted,
Stateward would be 1.5 × ahead. On PostgreSQL the claim and the completion go the general way, which
costs the server fourteen times what two statements by hand do (decision 42): a claim has a lease
that others can take over, a due time that workers find it by, and an owner. A shorter way, as
appends have, was not built.
"""

READING = """\
## How to read the tables

A figure is the median of the rounds. The number after it says how many times better Stateward was,
round by round: the median, and in brackets the smallest and largest. Below 1 × the other was ahead:
such cells are **bold**. Blocking contestants are compared with Stateward's blocking API. *Raw*
marks an engine's client used directly: it checks no owner, records no operation and knows no
expiry.

Times depend on the machine and on its other load. Ratios depend on them less, because all
contestants ran within the same seconds, but they still vary where a call waits for a shared disk:
where the brackets are wide, or lie on both sides of 1, the median proves nothing. A turn is two
messages of 500 bytes of JSON.
"""

CONTESTANTS = """\
## Contestants and their setup

Each is set up as its documentation says, including connection pools, and keeps whatever it holds
for an open conversation.

- **OpenAI Agents**: one session object per conversation. SQLAlchemy and Redis sessions share one
  engine or client. They store no user state.
- **LangGraph**: a turn is one run of a graph with one node that answers, so its time includes the
  graph's own work; when to save is left at the default. The last 20 are taken from `get_state`.
  User state is a document in LangGraph's store for that engine; it has no compare-and-swap, so an
  update is a get and a put, and is lost if another write comes between them.
- **Strands**: two `create_message` calls per turn; what an agent also writes (its own state, after
  each message) is left out. No file is synced: turns may be lost if the machine crashes.
- **Google ADK**: two events per turn, appended to a session that is already in memory. User state
  is written with an event; the full context is one `get_session`. On SQLite it waits up to a minute
  for the lock instead of 5 seconds: with 100 conversations, appends fail otherwise.
- **Pydantic AI**: its `ConversationStore` comes with an in-memory backend only. Measured is the
  `SqliteConversationStore` of its Harness, which is made for one machine and writes the whole
  conversation at each save.
- **DBOS**: a workflow with its own id and one step.
"""

MACHINE = """\
## The machine and the versions

{machine}; clients and servers share it. Python {python}, event loop: {loop}. After a warm-up round
there are {rounds} rounds, in each of which a contestant has {slot_ms} ms; with 100 conversations
half as many rounds, and {crowd_ms} ms. Writing 4 KB to the disk took {fast} to {slow} µs. Measured
on {on}.
"""

BUSY = "The machine was also used for other work: its load was {load} when the run began."
