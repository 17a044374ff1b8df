"""26: what a memory promises to keep for a limited time."""

from __future__ import annotations

from stateward.audit.questions.promise import Promise, judged_by
from stateward.audit.questions.question import Question

EXPIRY = "Reset the expiry with every turn, and with nothing else."
PROMISES = (
    Promise("kept until it expires", "a conversation expires too early", EXPIRY),
    Promise("a turn resets the expiry", "a conversation with new turns expires too early", EXPIRY),
    Promise("gone after it expires", "a conversation is still there after it expired",
            "Sweep expired conversations, and do not return them before they are swept."),
    Promise("a read does not reset the expiry", "reading a conversation prolongs it", EXPIRY),
)  # fmt: skip
HOLDS = "kept for as long as configured, and no longer"

QUESTION = Question(
    "retention",
    26,
    "Is state kept for as long as promised, and no longer?",
    "What should expire must be gone even if it was read in the meantime, and what should be kept "
    "must be there.",
    ("threads", "retention"),
    ("retention",),
    EXPIRY,
    judged_by("retention", PROMISES, HOLDS),
    ("retention",),
    severity="high",
    means="What should have been deleted is still there, or state disappears too early.",
    optional=True,
)
