/** Requests that are tried again where that is safe, within one deadline and under one key. */

import {
  DeadlineExceeded,
  StatewardError,
  TooManyRequests,
  Unauthorized,
  Unavailable,
} from "./errors.js";
import { errorOfResponse, inDoubt, type Problem } from "./errors.js";
import { MEDIA_TYPES, TAKE_KEYS } from "./traits.js";

/** Where the service is, and who asks. Times are in milliseconds. */
export interface ClientOptions {
  /** Of the service: `https://state.example.com`. A key before the `@` is taken from it. */
  url: string | URL;
  /** The key, or a function that returns it: it is called for every try. */
  key?: string | (() => string | Promise<string>) | undefined;
  /** Which namespace, if the key is for several. */
  namespace?: string | undefined;
  /** How long a call may take with all its tries (30,000). */
  timeout?: number | undefined;
  /** How long one try may take (10,000). */
  tryTimeout?: number | undefined;
  /** After how long without a sign of life a stream is opened anew (45,000). */
  quietTimeout?: number | undefined;
  /** Allow `http://` to other machines: inside a service mesh, for example. */
  insecure?: boolean | undefined;
  /** Sent with every request: `traceparent`, for example. */
  headers?: Record<string, string> | undefined;
  /** Instead of the global `fetch`. */
  fetch?: typeof fetch | undefined;
}

/** Of one call. */
export interface CallOptions {
  signal?: AbortSignal | undefined;
  timeout?: number | undefined;
  headers?: Record<string, string> | undefined;
}

/** One request, before it is sent. */
export interface Outgoing extends CallOptions {
  route: string;
  path?: Record<string, string> | undefined;
  query?: Record<string, unknown> | undefined;
  body?: unknown;
}

const BACKOFF = { first: 100, most: 5_000 };
const LOCAL = /^(localhost|127(\.\d+){3}|\[::1\])$/;
// The request cannot have arrived: there was no connection.
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"]);
NOT_SENT.add("UND_ERR_CONNECT_TIMEOUT");

/** A key that nobody else has. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** How long to wait before the next try: longer each time, never in step with others. */
export function pause(tries: number, retryAfter = 0): number {
  const most = Math.min(BACKOFF.most, BACKOFF.first * 2 ** Math.min(tries, 10));
  return retryAfter * 1000 + most * (0.5 + Math.random() / 2);
}

/** Wait; throws the signal's reason if that comes first. */
export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** One exchange with the service: it is cut off when its time is up, or when nobody waits for it. */
export class Exchange {
  readonly #cutter = new AbortController();
  readonly #signal: AbortSignal | undefined;
  readonly #stop = () => this.#cutter.abort();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #late = false;

  constructor(signal: AbortSignal | undefined) {
    signal?.throwIfAborted();
    this.#signal = signal;
    signal?.addEventListener("abort", this.#stop, { once: true });
  }

  get signal(): AbortSignal {
    return this.#cutter.signal;
  }

  /** Cut it off after so long, counted from now; undefined: not at all. */
  within(milliseconds: number | undefined): void {
    clearTimeout(this.#timer);
    if (milliseconds === undefined) return;
    this.#timer = setTimeout(() => {
      this.#late = true;
      this.#cutter.abort();
    }, milliseconds);
  }

