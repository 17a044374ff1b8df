"""Microsoft's Agent Framework: `pip install 'stateward[agent-framework]'`.

    history = StatewardHistoryProvider(store)
    agent = Agent(client, context_providers=[history])
    await agent.run("Medium rare, please.", session=history.session("s-abc123", user="u-42"))

A session is a Stateward thread, and a message one of its messages. The checkpoints of a workflow's
run are documents of one entity.
"""

from stateward.integrations.extras import extra

with extra(
    "agent-framework", "stateward.integrations.agent_framework needs Microsoft's Agent Framework"
):
    import agent_framework  # noqa: F401

from stateward.integrations.agent_framework.checkpoints import StatewardCheckpointStorage
from stateward.integrations.agent_framework.history import StatewardHistoryProvider

__all__ = ["StatewardCheckpointStorage", "StatewardHistoryProvider"]
