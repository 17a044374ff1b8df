import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import * as stateward from "@stateward/client";
import { client, collect, fresh, given } from "./harness.ts";

const question = { role: "user", content: "Where is my order? 🌍" };
const answer = { role: "assistant", content: "On its way." };

test("a turn is appended and read", async () => {
  const thread = client().thread(fresh(), { user: "u-1" });
  assert.equal(await thread.load(), null);
  const appended = await thread.append([question, answer], { vars: { topic: "orders" } });
  assert.equal(appended.status, "stored");
  assert.equal(appended.replayed, false);
  const window = await thread.load({ last: 10 });
  assert.deepEqual(window?.messages, [question, answer]);
  assert.equal(window?.etag, appended.etag);
  assert.equal(window?.version, 2);
  await thread.delete();
  assert.equal(await thread.load(), null);
});

test("the same key is the same append, and another body with it is refused", async () => {
  const thread = client().thread(fresh());
  const first = await thread.append([question], { key: "request-1" });
  const again = await thread.append([question], { key: "request-1" });
  assert.deepEqual([first.replayed, again.replayed, again.status], [false, true, "duplicate"]);
  assert.equal(first.etag, again.etag);
  await assert.rejects(thread.append([answer], { key: "request-1" }), stateward.KeyReused);
  await thread.append([question]); // without a key it is another one
  assert.equal((await thread.load())?.messages.length, 2);
});

test("a write for a version that is past is a conflict with the present one", async () => {
  const thread = client().thread(fresh());
  await thread.append([question], { expect: null });
  const seen = await thread.load();
  const now = await thread.append([answer]);
  await assert.rejects(thread.append([answer], { expect: seen! }), (error) => {
    assert.ok(error instanceof stateward.Conflict);
    assert.deepEqual([error.status, error.etag, error.applied], [412, now.etag, "no"]);
    return true;
  });
  await thread.append([answer], { expect: now });
  await assert.rejects(thread.append([question], { expect: null }), stateward.Conflict);
});

test("documents have versions, merge patches, a past and an undo", async () => {
  const document = client().user(fresh()).document<{ city: string; pets?: number }>("profile");
  const none = await document.get();
  assert.equal(none, null);
  const created = await document.put({ city: "Bonn" }, { expect: none });
  assert.equal(created.version, 1);
  await assert.rejects(document.put({ city: "Ulm" }, { expect: null }), stateward.Conflict);
  const patched = await document.patch({ pets: 2 });
  assert.deepEqual(patched.value, { city: "Bonn", pets: 2 });
  assert.equal(await document.get({}, { unless: patched }), patched);
  await assert.rejects(document.put({ city: "Ulm" }, { expect: created }), stateward.Conflict);
  await document.put({ city: "Ulm" }, { expect: "*" });
  assert.deepEqual(
    (await document.history()).map((each) => each.value?.["city"]),
    ["Ulm", "Bonn", "Bonn"],
  );
  assert.deepEqual((await document.undo())?.value, { city: "Bonn", pets: 2 });
  assert.deepEqual((await document.get({ version: 1 }))?.value, { city: "Bonn" });
  await document.delete({ forget: true });
  assert.equal(await document.get(), null);
  const bare = client().request("PUT /v1/users/{user}/documents/{name}", {
    path: { user: fresh(), name: "x" },
    body: {},
  });
  await assert.rejects(bare, stateward.VersionRequired);
});

test("what agents share is asked in the same way", async () => {
  const shared = client().shared(fresh(), { user: "u-1" });
  await shared.document("plan").put({ step: 1 }, { expect: null });
  await shared.document("plan").patch({ step: 2 });
  const found = await collect(shared.documents());
  assert.deepEqual(
    found.map(({ name, value }) => [name, value]),
    [["plan", { step: 2 }]],
  );
  const another = client().shared(shared.id, { user: "u-2" });
  await assert.rejects(another.document("plan").patch({ step: 3 }), stateward.Forbidden);
});

