/** Made by tools/typescript.py from docs/reference/openapi.json. */

import type { components } from "./schema.js";

/** What a stream tells. */
export interface StreamEvents {
  "GET /v1/changes": components["schemas"]["EntityChange"];
  "GET /v1/journals/{journal}/changes": components["schemas"]["MessageEvent"];
  "GET /v1/threads/{thread}/changes": components["schemas"]["MessageEvent"];
  "GET /v1/threads/{thread}/live": components["schemas"]["LiveData"];
}

/** The routes that take an idempotency key. */
export const TAKE_KEYS: ReadonlySet<string> = new Set([
  "POST /v1/conversations",
  "POST /v1/conversations/{conversation}/items",
  "POST /v1/journals/{journal}/events",
  "POST /v1/threads/{thread}/messages",
  "POST /v1/workflows/{workflow}/signals/{signal}"
]);

/** The format of a body that is not plain JSON. */
export const MEDIA_TYPES: Readonly<Record<string, string>> = {
  "PATCH /v1/shared/{shared}/documents/{name}": "application/merge-patch+json",
  "PATCH /v1/users/{user}/documents/{name}": "application/merge-patch+json"
};