  /** What a failure of it means to whoever asked. */
  failure(error: unknown): unknown {
    if (this.#signal?.aborted) return this.#signal.reason;
    if (error instanceof StatewardError) return error;
    const code = (error as { cause?: { code?: string } } | undefined)?.cause?.code;
    const applied = code && NOT_SENT.has(code) ? "no" : "unknown";
    if (this.#late) return new DeadlineExceeded({ title: "The service did not answer in time" });
    return new Unavailable(
      { title: "The connection failed", detail: code ?? "", applied },
      { cause: error },
    );
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#signal?.removeEventListener("abort", this.#stop);
    this.#cutter.abort();
  }
}

/** Sends requests. Whoever prints one sees no key. */
export class Transport {
  readonly #base: string;
  readonly #key: ClientOptions["key"];
  readonly #options: ClientOptions;
  readonly quietTimeout: number;

  constructor(options: ClientOptions) {
    const url = new URL(options.url);
    this.#key = options.key ?? (url.username ? decodeURIComponent(url.username) : undefined);
    if (url.protocol !== "https:" && !options.insecure && !LOCAL.test(url.hostname)) {
      throw new TypeError("http:// to another machine shows the key to the network: use https://");
    }
    this.#base = url.origin + url.pathname.replace(/\/+$/, "");
    this.#options = { ...options, url: this.#base, key: undefined };
    this.quietTimeout = options.quietTimeout ?? 45_000;
  }

  /** The same service, asked with other options. */
  with(options: Partial<ClientOptions>): Transport {
    return new Transport({ ...this.#options, key: this.#key, ...options });
  }

  /** Send a request until it is answered, and give the answer to `use`.
   *
   * It is sent again after 429, 502, 503, 504 and a failed connection: whatever it is if it was not
   * carried out; else if it reads, if it has an idempotency key, or if doing it twice is doing it once.
   */
  async send<T>(asked: Outgoing, use: (response: Response) => Promise<T>): Promise<T> {
    const request = this.prepare(asked);
    const timeout = asked.timeout ?? this.#options.timeout ?? 30_000;
    const end = performance.now() + timeout;
    const repeatable =
      request.headers.has("idempotency-key") || /^(GET|PUT|DELETE)$/.test(request.method);
    let doubtful = false; // a try before may have been carried out
    for (let tries = 0; ; tries++) {
      const exchange = new Exchange(asked.signal);
      try {
        const left = Math.max(0, end - performance.now());
        exchange.within(repeatable ? Math.min(left, this.#options.tryTimeout ?? 10_000) : left);
        return await use(await this.open(request, exchange));
      } catch (thrown) {
        const error = exchange.failure(thrown);
        if (!(error instanceof StatewardError)) throw error;
        const wait = pause(tries, error.retryAfter);
        const passing = error instanceof Unavailable || error instanceof TooManyRequests;
        const final = !passing || (error.applied !== "no" && !repeatable);
        if (final) throw doubtful ? inDoubt(error) : error;
        doubtful ||= error.applied !== "no";
        if (performance.now() + wait >= end) {
          const detail = `nothing better within ${timeout} ms; the last was: ${error.message}`;
          const { status, error: name } = error;
          const applied = doubtful ? "unknown" : "no";
          const problem: Problem = { title: "Out of time", detail, status, error: name, applied };
          throw new DeadlineExceeded(problem, { retryAfter: error.retryAfter, cause: error });
        }
        await sleep(wait, asked.signal);
      } finally {
        exchange.close();
      }
    }
  }

  /** What is sent, the same in every try. Throws for what no service could take. */
  prepare({ route, path = {}, query = {}, body, headers = {} }: Outgoing): Prepared {
    const [method = "", template = ""] = route.split(" ");
    const given = new Headers({ ...this.#options.headers, ...headers });
    const { namespace } = this.#options;
    if (namespace !== undefined) given.set("stateward-namespace", encodeURIComponent(namespace));
    if (TAKE_KEYS.has(route) && !given.has("idempotency-key"))
      given.set("idempotency-key", newKey());
    if (body !== undefined) given.set("content-type", MEDIA_TYPES[route] ?? "application/json");
    const below = template.replace(/\{(\w+)\}/g, (_, name: string) => segment(name, path[name]));
    const said = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
    const search = new URLSearchParams(
      said.flatMap(([name, value]) => [value].flat().map((each) => [name, String(each)])),
    ).toString();
    const url = `${this.#base}${below}${search && `?${search}`}`;
    return {
      method,
      url,
      headers: given,
      body: body === undefined ? undefined : JSON.stringify(body),
    };
  }

  /** Send it once; throws the problem that is answered. */
  async open({ method, url, headers, body }: Prepared, exchange: Exchange): Promise<Response> {
    const all = new Headers(headers);
    const key = await this.#currentKey();
    if (key !== undefined) all.set("authorization", `Bearer ${key}`);
    const init: RequestInit = { method, headers: all, redirect: "manual", signal: exchange.signal };
    if (body !== undefined) init.body = body;
    const response = await (this.#options.fetch ?? fetch)(url, init);
    if (!response.ok && response.status !== 304) throw await errorOfResponse(response);
    return response;
  }

  async #currentKey(): Promise<string | undefined> {
    let key: string | undefined;
    try {
      key = typeof this.#key === "function" ? await this.#key() : this.#key;
    } catch (cause) {
      throw new Unauthorized({ status: 401, title: "The function for the key failed" }, { cause });
    }
    // `Headers` would repeat the value that it refuses.
    if (key === undefined || /^[\x21-\x7e]+$/.test(key)) return key;
    throw new Unauthorized({
      status: 401,
      title: "That is no key",
      detail: "it has characters that none has",
    });
  }
}

/** A request as it is sent. */
export interface Prepared {
  method: string;
  url: string;
  headers: Headers;
  body: string | undefined;
}

function segment(name: string, value: string | undefined): string {
  // A URL cannot have these as names: whatever parses it takes them for ways.
  if (value === undefined || value === "" || value === "." || value === "..") {
    throw new TypeError(`${JSON.stringify(value)} cannot be the name of a ${name}`);
  }
  return encodeURIComponent(value);
}
