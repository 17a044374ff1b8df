"""17: what is stored comes back as it was."""

from __future__ import annotations

from stateward.audit.differences import ALTERED, FOREIGN, MISSING, SURPLUS
from stateward.audit.questions.promise import Promise, judged_by
from stateward.audit.questions.question import Question

TEXT = (
    "Store text as UTF-8 from end to end (connection, column, file), with no length limit, and "
    "neither strip nor normalise it."
)
VALUE = "Serialise to JSON and back without custom conversions, and keep nulls."
IDS = (
    "Use ids unchanged: bind them as parameters, compare them byte for byte, and where they "
    "become file names or patterns, escape all of them the same way, or use a hash of the full id."
)
PROMISES = (
    Promise(
        "texts", "texts of messages come back changed", TEXT, refusable=False, claims=(ALTERED,)
    ),
    Promise(
        "long texts", "long messages come back changed", TEXT, refusable=False, claims=(ALTERED,)
    ),
    Promise(
        "values", "fields of messages come back changed", VALUE, refusable=False, claims=(ALTERED,)
    ),
    Promise(
        "roles and tool calls",
        "messages with tool calls or images come back changed",
        VALUE,
        refusable=False,
        claims=(ALTERED,),
    ),
    Promise(
        "many messages in one append",
        "many messages in one append do not all come back",
        "Write all messages of an append in one transaction, whatever their number.",
        refusable=False,
        claims=(MISSING,),
    ),
    Promise(
        "ids",
        "conversations with ids that look alike are mixed up",
        IDS,
        refusable=False,
        claims=(FOREIGN,),
    ),
    Promise(
        "users' texts",
        "texts in users' state come back changed",
        TEXT,
        "users",
        False,
        claims=(ALTERED,),
    ),
    Promise(
        "users' long texts",
        "long texts in users' state change",
        TEXT,
        "users",
        False,
        claims=(ALTERED,),
    ),
    Promise(
        "users' values",
        "values in users' state come back changed",
        VALUE,
        "users",
        False,
        claims=(ALTERED,),
    ),
    Promise(
        "users' ids",
        "users with ids that look alike are mixed up",
        IDS,
        "users",
        False,
        claims=(FOREIGN,),
    ),
)
EXTREME = {"texts": (ALTERED,), "values": (ALTERED,), "ids": (FOREIGN,), "behind": (SURPLUS,)}
# A slow memory was tried with fewer values, and one that refuses nothing leaves nothing.
EXTREMES = tuple(
    promise._replace(chance=True, claims=EXTREME[promise.name.split()[-1]])
    for promise in (
        Promise("extreme long texts", "a message of a megabyte comes back changed", TEXT),
        Promise("extreme texts", "a NUL in a message is silently changed", TEXT),
        Promise("extreme values", "very large numbers in messages are silently changed", VALUE),
        Promise("extreme ids", "conversations with very long ids are mixed up", IDS),
        Promise(
            "users' extreme long texts", "a text of a megabyte comes back changed", TEXT, "users"
        ),
        Promise(
            "users' extreme texts", "a NUL in a user's state is silently changed", TEXT, "users"
        ),
        Promise("users' extreme values", "very large numbers of users are changed", VALUE, "users"),
        Promise("users' extreme ids", "users with very long ids are mixed up", IDS, "users"),
        Promise(
            "a refused write leaves nothing behind", "a part of what was refused is stored", VALUE
        ),
    )
)
HOLDS = "every value and id came back as it was, in every replica and after a kill"

QUESTION = Question(
    "fidelity",
    17,
    "Does what is stored come back as it was?",
    "Users write in every script, paste long texts, and tools return whatever JSON they like. What "
    "is cut, converted or mixed up silently is noticed only when an answer is wrong.",
    ("threads",),
    ("fidelity",),
    f"{TEXT} {VALUE}",
    judged_by("fidelity", (*PROMISES, *EXTREMES), HOLDS),
    ("fidelity",),
    severity="critical",
    means="What users wrote, or a tool returned, comes back cut, altered, or under another id.",
)
