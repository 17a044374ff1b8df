// Keys: who may ask, what, and until when.

import { at, get, post } from "./api.js";
import { Act, command, curl, Empty, html, Listing, Page, Pill, Table, Time, useList } from "./parts.js";

export function Keys() {
  const list = useList((after) => get("keys", { limit: 100, after }), []);
  return html`<${Page} title="Keys" lead="Who may ask the service, what, and until when. A key itself is shown once, when it is made." copy=${[curl("keys"), command("key", "list", "$STATEWARD_URL")]}>
    <${Listing} list=${list} empty=${html`<${Empty} title="No keys"><p>A key is made on the command line, and shown once:</p><pre class="json" tabindex="0">stateward key create "$STATEWARD_URL" --scope write</pre><//>`}>
      ${(items) => html`<${Table} label="Keys" rows=${items} id=${(row) => row.id} columns=${[
        { head: "Key", class: "wide", cell: (row) => html`<div><span class="mono">sw.${row.id}.…</span>${row.note && html`<div class="faint">${row.note}</div>`}</div>` },
        { head: "Scope", class: "tight", cell: (row) => row.scope },
      ]} />`}<//>
  <//>`;
}
