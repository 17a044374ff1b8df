// Who holds the lock, since when, until when.

import { at, get, post } from "./api.js";
import { refine } from "./route.js";
import { Act, Choice, command, curl, Empty, html, Listing, Page, Pill, Table, Time, useList } from "./parts.js";

/** @param {{query: Record<string, string>}} props */
export function Leases({ query }) {
  const leaders = query.leaders === "true";
  const asked = leaders ? { leaders: true } : {};
  const list = useList((after) => get("locks", { ...asked, limit: 100, after }), [query]);
  const end = (row) => (row.until === null ? "free" : Date.parse(row.until) < Date.now() ? "expired" : "held");
  return html`<${Page} title="Leases" lead="Who holds a lock or leads a name. Whoever dies loses it when its time is over."
    copy=${[curl("locks", asked), command("lock", "list", "$STATEWARD_URL")]}>
    <div class="bar"><${Choice} label="What" value=${leaders ? "true" : ""} options=${[["", "Locks"], ["true", "Leaders"]]} onChange=${(value) => refine({ leaders: value })} /></div>
    <${Listing} list=${list} empty=${html`<${Empty} title=${leaders ? "Nobody leads anything" : "No locks"}><p>One appears when somebody takes it:</p><pre class="json" tabindex="0">async with store.lock("inventory") as lease: …</pre><//>`}>
      ${(items) => html`<${Table} label=${leaders ? "Leaders" : "Locks"} rows=${items} id=${(row) => row.name} columns=${[
        { head: "Name", class: "wide", cell: (row) => row.name },
        { head: "State", class: "tight", cell: (row) => html`<${Pill} of=${end(row)} tone=${{ held: "calm", expired: "warn", free: "faint" }[end(row)]} />` },
        { head: "Holder", cell: (row) => row.holder ?? html`<span class="faint">nobody</span>` },
        { head: "Token", class: "num", cell: (row) => row.token },
        { head: "Since", class: "when", cell: (row) => html`<${Time} at=${row.granted_at} />` },
        { head: "Until", class: "when", cell: (row) => html`<${Time} at=${row.until} />` },
        { head: "Act", class: "tight", cell: (row) => row.token !== null && end(row) !== "free" && html`<${Act} small danger label="Break" title=${`Break the lease of ${row.name}`} typed=${row.name} typedWhat="its name" act=${() => post(at`locks/${row.name}/break`, { token: row.token, leader: leaders })}>
          <p><b>${row.holder}</b> loses it. The token grows, so that what it still writes under the old one is refused.</p><//>` },
      ]} />`}<//>
  <//>`;
}
