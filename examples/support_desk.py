"""A support desk with the OpenAI Agents SDK: two agents, one conversation, facts about the user.

    pip install 'stateward[openai-agents]'
    python support_desk.py

The first agent hands over to the second, which charges a card. The conversation, what is known
about the user, and what was charged are in the store: any process may answer the next question.
"""

import asyncio
import os

from agents import Agent, RunContextWrapper, Runner, function_tool, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

import stateward
from stateward.integrations.openai_agents import StatewardSession, effect_tool

URL = os.environ.get("STATEWARD_URL", "sqlite:///desk.db")
USER, CONVERSATION = "u-42", "s-1"

set_tracing_disabled(True)  # traces go to OpenAI; this example needs no network


@function_tool
async def remember(ctx: RunContextWrapper[stateward.Store], field: str, value: str) -> str:
    """Remember something about the user, for every conversation to come."""
    await ctx.context.user(USER).patch({field: value})
    return "noted"


@function_tool
async def charge(order: str, amount: int) -> str:
    """Charge the card of the user."""
    # Your payment service goes here; pass it stateward.idempotency_key().
    print(f"  charging {amount} for {order}")
    return f"{amount} charged for {order}"


def desk(session: StatewardSession, first: list, second: list) -> Agent[stateward.Store]:
    """The agents, with what their scripted models say; leave `model=` out to use real ones."""
    # A model that is asked again after a crash makes a new call: the order says it is the same act.
    charge_once = effect_tool(session, charge, key=lambda given: f"charge {given['order']}")
    billing = Agent(
        name="billing",
        instructions="You take payments.",
        model=ScriptedModel(second),
        tools=[charge_once],
    )
    return Agent(
        name="front",
        instructions="You welcome users, and note what they like.",
        model=ScriptedModel(first),
        tools=[remember],
        handoffs=[billing],
    )


async def answer(text: str, first: list, second: list) -> None:
    """One request, as a web handler would answer it: nothing of it stays in this process."""
    async with stateward.open(URL) as store:
        session = StatewardSession(store, CONVERSATION, user=USER, turns=20)
        agent = desk(session, first, second)
        result = await Runner.run(agent, text, session=session, context=store)
        print(f"{result.last_agent.name}: {result.final_output}")


async def main() -> None:
    print("user: I would like to pay order o-991, and please always call me Noor.")
    noted = function_call("remember", {"field": "name", "value": "Noor"}, call_id="call-1")
    over = function_call("transfer_to_billing", {}, call_id="call-2")
    pay = function_call("charge", {"order": "o-991", "amount": 40}, call_id="call-3")
    await answer(
        "I would like to pay order o-991, and please always call me Noor.",
        first=[[noted], [over]],
        second=[[pay], [assistant_message("Thank you, Noor: 40 was charged.")]],
    )

    print("user: Did you get my payment?")  # in another process; its model charges once more
    again = function_call("charge", {"order": "o-991", "amount": 40}, call_id="call-4")
    await answer(
        "Did you get my payment?",
        first=[[function_call("transfer_to_billing", {}, call_id="call-5")]],
        second=[[again], [assistant_message("Yes, 40 for o-991.")]],
    )

    async with stateward.open(URL) as store:
        known = (await store.user(USER).get()).value
        charged = [effect.id async for effect in store.effects("done")]
        stored = (await store.thread(CONVERSATION, user=USER).load()).version
    print(f"known about the user: {known}; charges: {len(charged)}; items stored: {stored}")


if __name__ == "__main__":
    asyncio.run(main())
