"""Microsoft's Agent Framework: `pip install 'stateward[agent-framework]'`.

    history = StatewardHistoryProvider(store)
    agent = Agent(client, context_providers=[history])
    await agent.run("Medium rare, please.", session=history.session("s-abc123", user="u-42"))

A session is a Stateward thread, and a message one of its messages. The checkpoints of a workflow's
run are documents of one entity.
"""

from stateward.errors import InvalidInput

try:
    import agent_framework  # noqa: F401
except ModuleNotFoundError as error:  # pragma: no cover - the tests install it
    raise InvalidInput(
        "stateward.integrations.agent_framework needs Microsoft's Agent Framework; install it "
        "with: pip install 'stateward[agent-framework]'"
    ) from error

from stateward.integrations.agent_framework.checkpoints import StatewardCheckpointStorage
from stateward.integrations.agent_framework.history import StatewardHistoryProvider

__all__ = ["StatewardCheckpointStorage", "StatewardHistoryProvider"]
