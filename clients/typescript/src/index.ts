/** A client of Stateward's service, for Node and browsers. */

export { Client } from "./client.js";
export type { Call, Expect, Items, Json, Reply, Versioned, Whose, WriteOptions } from "./client.js";
export { DocumentHandle, Documents, User } from "./documents.js";
export type { Document } from "./documents.js";
export {
  Conflict,
  ConversationDeleted,
  DeadlineExceeded,
  Fenced,
  Forbidden,
  Gone,
  Held,
  InvalidRequest,
  InvalidState,
  KeyReused,
  NotFound,
  Reset,
  StatewardError,
  TooLarge,
  TooManyRequests,
  Unauthorized,
  Unavailable,
  VersionRequired,
  WrongReplica,
} from "./errors.js";
export type { Problem } from "./errors.js";
export type {
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
export type { components, operations, paths } from "./schema.js";
export type { Reading, ServerEvent, StreamOptions } from "./stream.js";
export { Thread } from "./thread.js";
export type { Appended, LiveAnswer, LiveEvent, MessageChange, Window } from "./thread.js";
export type { CallOptions, ClientOptions } from "./transport.js";
export { Journal, Task, Workflow } from "./work.js";
