// Does it fill up?

import { get } from "./api.js";
import { command, curl, Empty, Facts, html, Page, Read, Table, useRead } from "./parts.js";
import { bytes, number } from "./words.js";

export function Storage() {
  const facts = useRead(() => get("store"), []);
  const counts = useRead(() => get("storage"), []);
  return html`<${Page} title="Storage" lead="How much there is, of what, and how much room is left." copy=${[curl("storage"), command("inspect", "$STATEWARD_URL")]}>
    <${Read} of=${facts}>${(told) => html`<${Room} store=${told.store ?? told.description ?? told} />`}<//>
    <div class="panel"><h2>By kind</h2><${Read} of=${counts}>${(told) => html`<${Kinds} counts=${told} />`}<//></div>
  <//>`;
}

/** @param {{store: any}} props */
function Room({ store }) {
  const share = store.capacity && store.bytes !== null ? store.bytes / store.capacity : null;
  return html`<div class="panel"><h2>${store.engine} <span class="faint">${store.version}, schema ${store.schema}</span></h2>
    <${Facts} items=${[["Size", bytes(store.bytes)], ["Room", store.capacity ? `${bytes(store.capacity)} in all` : "not limited by the store"],
      ["Used", share === null ? "–" : `${(share * 100).toFixed(1)} %`], ["Rows, estimated", number(store.rows)]]} />
    ${share !== null && html`<progress max="1" value=${share} aria-label="Used">${share}</progress>`}
    <p class="faint">${store.durability}</p></div>`;
}

/** @param {{counts: Record<string, number>}} props */
function Kinds({ counts }) {
  const rows = Object.entries(counts).filter(([, many]) => many).sort((one, other) => other[1] - one[1]);
  const most = rows[0]?.[1] ?? 1;
  if (!rows.length) return html`<${Empty} title="The namespace is empty"><p>What agents keep is counted here by kind, as soon as there is any.</p><//>`;
  return html`<${Table} label="By kind" rows=${rows} id=${(row) => row[0]} columns=${[
    { head: "Kind", class: "tight", cell: (row) => row[0] },
    { head: "How many", class: "num", cell: (row) => number(row[1]) },
    { head: "", class: "wide", cell: (row) => html`<meter max=${most} value=${row[1]} aria-label=${`${row[0]}: ${row[1]}`}></meter>` },
  ]} />`;
}
