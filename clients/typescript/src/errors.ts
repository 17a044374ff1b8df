/** What can go wrong, as errors that say what to do. None of them holds a key, a header or a body. */

import type { components } from "./schema.js";

/** Why a request failed, as the service says it: a problem document of RFC 9457. */
export type Problem = components["schemas"]["Problem"];

export interface Particulars {
  retryAfter?: number | undefined;
  etag?: string | undefined;
  cause?: unknown;
}

/** A request failed; for most reasons there is a class of its own. */
export class StatewardError extends Error {
  /** The status of the answer; 0: there was none. */
  readonly status: number;
  /** The class of the service's own error, such as `StoreTooSlow`; "" if it has none. */
  readonly error: string;
  /** Whether it may have been carried out all the same. */
  readonly applied: "no" | "unknown";
  /** After how many seconds it is worth asking again, if the service says so. */
  readonly retryAfter: number | undefined;
  /** The version that is there now, after a conflict. */
  readonly etag: string | undefined;

  constructor(problem: Problem, { retryAfter, etag, cause }: Particulars = {}) {
    const { title = "", detail = "" } = problem;
    super(title && detail ? `${title}: ${detail}` : title || detail, cause ? { cause } : undefined);
    this.name = new.target.name;
    this.status = problem.status ?? 0;
    this.error = problem.error ?? "";
    this.applied = problem.applied ?? (this.status >= 500 || this.status === 0 ? "unknown" : "no");
    this.retryAfter = retryAfter;
    this.etag = etag;
  }
}

/** The service does not take that: correct the request. */
export class InvalidRequest extends StatewardError {}
/** A message, a document or the body has too many bytes. */
export class TooLarge extends InvalidRequest {}
/** No key, or none that is in force. */
export class Unauthorized extends StatewardError {}
/** The key does not permit this, or it belongs to somebody else. */
export class Forbidden extends StatewardError {}
/** There is nothing of that name, or nothing that this key may know of. */
export class NotFound extends StatewardError {}
/** Not in this state: the workflow has ended, for example. */
export class InvalidState extends StatewardError {}
/** The lease was lost: somebody else has the work in hand. Stop. */
export class Fenced extends InvalidState {}
/** That much of the past is not kept any more. */
export class Gone extends StatewardError {}
/** The conversation was deleted after this was begun; nothing was written. Do not try it again. */
export class ConversationDeleted extends Gone {}
/** The history is not the one that was followed, or what came next was removed: begin anew. */
export class Reset extends Gone {}
/** Another version is there; `etag` is which. Read it, decide again. */
export class Conflict extends StatewardError {}
/** Another replica of the service has this. */
export class WrongReplica extends StatewardError {}
/** The idempotency key was used for something else. */
export class KeyReused extends StatewardError {}
/** Somebody else holds the lease, for `retryAfter` seconds at most. */
export class Held extends StatewardError {}
/** The write must say which version it is for: pass `expect`. */
export class VersionRequired extends StatewardError {}
/** The key has asked too much; it may ask again after `retryAfter` seconds. */
export class TooManyRequests extends StatewardError {}
/** The service or its store does not answer. If `applied` is "no", nothing was done. */
export class Unavailable extends StatewardError {}
/** There was no answer within the time that the call was given. */
export class DeadlineExceeded extends Unavailable {}

type ErrorClass = new (problem: Problem, particulars?: Particulars) => StatewardError;

const BY_STATUS: Readonly<Record<number, ErrorClass>> = {
  400: InvalidRequest,
  401: Unauthorized,
  403: Forbidden,
  404: NotFound,
  405: InvalidRequest,
  408: Unavailable,
  409: InvalidState,
  410: Gone,
  412: Conflict,
  413: TooLarge,
  415: InvalidRequest,
  421: WrongReplica,
  422: KeyReused,
  423: Held,
  428: VersionRequired,
  429: TooManyRequests,
  502: Unavailable,
  503: Unavailable,
  504: Unavailable,
};
const BY_NAME: Readonly<Record<string, ErrorClass>> = {
  ConversationDeletedError: ConversationDeleted,
  LeaseLost: Fenced,
  Reset,
  Truncated: Reset,
};

/** The error of a problem document. */
export function errorOf(problem: Problem, particulars: Particulars = {}): StatewardError {
  const kind = BY_NAME[problem.error ?? ""] ?? BY_STATUS[problem.status ?? 0] ?? StatewardError;
  return new kind(problem, particulars);
}

/** The same error, of a request that was tried before: what became of that is not known. */
export function inDoubt(error: StatewardError): StatewardError {
  if (error.applied === "unknown") return error;
  return Object.defineProperty(error, "applied", { value: "unknown", enumerable: true });
}

/** The error that an answer says. What a proxy in between has written is not repeated. */
export async function errorOfResponse(response: Response): Promise<StatewardError> {
  const { status, headers } = response;
  const wait = headers.get("retry-after") ?? "";
  const seconds = /^\d+$/.test(wait) ? Number(wait) : (Date.parse(wait) - Date.now()) / 1000;
  const retryAfter = Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
  const particulars = { retryAfter, etag: headers.get("etag") ?? undefined };
  if (headers.get("content-type")?.startsWith("application/problem+json")) {
    const problem: unknown = await response.json().catch(() => undefined);
    if (typeof problem === "object" && problem !== null) {
      return errorOf({ ...(problem as Problem), status }, particulars);
    }
  }
  await response.body?.cancel();
  const moved = status === 0 || (status >= 300 && status < 400);
  const detail = moved
    ? "the URL leads elsewhere: use that of the service itself"
    : `status ${status}`;
  return errorOf({ title: "The answer is not the service's", detail, status }, particulars);
}

/** What is asked for, or null if there is nothing of that name. */
export async function orNull<T>(ask: () => Promise<T>): Promise<T | null> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof NotFound) return null;
    throw error;
  }
}
