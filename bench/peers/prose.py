"""What the page says besides its figures."""

from __future__ import annotations

OPENING = """\
# Performance beside other stores

<!-- Written by `make bench-peers`: change bench/peers, not this page. -->

Stateward beside what agent frameworks bring along to keep their state, and beside DBOS for tasks
that run once: on the same engine, equally durable, in turns within one run. How it compares with
the raw drivers is on [another page](explanation/performance.md).

```
make bench-peers
```

installs them into an environment of their own, measures for about {minutes} minutes and writes this
page.
"""

TARGETS = """\
On SQLite a new task of DBOS makes about four commits; judging by its statements, three of them
write. Stateward claims and completes: two. Were waiting for the disk all, it would be ahead 1.5 ×.
"""

READING = """\
## How to read the tables

A figure is the median of the rounds. The number after it says how many times better Stateward was,
round by round: the median, and in brackets the smallest and largest. Below 1 × the other was ahead:
such cells are **bold**. Blocking contestants are compared with Stateward's blocking half. *Raw*
marks the client of an engine by hand: it checks no owner, remembers no operation, knows no expiry.

Times depend on the machine and on whoever else uses it. Ratios depend on that less, because all ran
within the same seconds, but not little where a call waits for a disk that others use: where the
brackets are wide, or lie on both sides of 1, the median proves nothing. A turn is two messages of
500 bytes of JSON.
"""

CONTESTANTS = """\
## Who took part, and how

Each is set up as its documentation says, pools included; what it keeps for an open conversation is
kept.

- **OpenAI Agents**: one session object a conversation. SQLAlchemy and Redis sessions share one
  engine or client. They keep no state of users.
- **LangGraph**: a turn is one run of a graph with one node that answers, so its time includes the
  graph's own work; when it saves is left at its default. The last 20 are taken from `get_state`.
  State of users is a document in LangGraph's store for that engine; that has no compare-and-swap,
  so an update is a get and a put, and is lost when another writes between them.
- **Strands**: two `create_message` a turn; what an agent writes besides (its own state, after each
  message) is left out. No file is synced: a crash of the machine may take turns with it.
- **Google ADK**: two events a turn, appended to a session that is in memory already. State of users
  is written by an event; the full context is one `get_session`. On SQLite it waits for the lock for
  up to a minute instead of 5 seconds: with 100 conversations, appends fail otherwise.
- **Pydantic AI**: its `ConversationStore` comes with a backend in memory alone. What can be
  installed is the `SqliteConversationStore` of its Harness, made for one machine; it writes the
  whole conversation at each save. That was measured.
- **DBOS**: a workflow with an id of its own, with one step in it.
"""

MACHINE = """\
## The machine and the versions

{machine}; clients and servers share it. Python {python}, event loop: {loop}. {rounds} rounds after
one that warms up, in each of which a contestant has {slot_ms} ms; with 100 conversations half as
many rounds, and {crowd_ms} ms. Writing 4 KB to the disk took {fast} to {slow} µs. Measured on {on}.
"""

BUSY = "Others used the machine meanwhile: its load was {load} when the run began."
