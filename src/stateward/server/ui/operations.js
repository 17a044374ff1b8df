// What was done by hand, by whom.

import { get } from "./api.js";
import { command, curl, Empty, html, Listing, Page, Pill, Table, Time, useList } from "./parts.js";
import { line } from "./words.js";

export function Operations() {
  const list = useList((after) => get("operations-log", { limit: 50, after }), []);
  return html`<${Page} title="Operations log" lead="What was done by hand, by whom, and how it ended. Each entry has the hash of the one before it."
    copy=${[curl("operations-log"), command("operations", "verify", "$STATEWARD_URL")]}>
    <${Listing} list=${list} empty=${html`<${Empty} title="Nothing was done by hand"><p>Whatever an operator changes, here or on the command line, stands here before it is done.</p><//>`}>
      ${(items) => html`<${Table} label="Operations log" rows=${items} id=${(row) => String(row.number)} columns=${[
        { head: "#", class: "num", cell: (row) => row.number },
        { head: "When", class: "when", cell: (row) => html`<${Time} at=${row.at} />` },
        { head: "Who", cell: (row) => row.who },
        { head: "What", class: "tight", cell: (row) => row.what },
        { head: "To what", class: "wide", cell: (row) => html`<span class="mono">${row.target}</span>` },
        { head: "Outcome", class: "tight", cell: (row) => html`<span class="group"><${Pill} of=${row.outcome} />${row.of !== null && html`<span class="faint">of #${row.of}</span>`}</span>` },
        { head: "Detail", class: "clip", cell: (row) => Object.keys(row.detail).length > 0 && html`<span class="mono">${line(row.detail)}</span>` },
      ]} />`}<//>
  <//>`;
}
