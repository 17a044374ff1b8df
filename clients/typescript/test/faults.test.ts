import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import * as stateward from "@stateward/client";
import { client, collect, control, fresh, given, PATIENCE, Proxy, until } from "./harness.ts";

let proxy: Proxy;
before(async () => {
  proxy = await new Proxy(given.url).start();
});
after(() => proxy.close());

/** A client by way of the proxy. */
function behind(options: Partial<stateward.ClientOptions> = {}): stateward.Client {
  return client({ url: proxy.url, ...options });
}

test("a service is killed after the write and before its reply: written once", async () => {
  const id = fresh();
  let killing: Promise<void> | undefined;
  let killed = false;
  let first = "";
  proxy.rule = (told) => {
    if (killed) return told;
    first ||= told.toString();
    killing ??= control("kill/service").then(() => void (killed = true));
    return null;
  };
  const refused = proxy.refused;
  const appending = behind()
    .thread(id)
    .append([{ n: 1 }]);
  await until(() => proxy.refused > refused); // it has asked again, and nobody was there
  await killing;
  await control("start/service");
  const appended = await appending;
  assert.match(first, /^HTTP\/1.1 201/); // it was stored, and nobody was told
  assert.deepEqual([appended.status, appended.replayed], ["duplicate", true]);
  assert.deepEqual((await client().thread(id).load())?.messages, [{ n: 1 }]);
  proxy.rule = (told) => told;
});

test("what has no key is not sent twice if it may have been carried out", async () => {
  const document = fresh();
  let cuts = 0;
  proxy.rule = () => (cuts++, null);
  const patching = behind().user("u-1").document(document).patch({ n: 1 });
  await assert.rejects(patching, (error) => {
    assert.ok(error instanceof stateward.Unavailable);
    assert.deepEqual([error.status, error.applied], [0, "unknown"]);
    return true;
  });
  assert.equal(cuts, 1);
  assert.equal((await client().user("u-1").document(document).get())?.version, 1);
  // A repeat of this one cannot do harm, but it cannot know that the conflict is with itself either.
  proxy.rule = (told) => (cuts++ === 1 ? null : told);
  const putting = behind().user("u-1").document(fresh()).put({ n: 1 }, { expect: null });
  await assert.rejects(putting, (error) => {
    assert.ok(error instanceof stateward.Conflict);
    assert.equal(error.applied, "unknown");
    return true;
  });
  proxy.rule = (told) => told;
});

test("a stream that is cut goes on: nothing is lost, nothing comes twice", async () => {
  const id = fresh();
  const messages = Array.from({ length: 60 }, (_, n) => ({ n, text: "x".repeat(n * 10) }));
  const thread = client().thread(id);
  await thread.append(messages.slice(0, 20));
  // Each connection tells a little, and is cut in the middle of an event.
  const told = new Map<number, number>();
  let cuts = 0;
  proxy.rule = (data, connection) => {
    const before = told.get(connection) ?? 0;
    told.set(connection, before + data.length);
    if (cuts >= 8 || before + data.length < 1500) return data;
    return (cuts++, { last: data.subarray(0, data.length / 2) });
  };
  const cut: stateward.StatewardError[] = [];
  const reading = collect(
    behind()
      .thread(id)
      .changes({}, { onCut: (error) => cut.push(error) }),
    60,
  );
  for (let n = 20; n < 60; n += 5) {
    await thread.append(messages.slice(n, n + 5));
    proxy.cutAll();
  }
  const events = await reading;
  assert.deepEqual(
    events.map((event) => event.message),
    messages,
  );
  assert.deepEqual(
    events.map((event) => event.version),
    messages.map((_, n) => n + 1),
  );
  assert.ok(cut.length >= 3, `${cut.length} cuts`);
  assert.ok(cut.every((error) => error instanceof stateward.Unavailable));
  proxy.rule = (data) => data;
  const cursor = events[49]!.cursor;
  const rest = await collect(client().thread(id).changes({ after: cursor, follow: false }));
  assert.deepEqual(
    rest.map((event) => event.message),
    messages.slice(50),
  );
});

