/** Documents: a user's, and those that agents share. */

import type { Call, Client, Items, Json, Reply, Versioned, Whose, WriteOptions } from "./client.js";
import { orNull } from "./errors.js";
import { Noun } from "./noun.js";
import type { Answer, QueryOf, Route, Schemas } from "./routes.js";
import type { CallOptions } from "./transport.js";

const USERS = "/v1/users/{user}/documents";
type UsersRoute = Extract<Route, `${string} ${typeof USERS}${string}`>;
type One = `${typeof USERS}/{name}`;

/** A document as it was read or written. */
export interface Document<T extends object = Json> extends Versioned {
  value: T;
  version: number;
}

/** The documents of one user, or of one thing that is shared. */
export class Documents extends Noun {
  readonly #kind: "user" | "shared";

  constructor(client: Client, kind: "user" | "shared", id: string, whose: Whose = {}) {
    super(client, id, whose);
    this.#kind = kind;
  }

  /** One of them. */
  document<T extends object = Json>(name = "default"): DocumentHandle<T> {
    return new DocumentHandle(this, name);
  }

  /** All of them, by name. */
  documents(
    query: QueryOf<`GET ${typeof USERS}`> = {},
    options: CallOptions = {},
  ): Items<Schemas["NamedDocument"]> {
    return this.client.list(
      ...this.#asked(`GET ${USERS}` as const, { ...options, path: { user: this.id }, query }),
    );
  }

  /** Ask a route of a document: those of the two kinds are the same but for the path. */
  async request<R extends Extract<UsersRoute, `${string}${One}${string}`>>(
    route: R,
    name: string,
    call: object,
  ): Promise<Reply<Answer<R>>> {
    return this.client.request(...this.#asked(route, { ...call, path: { user: this.id, name } }));
  }

  #asked<R extends UsersRoute>(route: R, call: object): [R, Call<R>] {
    const { path, query } = call as { path: object; query?: object };
    if (this.#kind === "user") return [route, call as Call<R>];
    const shared = route.replace("users/{user}", "shared/{shared}") as R;
    const whose = { ...query, user: this.user };
    return [
      shared,
      { ...call, path: { ...path, shared: this.id }, query: whose } as unknown as Call<R>,
    ];
  }
}

/** What is known of a user. */
export class User extends Documents {
  constructor(client: Client, id: string) {
    super(client, "user", id);
  }

  /** Remove all that belongs to the user, for good; the receipt names no content. */
  async erase(options: CallOptions = {}): Promise<Schemas["ErasureReceipt"]> {
    const call = { ...options, path: { user: this.id } };
    return (await this.client.request("POST /v1/users/{user}/erase", call)).data;
  }
}

/** One document. */
export class DocumentHandle<T extends object = Json> {
  readonly #documents: Documents;
  readonly name: string;

  constructor(documents: Documents, name: string) {
    this.#documents = documents;
    this.name = name;
  }

  /** As it is now, or was in a `version` or `at` a time; null: there is none.
   *
   * Pass what you have as `unless`: if it still is that, it is given back, and no body is sent.
   */
  get(
    query: QueryOf<`GET ${One}`> = {},
    options: CallOptions & { unless?: Document<T> | null } = {},
  ): Promise<Document<T> | null> {
    return orNull(async () => {
      const reply = await this.#documents.request(`GET ${USERS}/{name}`, this.name, {
        ...options,
        query,
      });
      return reply.status === 304 && options.unless ? options.unless : shown<T>(reply);
    });
  }

  /** Replace what `expect` says: the document that was read, null for none yet, "*" for any. */
  async put(
    value: T,
    options: WriteOptions & { expect: NonNullable<WriteOptions["expect"]> | null },
  ): Promise<Document<T>> {
    return shown(
      await this.#documents.request(`PUT ${USERS}/{name}`, this.name, { ...options, body: value }),
    );
  }

  /** Apply a JSON merge patch (RFC 7396). */
  async patch(patch: Json, options: WriteOptions = {}): Promise<Document<T>> {
    return shown(
      await this.#documents.request(`PATCH ${USERS}/{name}`, this.name, {
        ...options,
        body: patch,
      }),
    );
  }

  /** Remove it; with `forget` its history too. */
  async delete({ forget, ...options }: WriteOptions & { forget?: boolean } = {}): Promise<void> {
    await this.#documents.request(`DELETE ${USERS}/{name}`, this.name, {
      ...options,
      query: { forget },
    });
  }

  /** What it is and was, the newest first. */
  async history(
    query: QueryOf<`GET ${One}/history`> = {},
    options: CallOptions = {},
  ): Promise<Schemas["PastVersion"][]> {
    const call = { ...options, query };
    return (await this.#documents.request(`GET ${USERS}/{name}/history`, this.name, call)).data
      .items;
  }

  /** Make it what it was: in a version, at a time, or before its last change. Null: there was none. */
  async undo(
    body: { to?: number; at?: string } = {},
    options: WriteOptions = {},
  ): Promise<Document<T> | null> {
    const reply = await this.#documents.request(`POST ${USERS}/{name}/undo`, this.name, {
      ...options,
      body,
    });
    return reply.status === 204 ? null : shown(reply);
  }
}

function shown<T extends object>({ data, etag = "" }: Reply<unknown>): Document<T> {
  return { value: data as T, etag, version: Number.parseInt(etag.slice(1), 10) };
}
