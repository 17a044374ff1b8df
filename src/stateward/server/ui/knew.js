// What an agent was given when it said a turn.

import { at, get } from "./api.js";
import { to } from "./route.js";
import { Empty, Failure, Fold, html, Json, Loading, Pill, useRead } from "./parts.js";
import { count, exact } from "./words.js";

/** @param {{thread: string, version: number, entry: any, onClose: () => void}} props */
export function Knew({ thread, version, entry, onClose }) {
  const read = useRead(() => get(at`threads/${thread}/knew`, { at: version }), [thread, version]);
  return html`<aside class="panel stack" aria-label="What it knew">
    <div class="bar"><h2>Message ${version}</h2><span class="push"><button class="small" onClick=${onClose}>Close</button></span></div>
    ${entry && html`<p class="faint">${exact(entry.at)}</p>${entry.key && html`<p class="faint">key <span class="mono">${entry.key}</span></p>`}`}
    ${read.loading && html`<${Loading} />`}
    ${read.error && (read.error.status === 404 || read.error.status === 410
      ? html`<${Empty} title="No receipt was kept with this turn"><p>${read.error.message}</p><p>What an agent knew is kept if the turn says what it saw:</p><pre class="json" tabindex="0">await thread.append(*messages, saw=context)</pre><//>`
      : html`<${Failure} error=${read.error} />`)}
    ${entry && html`<${Fold} summary="The message as it is stored"><${Json} value=${entry.message} /><//>`}
  </aside>`;
}