test("a stream survives a restart of the service, and a feed does too", async () => {
  const journal = client().journal(fresh());
  await journal.append([{ n: 1 }, { n: 2 }]);
  const cuts: unknown[] = [];
  const events = client()
    .journal(journal.id)
    .changes({}, { onCut: (error) => cuts.push(error) });
  assert.deepEqual((await events.next()).value?.message, { n: 1 });
  assert.deepEqual((await events.next()).value?.message, { n: 2 });
  const coming = events.next();
  await control("stop/service");
  await until(() => cuts.length > 0);
  await control("start/service");
  await journal.append([{ n: 3 }]);
  assert.deepEqual((await coming).value?.message, { n: 3 });
  await events.return();
  const feed = await collect(client().changes({ kinds: "journal", follow: false }));
  assert.ok(feed.some((change) => change.id === journal.id));
});

test("whoever follows what is begun anew is told", async () => {
  const thread = client().thread(fresh());
  await thread.append([{ n: 1 }]);
  const events = thread.changes();
  await events.next();
  const following = assert.rejects(events.next(), (error) => {
    assert.ok(error instanceof stateward.Reset, String(error));
    return error.status === 410;
  });
  await thread.delete();
  await thread.append([{ n: 2 }]);
  await following;
  assert.equal((await events.next()).done, true);
});

test("a stream that is dead and says nothing is opened anew", async () => {
  const thread = client().thread(fresh());
  await thread.append([{ n: 1 }]);
  let dead: number | undefined;
  proxy.rule = (told, connection) => {
    dead ??= connection;
    return connection === dead ? told.subarray(0, 0) : told;
  };
  const cuts: unknown[] = [];
  const stream = behind({ quietTimeout: 1_500 })
    .thread(thread.id)
    .changes({}, { onCut: (error) => cuts.push(error) });
  const found = await collect(stream, 1);
  assert.ok(cuts[0] instanceof stateward.DeadlineExceeded);
  assert.deepEqual(
    found.map((event) => event.message),
    [{ n: 1 }],
  );
  proxy.rule = (told) => told;
});

test("a call ends at its deadline, and at once when it is aborted", async () => {
  proxy.rule = (told) => told.subarray(0, 0); // nothing is ever answered
  let asked = 0;
  const counting: typeof fetch = (...all) => (asked++, fetch(...all));
  const thread = behind({ fetch: counting }).thread(fresh());
  const late = thread.append([{ n: 1 }], { timeout: 300 });
  await assert.rejects(late, (error) => {
    assert.ok(error instanceof stateward.DeadlineExceeded);
    assert.equal(error.applied, "unknown");
    return true;
  });
  const stop = new AbortController();
  const why = new Error("the user has left");
  asked = 0;
  const calls = [
    thread.load({}, { signal: stop.signal }),
    collect(thread.changes({}, { signal: stop.signal })),
  ];
  const settled = Promise.allSettled(calls);
  await until(() => asked === 2);
  stop.abort(why);
  assert.deepEqual(
    (await settled).map((each) => each.status === "rejected" && each.reason),
    [why, why],
  );
  await assert.rejects(thread.load({}, { signal: stop.signal }), why);
  proxy.rule = (told) => told;
});

test("many calls under one signal leave nothing behind on it", async () => {
  const { signal } = new AbortController();
  let listeners = 0;
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = (...all: unknown[]) => (
    listeners++,
    addEventListener.apply(signal, all as never)
  );
  signal.removeEventListener = (...all: unknown[]) => (
    listeners--,
    removeEventListener.apply(signal, all as never)
  );
  const id = fresh();
  for (let n = 0; n < 20; n++) await client().thread(id).load({}, { signal });
  assert.equal(listeners, 0);
});