test("a list is read over all of its pages", async () => {
  const user = client().user(fresh());
  const names = Array.from({ length: 25 }, (_, number) => `n-${String(number).padStart(2, "0")}`);
  await Promise.all(names.map((name) => user.document(name).put({ name }, { expect: null })));
  let asked = 0;
  const counting: typeof fetch = (...all) => (asked++, fetch(...all));
  const found = await collect(client({ fetch: counting }).user(user.id).documents({ limit: 10 }));
  assert.deepEqual(
    found.map((each) => each.name),
    names,
  );
  assert.equal(asked, 3);
  const users = await collect(client({ key: given.keys.operate }).users({ limit: 2 }));
  assert.ok(users.some((each) => each.id === user.id));
  const first = await collect(client().user(user.id).documents({ limit: 10, prefix: "n-0" }), 3);
  assert.equal(first.length, 3);
});

test("work is begun, told, listed and ended", async () => {
  const operator = client({ key: given.keys.operate });
  const workflow = operator.workflow(fresh(), { user: "u-1" });
  assert.equal(await workflow.info(), null);
  assert.equal(await workflow.start("refund", { order: 7 }), true);
  assert.equal(await workflow.start("refund", { order: 7 }), false);
  assert.equal(await workflow.signal("approval", true, { key: "a" }), true);
  assert.equal(await workflow.signal("approval", true, { key: "a" }), false);
  const listed = await collect(operator.workflows({ kind: "refund", user: "u-1" }));
  assert.ok(listed.some((each) => each.id === workflow.id));
  assert.equal(await workflow.cancel("a test"), true);
  assert.equal((await workflow.info())?.status, "cancelled");
  await assert.rejects(workflow.signal("approval", false), stateward.InvalidState);
  await assert.rejects(client().workflow(workflow.id).cancel(), stateward.Forbidden);
  assert.equal(await operator.task("none").info(), null);
  await assert.rejects(operator.task("none").retry(), stateward.NotFound);
  assert.deepEqual(await collect(operator.tasks({ user: fresh() })), []);
});

test("a lock that somebody holds is shown, and broken only by whoever has seen the lease", async () => {
  const operator = client({ key: given.keys.operate });
  const held = (await collect(operator.locks())).find((lock) => lock.name === "held");
  assert.equal(held?.holder, "somebody");
  await assert.rejects(client().breakLock("held", held?.token ?? 0), stateward.Forbidden);
  await assert.rejects(operator.breakLock("held", 99), stateward.InvalidState);
  await operator.breakLock("held", held?.token ?? 0);
  const now = (await collect(operator.locks())).find((lock) => lock.name === "held");
  assert.equal(now?.holder ?? null, null);
  await assert.rejects(operator.breakLock("none", 1), stateward.NotFound);
});

test("a context is read in one request", async () => {
  const user = fresh();
  await client().thread("c-1", { user }).append([question]);
  await client().user(user).document().put({ city: "Bonn" }, { expect: null });
  const context = await client().context({ user, thread: "c-1", last: 5 });
  assert.deepEqual(context.thread.messages, [question]);
  assert.deepEqual(
    context.user.map((each) => each.value),
    [{ city: "Bonn" }],
  );
});

test("a key of one user sees what is theirs", async () => {
  const theirs = client({ key: given.keys.user });
  const id = fresh();
  await client().thread(id, { user: "somebody" }).append([question]);
  assert.equal(await theirs.thread(id).load(), null);
  await assert.rejects(theirs.thread(id).append([answer]), stateward.NotFound);
  await assert.rejects(collect(theirs.threads({ user: "somebody" })), stateward.Forbidden);
  await assert.rejects(theirs.thread(fresh()).append([question]), stateward.NotFound);
  const own = theirs.thread(`u/u-7/${fresh()}`);
  await own.append([question]);
  const listed = await collect(theirs.threads());
  assert.ok(listed.some((each) => each.id === own.id));
  assert.ok(listed.every((each) => each.user === "u-7"));
});

