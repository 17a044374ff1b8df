// OpenAI's own client for Node, with every method of the Conversations API. Prints the id of a
// conversation that it leaves behind.

import assert from "node:assert/strict";
import OpenAI, { BadRequestError, NotFoundError } from "openai";

const { baseURL, apiKey } = JSON.parse(process.env.STATEWARD_TESTS);
const client = new OpenAI({ baseURL, apiKey });
const { conversations } = client;

async function all(pages) {
  const found = [];
  for await (const item of pages) found.push(item);
  return found;
}

const said = (text) => ({ role: "user", content: text });
const texts = (items) => items.map((item) => item.content[0].text);

const made = await conversations.create({ items: [said("one")], metadata: { topic: "steak" } });
assert.match(made.id, /^conv_/);
assert.deepEqual(await conversations.retrieve(made.id), made);

const many = Array.from({ length: 45 }, (_, n) => said(`item ${n}`));
const added = await conversations.items.create(made.id, {
  items: [...many, { type: "function_call_output", call_id: "c-1", output: "x", id: "own-1" }],
  include: ["reasoning.encrypted_content", "message.output_text.logprobs"],
});
assert.equal(added.data.length, 46);
assert.equal(added.data.at(-1).id, "own-1");

const newest = await all(conversations.items.list(made.id));
const oldest = await all(
  conversations.items.list(made.id, { order: "asc", limit: 7, include: ["file_search_call.results"] }),
);
assert.deepEqual(newest, oldest.toReversed());
assert.deepEqual(oldest.slice(1), added.data);
assert.deepEqual(texts(oldest.slice(0, 3)), ["one", "item 0", "item 1"]);

const where = { conversation_id: made.id };
const one = added.data[3];
assert.deepEqual(await conversations.items.retrieve(one.id, where), one);
assert.equal((await conversations.items.retrieve("own-1", where)).output, "x");
assert.deepEqual(await conversations.items.delete(one.id, where), made);
await assert.rejects(conversations.items.retrieve(one.id, where), NotFoundError);
assert.equal((await all(conversations.items.list(made.id, { limit: 100 }))).length, 46);

const updated = await conversations.update(made.id, { metadata: { mood: "hungry" } });
assert.deepEqual(updated.metadata, { mood: "hungry" });
await assert.rejects(
  conversations.items.create(made.id, { items: [{ type: "nonsense" }] }),
  (error) => error instanceof BadRequestError && error.code === "InvalidInput",
);
assert.equal((await conversations.delete(made.id)).deleted, true);
await assert.rejects(conversations.retrieve(made.id), NotFoundError);

// A reply that is lost: the client asks again by itself.
class Keyed extends OpenAI {
  constructor(options) {
    super(options);
    this.idempotencyHeader = "Idempotency-Key";
  }
}
let losses = 0;
async function losing(url, options) {
  const reply = await fetch(url, options);
  if (!losses) return reply;
  losses -= 1;
  await reply.text();
  throw new TypeError("the reply was lost");
}
for (const kind of [OpenAI, Keyed]) {
  const careful = new kind({ baseURL, apiKey, fetch: losing }).conversations;
  const { id } = await careful.create({ items: [] });
  losses = 1;
  await careful.items.create(id, { items: [said("once"), said("only")] });
  assert.equal(losses, 0);
  assert.deepEqual(texts(await all(careful.items.list(id, { order: "asc" }))), ["once", "only"]);
}

const left = await conversations.create({ items: [said("from Node")] });
console.log(left.id);
