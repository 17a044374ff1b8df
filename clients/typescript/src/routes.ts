/** What can be asked, as types that are made from the table of routes. A new route needs nothing here. */

import type { components, paths } from "./schema.js";
import type { StreamEvents } from "./traits.js";

type Method = "get" | "put" | "post" | "delete" | "patch";

/** Every route of the service, such as "POST /v1/threads/{thread}/messages". */
export type Route = {
  [P in keyof paths & string]: {
    [M in Method]: [Exclude<paths[P][M], undefined>] extends [never]
      ? never
      : `${Uppercase<M>} ${P}`;
  }[Method];
}[keyof paths & string];

export type Operation<R extends Route> =
  R extends `${infer M} ${infer P extends keyof paths & string}`
    ? Lowercase<M> extends infer K extends keyof paths[P]
      ? Exclude<paths[P][K], undefined>
      : never
    : never;

type Parameters<O, K extends "path" | "query"> = O extends { parameters: infer P }
  ? K extends keyof P
    ? Exclude<P[K], undefined>
    : never
  : never;

type Content<B> = B extends { content: infer C } ? C[keyof C] : never;
type BodyOf<O> = O extends { requestBody?: infer B } ? Content<Exclude<B, undefined>> : never;
type BodyRequired<O> = O extends { requestBody: { content: unknown } } ? true : false;

/** `{ name: T }`; not required if all of T may be left out, and not there if T is never. */
type Part<K extends string, T, Required = object extends T ? false : true> = [T] extends [never]
  ? unknown
  : Required extends true
    ? { [N in K]: T }
    : { [N in K]?: T | undefined };

/** What may be left out may be undefined, too. */
type Lenient<T> = [T] extends [never]
  ? never
  : { [K in keyof T]: T[K] | (object extends Pick<T, K> ? undefined : never) };

export type PathOf<R extends Route> = Parameters<Operation<R>, "path">;
export type QueryOf<R extends Route> = Lenient<Parameters<Operation<R>, "query">>;

/** What a route takes. */
export type Asked<R extends Route> = Part<"path", PathOf<R>> &
  Part<"query", QueryOf<R>> &
  Part<"body", BodyOf<Operation<R>>, BodyRequired<Operation<R>>>;

type Responses<O> = O extends { responses: infer S } ? S : never;
type Success<S> = { [K in keyof S & (200 | 201 | 202)]: Content<S[K]> }[keyof S &
  (200 | 201 | 202)];

/** What a route answers; undefined if it answers nothing. */
export type Answer<R extends Route> = [Success<Responses<Operation<R>>>] extends [never]
  ? undefined
  : Success<Responses<Operation<R>>>;

type Giving<T> = { [R in Route]: Answer<R> extends T ? R : never }[Route];

/** The routes that answer a page of a list. */
export type ListRoute = Giving<{ items: unknown[]; next: string | null }>;
export type ItemOf<R extends Route> = Answer<R> extends { items: (infer T)[] } ? T : never;

/** The routes that answer a stream of events. */
export type StreamRoute = Route & keyof StreamEvents;
export type EventOf<R extends StreamRoute> = StreamEvents[R];

export type Schemas = components["schemas"];
