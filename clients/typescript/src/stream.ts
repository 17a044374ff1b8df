/** Server-sent events that go on where they were cut off. */

import {
  errorOf,
  Reset,
  StatewardError,
  TooManyRequests,
  Unavailable,
  type Problem,
} from "./errors.js";
import { Exchange, pause, sleep, type Outgoing, type Transport } from "./transport.js";

export interface ServerEvent {
  id: string | undefined;
  name: string;
  data: string;
}

/** Of a stream. */
export interface StreamOptions {
  signal?: AbortSignal | undefined;
  headers?: Record<string, string> | undefined;
  /** Told each time that the stream was cut or could not be opened; it goes on by itself. */
  onCut?: ((error: StatewardError) => void) | undefined;
}

/** The events of a body. What was cut in the middle is no event. */
export async function* parsed(
  body: ReadableStream<Uint8Array>,
  alive: () => void,
): AsyncGenerator<ServerEvent> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  let event: ServerEvent = { id: undefined, name: "message", data: "" };
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines.map((each) => each.replace(/\r$/, ""))) {
      const [, field, text = ""] = /^(id|event|data): ?(.*)$/s.exec(line) ?? [];
      if (line === "") {
        if (event.data) yield event;
        event = { id: undefined, name: "message", data: "" };
      } else if (field === "id") event.id = text;
      else if (field === "event") event.name = text;
      else if (field === "data") event.data += event.data ? `\n${text}` : text;
    }
  }
}

/** What a stream's events are read as, and which of them is the last. */
export interface Reading<T> {
  read: (event: ServerEvent) => T;
  isLast: (item: T) => boolean;
}

const DATA: Reading<never> = {
  read: (event) => JSON.parse(event.data) as never,
  isLast: () => false,
};

/** Follow a stream: every event once and in order, over however many connections.
 *
 * Ends behind the last event, or when all was told if it was asked with `follow: false`; else only with an error. Throws
 * `Reset` when the history is not the one that was followed; what fails for a while is tried again.
 */
export async function* follow<T>(
  transport: Transport,
  asked: Outgoing,
  { signal, onCut }: StreamOptions,
  { read, isLast }: Reading<T> = DATA as unknown as Reading<T>,
): AsyncGenerator<T, void, undefined> {
  const request = transport.prepare(asked);
  request.headers.set("accept", "text/event-stream");
  for (let tries = 0; ; tries++) {
    const exchange = new Exchange(signal);
    const alive = () => exchange.within(transport.quietTimeout);
    let failed: unknown;
    try {
      alive();
      const response = await transport.open(request, exchange);
      for await (const event of parsed(response.body!, alive)) {
        if (event.name === "reset") throw new Reset(JSON.parse(event.data) as Problem);
        if (event.name === "problem") throw errorOf(JSON.parse(event.data) as Problem);
        if (event.id !== undefined) request.headers.set("last-event-id", event.id);
        tries = -1;
        exchange.within(undefined); // however long the reader takes
        const item = read(event);
        yield item;
        if (isLast(item)) return;
        alive();
      }
      if (asked.query?.["follow"] === false) return;
      failed = new Unavailable({ title: "The service has ended the stream" });
    } catch (thrown) {
      failed = exchange.failure(thrown);
    } finally {
      exchange.close();
    }
    if (!(failed instanceof Unavailable || failed instanceof TooManyRequests)) throw failed;
    onCut?.(failed);
    await sleep(pause(Math.max(0, tries), failed.retryAfter), signal);
  }
}
