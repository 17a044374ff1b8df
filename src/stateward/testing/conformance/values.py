"""Text comes back byte for byte; ids, names and keys are data, never syntax."""

from __future__ import annotations

from stateward.codec import ID_BYTES
from stateward.ops import (
    Acquire,
    Append,
    Commit,
    Duplicate,
    Entity,
    Fence,
    Fetch,
    Fetched,
    Held,
    Log,
    Put,
    SetHead,
)
from stateward.testing.conformance.cases import case
from stateward.testing.conformance.harness import Harness, bodies, differing, hidden, is_a

# JSON texts that a parser and a printer between caller and store would change.
TEXTS = (
    "{}",
    "null",
    '""',
    "0",
    "-0",
    "-0.0",
    "1.0",
    "1E+2",
    "1e400",
    "0.1000000000000000055511151231257827",
    "123456789012345678901234567890",
    '{"b":1,"a":2}',
    '{"a":1,"a":2}',
    '{ "a" :\t1 }',
    '"\\u0000"',
    '"\\u0041\\u00e9\\/"',
    '"\\ud800"',
    '"\u2028\u2029\x7f\x85"',
    '"é e\u0301 日本 😀 \U0010ffff"',
    '"\\n\\r\\n"',
    "[" * 500 + "]" * 500,
    '{"py/object":"os.system","__reduce__":["rm"],"$ref":"#"}',
    '"\'; DROP TABLE log; --"',
    '"%s {0} $1 :name ?"',
    '"' + "x" * (1 << 20) + '"',
)

