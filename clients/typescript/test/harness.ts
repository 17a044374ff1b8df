/** What the tests are given, and a proxy to be cut. */

import { connect, createServer, type Server, type Socket } from "node:net";
import type { AddressInfo } from "node:net";

import { Client, type ClientOptions } from "@stateward/client";

interface Given {
  url: string; // of a service over SQLite
  outage: string; // of a service over Valkey
  control: string; // kills and starts what the tests need killed
  keys: Record<"write" | "operate" | "user" | "several" | "outage", string>;
}

export const given: Given = JSON.parse(process.env.STATEWARD_TESTS ?? "{}");
export const PATIENCE = 60_000;

let made = 0;

/** A name that no other test has. */
export function fresh(): string {
  return `${process.pid}-${++made}`;
}

export function client(options: Partial<ClientOptions> = {}): Client {
  const patient = { timeout: PATIENCE, tryTimeout: PATIENCE };
  return new Client({ url: given.url, key: given.keys.write, ...patient, ...options });
}

/** Have something done to the servers: "kill/service", "start/valkey". */
export async function control(what: string): Promise<void> {
  const response = await fetch(`${given.control}/${what}`, { method: "POST" });
  if (!response.ok) throw new Error(`${what}: ${await response.text()}`);
}

export async function collect<T>(items: AsyncIterable<T>, most = Infinity): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) if (found.push(item) >= most) break;
  return found;
}

type Rule = (told: Buffer, connection: number) => Buffer | { last: Buffer } | null;

/** Stands before a service. `rule` says what passes of what is told, or is the last; null: cut at once. */
export class Proxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  rule: Rule = (told) => told;
  connections = 0;
  refused = 0;

  constructor(to: string) {
    const { hostname, port } = new URL(to);
    this.#server = createServer((socket) => {
      const number = ++this.connections;
      const service = connect(Number(port), hostname);
      this.#sockets.add(socket);
      const cut = () => (socket.resetAndDestroy(), service.destroy(), this.#sockets.delete(socket));
      socket
        .on("data", (data) => service.write(data))
        .on("error", cut)
        .on("close", cut);
      service.on("data", (data) => {
        const passes = this.rule(data, number);
        if (passes === null) cut();
        else if ("last" in passes) socket.end(passes.last);
        else socket.write(passes);
      });
      service.on("error", () => (this.refused++, cut())).on("close", cut);
    });
  }

  async start(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  cutAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    this.cutAll();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Wait for something to be so. */
export async function until(what: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + PATIENCE;
  while (!(await what())) {
    if (performance.now() > end) throw new Error(`it never was so: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
