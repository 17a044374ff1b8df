// Does it fill up?

import { get } from "./api.js";
import { command, curl, Empty, Facts, html, Page, Read, Table, useRead } from "./parts.js";
import { ThreadTable } from "./threads.js";
import { bytes, number } from "./words.js";

export function Storage() {
	const read = useRead(() => get("storage"), []);
	const largest = useRead(() => get("storage/largest", { limit: 10 }), []);
	return html`<${Page} title="Storage" lead="How much there is, of what, and how much room is left." copy=${[curl("storage"), command("inspect", "$STATEWARD_URL")]}>
		<${Read} of=${read}>${(told) => html`${told.engine ? html`<${Room} store=${told} />` : html`<div class="note"><p>How large the whole store is, a key for every namespace is told.</p></div>`}
			<div class="panel"><h2>By kind</h2><${Kinds} counts=${told.kinds} /></div>`}<//>
		<div class="panel"><h2>Longest conversations <span class="faint">of the thousand that were touched last</span></h2>
			<${Read} of=${largest}>${(told) => told.items.length ? html`<${ThreadTable} rows=${told.items} label="Longest conversations" />` : html`<${Empty} title="None yet" />`}<//></div>
	<//>`;
}

function Room({ store }) {
	const share = store.capacity && store.bytes !== null ? store.bytes / store.capacity : null;
	return html`<div class="panel"><h2>${store.engine}</h2>
		<${Facts} items=${[["Size", bytes(store.bytes)], ["Room", store.capacity ? `${bytes(store.capacity)} in all` : "not limited by the store"],
			["Used", share === null ? "–" : `${(share * 100).toFixed(1)} %`], ["Rows, estimated", number(store.rows)]]} />
		${share !== null && html`<progress max="1" value=${share} aria-label="Used">${share}</progress>`}</div>`;
}

function Kinds({ counts }) {
	const rows = Object.entries(counts).filter(([, many]) => many).sort((one, other) => other[1] - one[1]);
	const most = rows[0]?.[1] ?? 1;
	if (!rows.length) return html`<${Empty} title="The namespace is empty"><p>What agents keep is counted here by kind, as soon as there is any.</p><//>`;
	return html`<${Table} label="By kind" rows=${rows} id=${(row) => row[0]} columns=${[
		["Kind", "tight", (row) => row[0]], ["How many", "num tight", (row) => number(row[1])],
		["", "", (row) => html`<meter max=${most} value=${row[1]} aria-label=${`${row[0]}: ${row[1]}`}></meter>`],
	]} />`;
}