# Ids that mean something to one store or another, or look like each other.
HOSTILE = (
    "a",
    "A",
    "a ",
    " a",
    "a\x00",
    "a\x00b",
    "\x00",
    "a:b",
    "a::b",
    ":",
    "{a}",
    "{}",
    "}",
    "}{",
    "a}b",
    "{",
    "*",
    "a*",
    "?",
    "[a]",
    "%",
    "a%",
    "_",
    "%00",
    "%61",
    "\\",
    "\\x00",
    "..",
    "../a",
    "/",
    "a/b",
    "'",
    '"',
    "''",
    "`",
    "' OR '1'='1",
    "'; DROP TABLE entities; --",
    "a\nb",
    "a\r\nb",
    "\t",
    "1",
    "01",
    "1.0",
    "1e0",
    "-1",
    "0",
    "NULL",
    "null",
    "None",
    "true",
    "nan",
    "\u0430",
    "\uff41",
    "é",
    "e\u0301",
    "ß",
    "ss",
    "\u1e9e",
    "i",
    "\u0131",
    "a\u200b",
    "a\u200d",
    "\u202ea",
    "\ufeff",
    "\ufffd",
    "\uffff",
    "😀",
    "👩\u200d👩\u200d👧",
    "\U0010ffff",
    "KEYS *",
    "$(id)",
    "x" * ID_BYTES,
    "x" * (ID_BYTES - 1),
    "😀" * (ID_BYTES // 4),
    "\x00" * ID_BYTES,
)


# --- text -------------------------------------------------------------------------------


@case
async def bodies_come_back_byte_for_byte(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    alone, together = h.entity("one by one"), h.entity("together")
    for text in TEXTS:
        await a.apply(alone, Append((text,)))
        assert not differing([(await b.fetch(alone, Log(last=1))).lines], [text])
    await a.apply(together, Append(TEXTS, key="k"))
    for entity in (alone, together):
        fetched = await b.fetch(entity, Log(details=True))
        assert not differing((entry.body for entry in fetched.entries), TEXTS)
        assert not differing([(await b.fetch(entity, Log())).lines], ["\n".join(TEXTS)])
    is_a(await b.commit(together, Append(TEXTS, key="k")), Duplicate)


@case
async def documents_come_back_byte_for_byte(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    await a.apply(entity, *[Put(f"{number:02}", text) for number, text in enumerate(TEXTS)])
    documents = (await b.everything(entity)).documents
    assert not differing((documents[name].json for name in sorted(documents)), TEXTS)
    listed = (await b.listing(h.namespace, within=entity)).documents
    assert not differing((value.json for _, value in listed), TEXTS)


# --- names ------------------------------------------------------------------------------


@case
async def hostile_ids_name_one_entity_each(h: Harness) -> None:
    a, b = await h.replica(), await h.replica()
    every = [h.entity(id) for id in HOSTILE]
    for number, entity in enumerate(every):
        await a.apply(entity, Append(bodies(number)), owner=entity.id, checks=())
    fetched = await b.execute(*[Fetch(entity, entity.id, Log()) for entity in every])
    for number, (entity, outcome) in enumerate(zip(every, fetched, strict=True)):
        fetch = is_a(outcome, Fetched)
        assert (fetch.lines, fetch.count) == (bodies(number)[0], 1), entity
        assert await b.list_all(h.namespace, owner=entity.id) == [entity]
    assert set(await b.list_all(h.namespace, kind="thing", limit=7)) == set(every)


@case
async def hostile_namespaces_and_kinds_are_apart(h: Harness) -> None:
    a = await h.replica()
    names = [id for id in HOSTILE if len(id.encode()) < 100]
    places = [Entity(h.namespace + name, "thing", "a") for name in names]
    places += [h.entity("a", kind=name) for name in names]
    outcomes = await a.execute(
        *[
            Commit(entity, h.new_id(), (Append(bodies(number)), Put("doc", "1")))
            for number, entity in enumerate(places)
        ]
    )
    assert len(outcomes) == len(places)
    for number, entity in enumerate(places):
        fetched = await a.fetch(entity, Log())
        assert (fetched.lines, fetched.head.version) == (bodies(number)[0], 1), entity
        page = await a.listing(entity.namespace, kind=entity.kind, documents=("doc",))
        assert [item.entity for item in page.entities] == [entity]


@case
async def hostile_names_keys_and_statuses_are_data(h: Harness) -> None:
    a, b, entity = await h.replica(), await h.replica(), h.entity()
    await a.apply(entity, *[Put(name, f'"{number}"') for number, name in enumerate(HOSTILE)])
    documents = (await b.everything(entity)).documents
    assert {name: value.json for name, value in documents.items()} == {
        name: f'"{number}"' for number, name in enumerate(HOSTILE)
    }
    for number, name in enumerate(HOSTILE):
        fetched = await b.fetch(entity, documents=(name,))
        assert fetched.documents[name].json == f'"{number}"'
    for number, key in enumerate(HOSTILE):
        await a.apply(entity, Append(bodies(number), key=key))
    for number, key in enumerate(HOSTILE):
        again = is_a(await b.commit(entity, Append(bodies(number), key=key)), Duplicate)
        assert again.first.version == number + 1
    entries = (await b.fetch(entity, Log(details=True))).entries
    assert tuple(entry.key for entry in entries) == HOSTILE
    for number, word in enumerate(HOSTILE):
        await a.apply(h.entity(f"{number:02}"), SetHead(status=word, label=word))
    for number, word in enumerate(HOSTILE):
        one = [h.entity(f"{number:02}")]
        assert await b.list_all(h.namespace, kind="thing", status=word) == one
        assert await b.list_all(h.namespace, kind="thing", label=word) == one
        head = await b.head(one[0])
        assert (head.status, head.label) == (word, word)


@case
async def hostile_nonces_holders_and_ops_are_data(h: Harness) -> None:
    a, entity = await h.replica(), h.entity()
    for text in HOSTILE:
        entity = h.entity(text)
        first = await a.apply(entity, Acquire(text, h.span, text), op=text)
        assert first.lease is not None
        assert (first.lease.nonce, first.lease.holder) == (text, text)
        assert is_a(await a.commit(entity, Put("doc", "1"), op=text), Duplicate).first == first
        held = is_a(await a.commit(entity, Acquire(text + "!", h.span)), Held)
        assert held.head.lease == hidden(first.lease)
        fence = (Fence(first.lease.token, text),)
        assert (await a.apply(entity, Append(("1",)), checks=fence)).version == 1
