/** A conversation. */

import type { Items, Json, Versioned, WriteOptions } from "./client.js";
import { orNull } from "./errors.js";
import { Noun } from "./noun.js";
import type { QueryOf, Schemas } from "./routes.js";
import type { Reading, StreamOptions } from "./stream.js";
import type { CallOptions } from "./transport.js";

export type Window = Schemas["ThreadWindow"] & Versioned;
export type Appended = Schemas["AppendAnswer"] & Versioned & { replayed: boolean };
export type MessageChange = Schemas["MessageEvent"];

export type LiveAnswer = Schemas["LiveAnswer"];

/** A part of a live answer. After a `begin`, what was read before is void; an `end` is the last. */
export type LiveEvent = Schemas["LiveData"] & { kind: "begin" | "delta" | "end"; cursor: string };

const LIVE: Reading<LiveEvent> = {
  read: ({ id, name, data }) => ({
    ...(JSON.parse(data) as Schemas["LiveData"]),
    kind: name as LiveEvent["kind"],
    cursor: decodeURIComponent(id ?? ""),
  }),
  isLast: ({ kind }) => kind === "end",
};

export class Thread extends Noun {
  /** A window of it, for a prompt: the last 20 messages unless something is said. Null: there is none. */
  load(
    query: Omit<QueryOf<"GET /v1/threads/{thread}">, "user"> = {},
    options: CallOptions = {},
  ): Promise<Window | null> {
    return orNull(async () => {
      const call = { ...options, ...this.#asked(query) };
      const { data, etag } = await this.client.request("GET /v1/threads/{thread}", call);
      return { ...data, etag: etag! };
    });
  }

  /** Append messages, all or none; `vars` is a merge patch for the variables of the conversation. */
  async append(messages: Json[], options: WriteOptions & { vars?: Json } = {}): Promise<Appended> {
    const { vars, ...rest } = options;
    const body = vars === undefined ? { messages } : { messages, vars };
    const call = { ...rest, ...this.#asked(), body };
    const reply = await this.client.request("POST /v1/threads/{thread}/messages", call);
    return { ...reply.data, etag: reply.etag!, replayed: reply.replayed };
  }

  /** Every message after a place, and those that come. Throws `Reset`: read it anew. */
  changes(
    query: Omit<QueryOf<"GET /v1/threads/{thread}/changes">, "user"> = {},
    options: StreamOptions = {},
  ): Items<MessageChange> {
    return this.client.stream("GET /v1/threads/{thread}/changes", {
      ...options,
      ...this.#asked(query),
    });
  }

  /** The answer to a request while it is written, to its `end`, over however many connections. */
  live(
    request: string,
    query: Omit<QueryOf<"GET /v1/threads/{thread}/live">, "user" | "request"> = {},
    options: StreamOptions = {},
  ): Items<LiveEvent> {
    const call = { ...options, ...this.#asked({ ...query, request }) };
    return this.client.stream("GET /v1/threads/{thread}/live", call, LIVE);
  }

  /** The requests that are being answered live, or were within the last hour. */
  lives(options: CallOptions = {}): Items<LiveAnswer> {
    return this.client.list("GET /v1/threads/{thread}/lives", { ...options, ...this.#asked({}) });
  }

  /** Stop an answer that is being written live; false: it had ended before. */
  async stop(request: string, options: CallOptions = {}): Promise<boolean> {
    const call = { ...options, ...this.#asked(), body: { request } };
    return (await this.client.request("POST /v1/threads/{thread}/stop", call)).data.changed;
  }

  /** Begin another conversation with what this one holds, or held at a version or cursor. */
  async fork(to: string, options: WriteOptions & { at?: string | number } = {}): Promise<Thread> {
    const { at, ...rest } = options;
    const body = at === undefined ? { to } : { to, at };
    await this.client.request("POST /v1/threads/{thread}/fork", {
      ...rest,
      ...this.#asked(),
      body,
    });
    return new Thread(this.client, to, { user: this.user });
  }

  async delete(options: CallOptions = {}): Promise<void> {
    await this.client.request("DELETE /v1/threads/{thread}", { ...options, ...this.#asked() });
  }

  #asked<Q extends object>(query?: Q) {
    return { path: { thread: this.id }, query: { ...(query as Q), user: this.user } };
  }
}