test("a store that is down is unavailable, and one that comes back is used", async () => {
  const outage = client({ url: given.outage, key: given.keys.outage });
  const thread = outage.thread(fresh());
  await thread.append([{ n: 1 }]);
  await control("kill/valkey");
  const down = thread.append([{ n: 2 }], { timeout: 1_500, key: "second" });
  await assert.rejects(down, (error) => {
    assert.ok(error instanceof stateward.Unavailable, String(error));
    assert.ok(error.status === 503 || error.status === 0);
    return ["no", "unknown"].includes(error.applied);
  });
  let answered = 0;
  const counting: typeof fetch = async (...all) => {
    const response = await fetch(...all);
    answered += response.status === 503 ? 1 : 0;
    return response;
  };
  const waiting = outage
    .with({ fetch: counting })
    .thread(thread.id)
    .append([{ n: 2 }], { key: "second" });
  await until(() => answered > 0);
  await control("start/valkey");
  await waiting;
  assert.deepEqual((await thread.load({ last: 10 }))?.messages, [{ n: 1 }, { n: 2 }]);
});

test("what nobody listens for is refused at once, and tried until the deadline", async () => {
  const closed = await new Proxy(given.url).start();
  const { url } = closed;
  await closed.close();
  const nobody = client({ url }).workflow(fresh()).start("refund", {}, { timeout: 400 });
  await assert.rejects(nobody, (error) => {
    assert.ok(error instanceof stateward.DeadlineExceeded);
    assert.match(error.message, /ECONNREFUSED/);
    return error.applied === "no";
  });
});

test("each problem is an error of its own class", async () => {
  const problems: [number, string, new (...all: never[]) => stateward.StatewardError][] = [
    [409, "LeaseLost", stateward.Fenced],
    [409, "WorkflowFinished", stateward.InvalidState],
    [410, "ConversationDeletedError", stateward.ConversationDeleted],
    [410, "NotKept", stateward.Gone],
    [410, "Truncated", stateward.Reset],
    [413, "TooLarge", stateward.TooLarge],
    [421, "WrongReplica", stateward.WrongReplica],
    [423, "LeaseHeld", stateward.Held],
    [500, "", stateward.StatewardError],
  ];
  for (const [status, error, kind] of problems) {
    const headers = { "content-type": "application/problem+json", "retry-after": "7" };
    const problem = JSON.stringify({ status, error, title: "No", detail: "because" });
    const answering = client({ fetch: async () => new Response(problem, { status, headers }) });
    await assert.rejects(answering.thread("t").append([{ n: 1 }]), (caught) => {
      assert.ok(caught instanceof stateward.StatewardError);
      assert.equal(caught.constructor, kind);
      assert.deepEqual([caught.name, caught.message], [kind.name, "No: because"]);
      assert.deepEqual([caught.status, caught.error, caught.retryAfter], [status, error, 7]);
      return caught.applied === (status === 500 ? "unknown" : "no");
    });
  }
});

test("what the service asks to wait for is waited for, and not beyond the deadline", async () => {
  const keys: (string | null)[] = [];
  const limited: typeof fetch = async (input, init) => {
    keys.push(new Headers(init?.headers).get("idempotency-key"));
    if (keys.length > 1) return fetch(input, init);
    return new Response(null, { status: 429, headers: { "retry-after": "1" } });
  };
  const began = performance.now();
  await client({ fetch: limited })
    .thread(fresh())
    .append([{ n: 1 }]);
  assert.ok(performance.now() - began >= 1_000);
  assert.equal(keys.length, 2);
  assert.ok(keys[0] && keys[0] === keys[1]);
  keys.length = 0;
  const hurried = client({ fetch: limited, timeout: 900 })
    .thread(fresh())
    .append([{ n: 1 }]);
  await assert.rejects(hurried, stateward.DeadlineExceeded);
  assert.equal(keys.length, 1);
});

test("a proxy's own pages and redirects are not taken for answers", async () => {
  const answers = [
    new Response("<html>secret</html>", {
      status: 200,
      headers: { "content-type": "application/json" },
    }),
    new Response("<html>secret</html>", { status: 404, headers: { "content-type": "text/html" } }),
    new Response(null, { status: 302, headers: { location: "https://elsewhere.example" } }),
  ];
  for (const response of answers) {
    const asked = client({ fetch: async () => response })
      .thread("t")
      .append([{ n: 1 }]);
    await assert.rejects(asked, (error) => {
      assert.ok(error instanceof stateward.StatewardError);
      return !error.message.includes("secret");
    });
  }
});
