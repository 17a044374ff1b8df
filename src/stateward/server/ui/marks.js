// What is marked in a transcript: late turns, summaries, lost context.

import { html } from "./parts.js";
import { count } from "./words.js";

/** @param {import("./transcript.js").Entry[]} entries @param {any} about @returns {Map<number, any[]>} */
export function marksOf(entries, about) {
  const marks = /** @type {Map<number, any[]>} */ (new Map());
  const put = (version, mark) => marks.set(version, [...(marks.get(version) ?? []), mark]);
  const summary = about?.summary;
  if (summary) {
    const after = entries.find((entry) => entry.version > summary.upto);
    if (after) put(after.version, html`<details class="mark calm"><summary>A summary stands for what is above, up to message ${summary.upto}</summary><div class="said">${summary.text}</div></details>`);
  }
  for (const turn of about?.late ?? []) {
    put(turn.first, html`<div class="mark">Stored late: ${count(turn.last - turn.first + 1, "message")} had to wait on the agent's machine while the store was away; it was written at ${turn.written}</div>`);
  }
  return marks;
}
