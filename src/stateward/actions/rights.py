"""Rights by role, made from the table: a right is what its rows name, and nothing has it besides.

A role has the rights of rows whose least role it is or comes after. A user's device has those of
them that may be asked for one user alone, and its names are narrowed: see `Principal.require_name`.
"""

from __future__ import annotations

from stateward.actions.action import ROLES
from stateward.actions.table import ACTIONS
from stateward.errors import InvalidInput

# The roles of keys and tokens by their scope.
ROLE_OF = dict(zip(("read", "write", "operate", "admin"), ROLES, strict=True))
SCOPE_OF = {role: scope for scope, role in ROLE_OF.items()}
# The nouns of the log, reports and measurements, which say nothing of conversations.
AUDITED = ("log", "audits", "signals")


def least_roles() -> dict[str, str]:
    """Return the least role of each right; raises `InvalidInput` if rows disagree."""
    roles: dict[str, str] = {}
    for row in ACTIONS:
        if roles.setdefault(row.right, row.role) != row.role:
            raise InvalidInput(
                f"the right {row.right!r} has two least roles: give it a second name"
            )
    return roles


LEAST = least_roles()
DEVICE = frozenset(row.right for row in ACTIONS if row.for_one_user)
RIGHTS = {
    **{
        role: frozenset(r for r, least in LEAST.items() if ROLES.index(least) <= number)
        for number, role in enumerate(ROLES)
    },
    "device": DEVICE,
    "auditor": frozenset(
        right
        for right, least in LEAST.items()
        if right.partition(".")[0] in AUDITED and right.endswith(".read") and least != "admin"
    ),
}
