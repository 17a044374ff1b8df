"""Google's Agent Development Kit: `pip install 'stateward[adk]'`.

    service = StatewardSessionService(store)
    runner = Runner(app_name="waiter", agent=agent, session_service=service)

A session is a Stateward thread of its user: events are its messages, the session's own state is a
document beside them. What begins with `user:` is a document of that user, what begins with `app:`
one of `store.shared`; both are named after the application. What begins with `temp:` is not stored.
"""

from __future__ import annotations

from stateward.integrations.extras import extra

with extra("adk", "StatewardSessionService needs Google's ADK"):
    # The newest module that is needed: too old a release has none.
    import google.adk.errors._stale_session_error  # noqa: F401

from stateward.integrations.google_adk.sessions import StatewardSessionService, register_schemes
from stateward.integrations.google_adk.tools import effect_tool

__all__ = ["StatewardSessionService", "effect_tool", "register_schemes"]
