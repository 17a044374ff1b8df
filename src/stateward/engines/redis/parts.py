"""A cluster has its index in parts. One in the form of one server is refused, not passed over.

So are keys that were copied one by one: all would be loaded, and nothing listed.
"""

from __future__ import annotations

from collections.abc import Callable

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.keys import kinds_index
from stateward.engines.redis.plans import Plan, Traits, run_with
from stateward.errors import SchemaError
from stateward.ops import List, Listed


def listing_of_parts(
    op: List, listing: Callable[[List, Traits], Plan[Listed]], traits: Traits
) -> Plan[Listed]:
    """A listing, and with the first one of a namespace a look at what must not be there."""
    if op.namespace in traits.looked_at:
        return (yield from listing(op, traits))
    whole = kinds_index(op.namespace)
    look = PipelineStep(whole, (("EXISTS", whole),))
    page, ((exists,),) = yield from run_with(listing(op, traits), (look,))
    if exists:
        raise SchemaError(
            f"the namespace {op.namespace!r} has the index of one server, but this is a cluster: "
            "its keys were copied. Copy the store into an empty cluster with 'stateward copy'"
        )
    traits.looked_at.add(op.namespace)
    return page
