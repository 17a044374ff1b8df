/** The service, asked with one key. What has no word here is asked with `request`, `list` and `stream`. */

import { Documents, User } from "./documents.js";
import { StatewardError } from "./errors.js";
import type {
  Answer,
  Asked,
  EventOf,
  ItemOf,
  ListRoute,
  QueryOf,
  Route,
  Schemas,
  StreamRoute,
} from "./routes.js";
import { follow, type Reading, type StreamOptions } from "./stream.js";
import { Thread } from "./thread.js";
import { Transport, type CallOptions, type ClientOptions, type Outgoing } from "./transport.js";
import { Journal, Task, Workflow } from "./work.js";

/** Something that was read or written, with its version. */
export interface Versioned {
  etag: string;
}

/** The version that a write is for: what was read; null: there is none yet; "*": whatever is there. */
export type Expect = Versioned | null | "*";

/** Of a write. A `key` that is left out is made; all tries of the call have the same. */
export interface WriteOptions extends CallOptions {
  key?: string | undefined;
  expect?: Expect | undefined;
}

/** An answer. `replayed`: the request was carried out before, under the same key. */
export interface Reply<T> {
  data: T;
  status: number;
  etag: string | undefined;
  replayed: boolean;
}

/** Whose it is; a key of one user says that already. */
export interface Whose {
  user?: string | undefined;
}

export type Json = Record<string, unknown>;
export type Items<T> = AsyncGenerator<T, void, undefined>;

/** What a call of a route takes. With `unless`, a read is answered 304 if it still is that version. */
export type Call<R extends Route> = Asked<R> &
  WriteOptions & { unless?: Versioned | null | undefined };

export class Client {
  readonly #transport: Transport;

  constructor(options: ClientOptions | Transport) {
    this.#transport = options instanceof Transport ? options : new Transport(options);
  }

  /** The same with other options: another namespace or key, for example. */
  with(options: Partial<ClientOptions>): Client {
    return new Client(this.#transport.with(options));
  }

  // --- any route ------------------------------------------------------------------------

  /** Ask any route, such as "GET /v1/storage". */
  async request<R extends Route>(route: R, call: Call<R>): Promise<Reply<Answer<R>>> {
    return this.#transport.send(outgoing(route, call), async (response) => ({
      data: (await decoded(response)) as Answer<R>,
      status: response.status,
      etag: response.headers.get("etag") ?? undefined,
      replayed: response.headers.get("idempotent-replayed") === "true",
    }));
  }

  /** Everything in a list, page by page; `limit` is the size of a page. */
  async *list<R extends ListRoute>(route: R, call: Call<R>): Items<ItemOf<R>> {
    let { query } = call as { query?: Json };
    for (;;) {
      const { data } = await this.request(route, { ...call, query });
      const { items, next } = data as { items: ItemOf<R>[]; next: string | null };
      yield* items;
      if (next === null) return;
      query = { ...query, after: next };
    }
  }

  /** The events of a stream, each once, over however many connections. Throws `Reset`: begin anew. */
  stream<R extends StreamRoute, T = EventOf<R>>(
    route: R,
    call: Asked<R> & StreamOptions,
    reading?: Reading<T>,
  ): Items<T> {
    return follow(this.#transport, outgoing(route, call), call, reading);
  }

  // --- what is remembered ---------------------------------------------------------------

  thread(id: string, whose: Whose = {}): Thread {
    return new Thread(this, id, whose);
  }

  /** Conversations, the newest first. */
  threads(
    query: QueryOf<"GET /v1/threads"> = {},
    options: CallOptions = {},
  ): Items<Schemas["ThreadInfo"]> {
    return this.list("GET /v1/threads", { ...options, query });
  }

  /** Everybody who has anything here, by id. */
  users(
    query: QueryOf<"GET /v1/users"> = {},
    options: CallOptions = {},
  ): Items<Schemas["UserShown"]> {
    return this.list("GET /v1/users", { ...options, query });
  }

  user(id: string): User {
    return new User(this, id);
  }

  /** Documents that agents share. */
  shared(id: string, whose: Whose = {}): Documents {
    return new Documents(this, "shared", id, whose);
  }

  journal(id: string, whose: Whose = {}): Journal {
    return new Journal(this, id, whose);
  }

  /** A window of a conversation, the user's documents and unfinished work, read together. */
  async context(
    query: QueryOf<"GET /v1/context">,
    options: CallOptions = {},
  ): Promise<Schemas["ContextShown"]> {
    return (await this.request("GET /v1/context", { ...options, query })).data;
  }

  /** What was touched, and what is touched from now on. */
  changes(
    query: QueryOf<"GET /v1/changes"> = {},
    options: StreamOptions = {},
  ): Items<Schemas["EntityChange"]> {
    return this.stream("GET /v1/changes", { ...options, query });
  }

  // --- work -----------------------------------------------------------------------------

  workflow(id: string, whose: Whose = {}): Workflow {
    return new Workflow(this, id, whose);
  }

  /** Workflows, the newest first. */
  workflows(
    query: QueryOf<"GET /v1/workflows"> = {},
    options: CallOptions = {},
  ): Items<Schemas["WorkflowInfo"]> {
    return this.list("GET /v1/workflows", { ...options, query });
  }

  /** What workflows ask and wait for, the oldest first. */
  waiting(
    query: QueryOf<"GET /v1/waiting"> = {},
    options: CallOptions = {},
  ): Items<Schemas["OpenQuestion"]> {
    return this.list("GET /v1/waiting", { ...options, query });
  }

  /** Answer a question; false: somebody has done so before. */
  async answer(question: string, value: unknown, options: WriteOptions = {}): Promise<boolean> {
    const call = { ...options, path: { question }, body: { value } };
    return (await this.request("POST /v1/waiting/{question}/answer", call)).data.changed;
  }

  task(id: string, whose: Whose = {}): Task {
    return new Task(this, id, whose);
  }

  /** Tasks, the newest first. */
  tasks(
    query: QueryOf<"GET /v1/tasks"> = {},
    options: CallOptions = {},
  ): Items<Schemas["TaskInfo"]> {
    return this.list("GET /v1/tasks", { ...options, query });
  }

  /** Who holds locks, or leads names. */
  locks(
    query: QueryOf<"GET /v1/locks"> = {},
    options: CallOptions = {},
  ): Items<Schemas["LockShown"]> {
    return this.list("GET /v1/locks", { ...options, query });
  }

  /** Take a lock from whoever holds it with that token. */
  async breakLock(lock: string, token: number, options: WriteOptions = {}): Promise<void> {
    await this.request("POST /v1/locks/{lock}/break", {
      ...options,
      path: { lock },
      body: { token },
    });
  }
}

function outgoing(route: string, call: object): Outgoing {
  const { key, expect, unless, headers, ...rest } = call as WriteOptions & {
    unless?: Versioned | null;
  };
  const said: Record<string, string> = { ...headers };
  if (key !== undefined) said["idempotency-key"] = key;
  if (expect === null) said["if-none-match"] = "*";
  else if (expect !== undefined) said["if-match"] = expect === "*" ? "*" : expect.etag;
  if (unless) said["if-none-match"] = unless.etag;
  return { ...rest, route, headers: said };
}

async function decoded(response: Response): Promise<unknown> {
  const text = await response.text();
  if (text === "") return undefined;
  const kind = response.headers.get("content-type") ?? "";
  if (!kind.startsWith("application/json")) return text;
  try {
    return JSON.parse(text);
  } catch {
    throw new StatewardError({
      title: "The answer is not JSON",
      status: response.status,
      applied: "unknown",
    });
  }
}
