// Is it us or the store? Since when? Who is affected?

import { get } from "./api.js";
import { to } from "./route.js";
import { command, curl, Empty, Failure, html, Page, Pill, Table, Time, useRead } from "./parts.js";
import { count, millis, number } from "./words.js";

export function Now() {
  const read = useRead(async () => {
    const began = performance.now();
    const store = await get("store");
    return { store: store.description, took: (performance.now() - began) / 1000 };
  }, [], { every: 5 });
  const threads = useRead(() => get("threads", { limit: 8 }), [], { every: 5 });
  const waiting = useRead(() => get("waiting", { limit: 100 }), [], { every: 15 });
  const failed = useRead(() => get("workflows", { status: "failed", limit: 100 }), [], { every: 15 });
  const unknown = useRead(() => get("effects", { status: "unknown", limit: 100 }), [], { every: 15 });
  return html`<${Page} title="Now" lead="Is it us, or the store? Since when, and who is affected?" copy=${[curl("store"), command("health", "$STATEWARD_URL")]}>
    ${read.error && html`<${Failure} error=${read.error} />`}
    ${read.data && html`<div class="panel verdict good"><div><h2>The store answers</h2><p class="faint">${read.data.store.engine} ${read.data.store.version}, in ${millis(read.data.took)}, the way to this browser included. ${read.data.store.durability}</p></div></div>`}
    <div class="tiles">
      <${Many} name="Questions open" of=${waiting} href=${to(["work", "waiting"])} tone="warn" />
      <${Many} name="Workflows failed" of=${failed} href=${to(["work", "workflows"], { status: "failed" })} tone="bad" />
      <${Many} name="Effects unknown" of=${unknown} href=${to(["work", "effects"], { status: "unknown" })} tone="bad" />
    </div>
  <//>`;
}

/** @param {{name: string, of: any, href: string, tone: string}} props */
function Many({ name, of, href, tone }) {
  const items = of.data?.items;
  const many = items?.length ?? 0;
  return html`<a class=${`tile ${many ? tone : ""}`} href=${href}><span>${name}</span><b>${items ? `${number(many)}${of.data.next || many === 100 ? "+" : ""}` : "–"}</b></a>`;
}
