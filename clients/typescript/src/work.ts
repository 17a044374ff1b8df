/** Work in progress: workflows, tasks, and journals between agents. */

import type { Items, Json, WriteOptions } from "./client.js";
import { orNull } from "./errors.js";
import { Noun } from "./noun.js";
import type { QueryOf, Schemas } from "./routes.js";
import type { StreamOptions } from "./stream.js";
import type { Appended } from "./thread.js";
import type { CallOptions } from "./transport.js";

/** Work of several steps, which a worker drives. */
export class Workflow extends Noun {
  /** How it stands; null: there is none. */
  info(options: CallOptions = {}): Promise<Schemas["WorkflowInfo"] | null> {
    const call = { ...options, ...this.#asked() };
    return orNull(
      async () => (await this.client.request("GET /v1/workflows/{workflow}", call)).data,
    );
  }

  /** Begin it, for a worker to drive; false: it was begun before. */
  async start(kind: string, input: unknown = null, options: WriteOptions = {}): Promise<boolean> {
    const call = { ...options, ...this.#asked(), body: { kind, input } };
    return (await this.client.request("POST /v1/workflows/{workflow}/start", call)).data.changed;
  }

  /** Tell it what it waits for; false: that was told before, under the same key. */
  async signal(
    signal: string,
    value: unknown = null,
    options: WriteOptions = {},
  ): Promise<boolean> {
    const { path, query } = this.#asked();
    const call = { ...options, path: { ...path, signal }, query, body: { value } };
    return (await this.client.request("POST /v1/workflows/{workflow}/signals/{signal}", call)).data
      .changed;
  }

  /** End it and its children; false: it had ended. */
  async cancel(reason = "", options: WriteOptions = {}): Promise<boolean> {
    const call = { ...options, ...this.#asked(), body: { reason } };
    return (await this.client.request("POST /v1/workflows/{workflow}/cancel", call)).data.changed;
  }

  /** Go on with it after it failed or was cancelled; false: it goes on anyway. */
  async retry(options: WriteOptions = {}): Promise<boolean> {
    const call = { ...options, ...this.#asked() };
    return (await this.client.request("POST /v1/workflows/{workflow}/retry", call)).data.changed;
  }

  /** Begin another workflow that stands before a step of this one. */
  async fork(to: string, atStep: string, options: WriteOptions = {}): Promise<Workflow> {
    const call = { ...options, ...this.#asked(), body: { to, at_step: atStep } };
    await this.client.request("POST /v1/workflows/{workflow}/fork", call);
    return new Workflow(this.client, to, { user: this.user });
  }

  #asked() {
    return { path: { workflow: this.id }, query: { user: this.user } };
  }
}

/** Work that runs once. */
export class Task extends Noun {
  /** How it stands; null: there is none. */
  info(options: CallOptions = {}): Promise<Schemas["TaskInfo"] | null> {
    const call = { ...options, ...this.#asked() };
    return orNull(async () => (await this.client.request("GET /v1/tasks/{task}", call)).data);
  }

  /** Let it run again after it failed or was cancelled. */
  async retry(options: WriteOptions = {}): Promise<Schemas["TaskInfo"]> {
    return (
      await this.client.request("POST /v1/tasks/{task}/retry", { ...options, ...this.#asked() })
    ).data;
  }

  /** Let it never run, or have run in vain. */
  async cancel(reason = "", options: WriteOptions = {}): Promise<Schemas["TaskInfo"]> {
    const call = { ...options, ...this.#asked(), body: { reason } };
    return (await this.client.request("POST /v1/tasks/{task}/cancel", call)).data;
  }

  #asked() {
    return { path: { task: this.id }, query: { user: this.user } };
  }
}

/** Events that agents tell each other. */
export class Journal extends Noun {
  /** Publish events, all or none. */
  async append(events: Json[], options: WriteOptions = {}): Promise<Appended> {
    const call = { ...options, ...this.#asked(), body: { events } };
    const reply = await this.client.request("POST /v1/journals/{journal}/events", call);
    return { ...reply.data, etag: reply.etag!, replayed: reply.replayed };
  }

  /** Every event after a place, and those that come. Throws `Reset`: begin anew. */
  changes(
    query: Omit<QueryOf<"GET /v1/journals/{journal}/changes">, "user"> = {},
    options: StreamOptions = {},
  ): Items<Schemas["MessageEvent"]> {
    const { path, query: whose } = this.#asked();
    return this.client.stream("GET /v1/journals/{journal}/changes", {
      ...options,
      path,
      query: { ...query, ...whose },
    });
  }

  async delete(options: CallOptions = {}): Promise<void> {
    await this.client.request("DELETE /v1/journals/{journal}", { ...options, ...this.#asked() });
  }

  #asked() {
    return { path: { journal: this.id }, query: { user: this.user } };
  }
}
