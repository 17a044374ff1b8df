"""The owner of state, as callers name it: a user, no one, or left out."""

from __future__ import annotations

from enum import Enum

from stateward.codec import ID_BYTES, check_id


class Unsaid(Enum):
    """The default where None has its own meaning."""

    UNSAID = "not said"

    def __repr__(self) -> str:
        return "UNSAID"


UNSAID = Unsaid.UNSAID
Whose = str | None | Unsaid  # a user's; None: no one's; unsaid: anyone's


def owner_of(user: Whose) -> str | None:
    """Return the owner as operations name it: "" is no one, and None checks nothing.

    An anonymous request that passes its user on, who is None, gets what is no one's: never what
    belongs to someone.
    """
    if user is UNSAID:
        return None
    if type(user) is str and user.isascii() and 0 < len(user) <= ID_BYTES:
        return user  # as nearly all are
    return "" if user is None else check_id(user, "a user")