test("a key of several namespaces says which", async () => {
  const several = client({ key: given.keys.several });
  await assert.rejects(several.thread("t").append([question]), stateward.InvalidRequest);
  const id = fresh();
  await several.with({ namespace: "a/ä" }).thread(id).append([question]);
  assert.equal(await several.with({ namespace: "b" }).thread(id).load(), null);
  assert.ok(await several.with({ namespace: "a/ä" }).thread(id).load());
  await assert.rejects(several.with({ namespace: "c" }).thread(id).load(), stateward.Forbidden);
});

test("any id is a name, but for those that a URL cannot say", async () => {
  for (const id of ["a/b?c#d", "%2e%2e", "…/ö", "a b+c", "..."].map((each) => each + fresh())) {
    await client().thread(id).append([question]);
    assert.equal((await client().thread(id).load())?.id, id);
  }
  for (const id of ["", ".", ".."]) {
    await assert.rejects(client().thread(id).delete(), TypeError);
    await assert.rejects(client().user(id).document("x").get(), TypeError);
  }
});

test("no error and no client shows a key", async () => {
  const secret = `sw.${"a".repeat(16)}.${"s".repeat(32)}`;
  const { host } = new URL(given.url);
  const asking = [
    client({ key: secret }),
    client({ key: `${secret}\n` }),
    client({ key: `${secret}…` }),
    client({ key: async () => secret }),
    new stateward.Client({ url: `http://${secret}@${host}` }),
  ];
  for (const each of asking) {
    const error: unknown = await each
      .thread("t")
      .append([question])
      .catch((caught: unknown) => caught);
    assert.ok(error instanceof stateward.Unauthorized, inspect(error));
    const seen = inspect([error, each, each.thread("t")], { depth: 20, showHidden: true });
    assert.ok(!seen.includes(secret.slice(20)), seen);
  }
  assert.throws(
    () => new stateward.Client({ url: "http://state.example.com", key: secret }),
    (error) => {
      assert.ok(error instanceof TypeError);
      return !inspect(error).includes(secret);
    },
  );
  const { key, ...rest } = { key: given.keys.write, url: given.url };
  const inUrl = new stateward.Client({ url: rest.url.replace("//", `//${key}@`) });
  assert.equal(await inUrl.thread(fresh()).load(), null);
});

test("every route is there, with its types", async () => {
  const { data } = await client({ key: given.keys.operate }).request("GET /v1/namespaces", {});
  assert.deepEqual(data.items, ["default"]);
  const bad = client().request("GET /v1/threads", { query: { limit: 5000 } });
  await assert.rejects(bad, stateward.InvalidRequest);
  const route = "POST /v1/conversations";
  const conversation = (await client().request(route, { body: { items: [question] } })).data.id;
  const items = await client().request("GET /v1/conversations/{conversation}/items", {
    path: { conversation },
    query: { include: ["file_search_call.results", "reasoning.encrypted_content"] },
  });
  assert.equal(items.data.data[0]?.["role"], "user");
  // What follows need not run: it must not compile.
  const never = async () => {
    // @ts-expect-error: no such route
    await client().request("GET /v1/nothing", {});
    // @ts-expect-error: not with this method
    await client().request("PUT /v1/threads", {});
    // @ts-expect-error: which thread?
    await client().request("GET /v1/threads/{thread}", {});
    // @ts-expect-error: a body is needed
    await client().request("POST /v1/threads/{thread}/messages", { path: { thread: "t" } });
    // @ts-expect-error: a parameter that the route does not have
    await client().request("GET /v1/threads", { query: { colour: "red" } });
    // @ts-expect-error: a put says what it replaces
    await client().user("u").document().put({});
    // @ts-expect-error: no stream
    client().stream("GET /v1/threads", {});
    // @ts-expect-error: no list
    client().list("GET /v1/context", { query: { user: "u", thread: "t" } });
    const { version }: { version: number } = (await client().thread("t").load())!;
    return version;
  };
  assert.equal(typeof never, "function");
});
