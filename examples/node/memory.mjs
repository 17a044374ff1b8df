// An agent's memory in Node, without any package: conversations, users, and claims (from which
// tasks, workflows and locks are made), in one file that is flushed before a request is answered.
//
//   PORT=8080 FOLDER=data node memory.mjs
//   stateward audit --start-command "node memory.mjs"
//
// What is stored is kept as the text that came: JSON that went through a JavaScript number would
// change integers beyond 2**53, and 1.0 into 1.
import fs from "node:fs";
import http from "node:http";
import path from "node:path";

const LOG = path.join(process.env.FOLDER ?? ".", "memory.log");
const namespaces = new Map();

function namespace(name) {
  if (!namespaces.has(name)) {
    namespaces.set(name, { threads: new Map(), users: new Map(), claims: new Map() });
  }
  return namespaces.get(name);
}

const thread = (space, id) => space.threads.get(id) ?? { messages: [], keys: new Set() };
const user = (space, id) => space.users.get(id) ?? { text: "{}", version: 0 };
const claim = (space, id) => space.claims.get(id) ?? { token: 0, until: 0, result: undefined };

// --- what is written: a line of the log, then the same in memory -------------------------------

function apply({ ns, what, id, ...more }) {
  if (what === "drop") return void namespaces.delete(ns);
  const space = namespace(ns);
  if (what === "append") {
    const found = thread(space, id);
    found.messages.push(...more.messages);
    found.keys.add(more.key);
    space.threads.set(id, found);
  } else if (what === "put") {
    space.users.set(id, { text: more.text, version: more.version });
  } else if (what === "claim") {
    space.claims.set(id, { token: more.token, until: more.until, result: more.result });
  }
}

function recovered() {
  const text = fs.existsSync(LOG) ? fs.readFileSync(LOG, "utf8") : "";
  const whole = text.slice(0, text.lastIndexOf("\n") + 1); // a line that a crash cut off never was
  for (const line of whole.split("\n")) if (line) apply(JSON.parse(line));
  const file = fs.openSync(LOG, "a", 0o600);
  fs.ftruncateSync(file, Buffer.byteLength(whole));
  return file;
}

const file = recovered();

function commit(entry) {
  fs.writeSync(file, JSON.stringify(entry) + "\n");
  fs.fdatasyncSync(file);
  apply(entry);
}

// --- the routes --------------------------------------------------------------------------------

const PROVIDES = ["threads", "users", "versions", "tasks", "workflows", "locks", "sizes"];

function described() {
  const disk = fs.statfsSync(path.dirname(LOG));
  const bytes = fs.fstatSync(file).size;
  return { provides: PROVIDES, engine: "node", version: process.version, bytes, capacity: bytes + disk.bavail * disk.bsize };
}

const routes = {
  GET: (ns) => [200, described()],
  DELETE: (ns) => (commit({ ns, what: "drop" }), [204]),

  "POST threads": (ns, id, { body, headers }) => {
    const key = headers["idempotency-key"], fence = headers["fence-token"];
    const space = namespace(ns);
    if (thread(space, id).keys.has(key)) return [204];
    if (fence !== undefined && Number(fence) !== claim(space, `thread/${id}`).token) {
      return [409, { error: "another caller holds the lock" }];
    }
    commit({ ns, what: "append", id, key, messages: body.split("\n").filter(Boolean) });
    return [204];
  },

  "GET threads": (ns, id, { query }) => {
    const { messages } = thread(namespace(ns), id);
    const last = query.has("last") ? Number(query.get("last")) : messages.length;
    const window = messages.slice(Math.max(0, messages.length - last));
    return [200, window.map((text) => text + "\n").join(""), "application/x-ndjson"];
  },

  "GET users": (ns, id) => {
    const { text, version } = user(namespace(ns), id);
    return [200, text, "application/json", version];
  },

  "PUT users": (ns, id, { body, headers }) => {
    const { version } = user(namespace(ns), id);
    const expected = headers["if-match"];
    if (expected !== undefined && expected !== `"${version}"`) {
      return [412, { error: "it has another version" }, "application/json", version];
    }
    commit({ ns, what: "put", id, text: body, version: version + 1 });
    return [204, undefined, undefined, version + 1];
  },

  "POST claims": (ns, id, { body }) => {
    const asked = JSON.parse(body), found = claim(namespace(ns), id);
    const settled = found.result !== undefined;
    if (asked.token === undefined) {
      if (settled) return [200, { result: found.result }];
      if (found.until > Date.now()) return [409, { error: "another has it" }];
      const token = found.token + 1;
      commit({ ns, what: "claim", id, token, until: Date.now() + asked.ttl * 1000 });
      return [200, { token }];
    }
    if (asked.token !== found.token || settled) return [409, { error: "it is no longer yours" }];
    const until = asked.ttl ? Date.now() + asked.ttl * 1000 : 0;
    const result = asked.release || asked.ttl ? undefined : (asked.result ?? null);
    commit({ ns, what: "claim", id, token: found.token, until, result });
    return [200, {}];
  },
};

// --- HTTP --------------------------------------------------------------------------------------

function answer(request, body) {
  const url = new URL(request.url, "http://here");
  const [ns, what, id] = url.pathname.split("/").slice(1).map(decodeURIComponent);
  const route = routes[[request.method, what].filter(Boolean).join(" ")];
  if (!ns || !route) return [404, { error: "no such route" }];
  return route(ns, id, { body, headers: request.headers, query: url.searchParams });
}

const server = http.createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    let said;
    try {
      said = answer(request, Buffer.concat(parts).toString("utf8"));
    } catch (error) {
      said = [error instanceof SyntaxError ? 400 : 503, { error: String(error) }];
    }
    const [status, content, type = "application/json", version] = said;
    const headers = content === undefined ? {} : { "content-type": type };
    if (version !== undefined) headers.etag = `"${version}"`;
    response.writeHead(status, headers);
    response.end(typeof content === "object" ? JSON.stringify(content) : content);
  });
});
server.keepAliveTimeout = 60_000;
server.listen(Number(process.env.PORT ?? 8080), "127.0.0.1");
