"""Names in what the Agent Framework adapter stores: a run's checkpoints are documents."""

from __future__ import annotations

from urllib.parse import unquote

from stateward.integrations.kept.langgraph_names import part
from stateward.kinds import AGENT_FRAMEWORK_RUN
from stateward.ops import Entity, Head

KIND = AGENT_FRAMEWORK_RUN


def checkpoint(id: str) -> str:
    return f"c/{part(id)}"


def times(workflow: str) -> str:
    """Return the prefix of the names that sort a workflow's checkpoints by age."""
    return f"t/{part(workflow)}/"


def by_time(workflow: str, time: str, id: str) -> str:
    return f"{times(workflow)}{time}/{part(id)}"


def run(entity: Entity, head: Head) -> str:
    return f"run {entity.id} of workflows of Microsoft's Agent Framework"


def document(name: str) -> str | None:
    kind, *parts = (unquote(each) for each in name.split("/"))
    if kind == "c" and len(parts) == 1:
        return f"checkpoint {parts[0]}"
    if kind == "t" and len(parts) == 3:
        return f"checkpoint {parts[2]} of the workflow {parts[0]}, by its time"
    return None
