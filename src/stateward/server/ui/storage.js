// Does it fill up?

import { get } from "./api.js";
import { command, curl, Empty, Facts, html, Page, Read, Table, useRead } from "./parts.js";
import { ThreadTable } from "./threads.js";
import { Chart } from "./chart.js";
import { bytes, count, number, span } from "./words.js";

const DAY = 86_400;

export function Storage() {
	const read = useRead(() => get("storage"), []);
	const largest = useRead(() => get("storage/largest", { limit: 10 }), []);
	const grown = useRead(() => get("signals", { since: DAY }), []);
	return html`<${Page} title="Storage" lead="How much is stored, of which kind, and how much space is left."
		copy=${[curl("storage"), command("inspect", "$STATEWARD_URL")]}>
		<${Read} of=${read}>${(told) => html`${told.engine ? html`<${Room} store=${told} />
				<div class="panel"><h2>Growth <span class="faint">in the last day</span></h2>
						<${Read} of=${grown}>${(signals) => html`<${Growth} store=${told} signals=${signals} />`}<//></div>`
					: html`<div class="note"><p>How large the whole store is, a key for every namespace is told.</p></div>`}
			<div class="panel"><h2>By kind</h2><${Kinds} counts=${told.kinds} /></div>`}<//>
		<div class="panel"><h2>Longest conversations <span class="faint">of the thousand that were touched last</span></h2>
			<${Read} of=${largest}>
				${(told) => told.items.length ? html`<${ThreadTable} rows=${told.items} label="Longest conversations" />`
					: html`<${Empty} title="None yet" />`}<//></div>
	<//>`;
}

/** How fast it grew while it was measured, in bytes a day; null: not for long enough to tell.
 * @param {{at: string, storage_bytes: number | null}[]} points */
function pace(points) {
	const [first, last] = [points[0], points[points.length - 1]];
	const seconds = first ? (Date.parse(last.at) - Date.parse(first.at)) / 1000 : 0;
	return seconds < 1800 ? null : (((last.storage_bytes ?? 0) - (first.storage_bytes ?? 0)) / seconds) * DAY;
}

const full = (days) => (days < 2 ? `in ${span(days * DAY)}` : days < 730 ? `in ${count(Math.floor(days), "day")}`
	: days < 36_500 ? `in ${count(Math.floor(days / 365), "year")}` : "not in a century");

function Room({ store }) {
	const share = store.capacity && store.bytes !== null ? store.bytes / store.capacity : null;
	return html`<div class="panel"><h2>${store.engine}</h2>
		<${Facts} items=${[["Size", bytes(store.bytes)],
			["Room", store.capacity ? `${bytes(store.capacity)} in all` : "not limited by the store"],
			["Used", share === null ? "–" : share < 0.001 ? "less than 0.1 %" : `${(share * 100).toFixed(1)} %`],
				["Rows, estimated", number(store.rows)]]} />
		${share !== null && html`<progress max="1" value=${share} aria-label="Used">${share}</progress>`}</div>`;
}

function Growth({ store, signals }) {
	const points = signals.points.filter((point) => point.storage_bytes !== null);
	const daily = pace(points);
	if (daily === null)
		return html`<p class="faint">Processes that have the store open measure its size. When they have done so for half an
			hour, it stands here.</p>`;
	const left = store.capacity && store.bytes !== null ? store.capacity - store.bytes : null;
	return html`<${Facts}
		items=${[["It grew by", `${bytes(Math.max(0, daily))} a day`],
			["Full, at this pace", left === null ? "–" : daily > 0 ? full(left / daily) : "never"]]} />
		<${Chart} title="Size of the store" points=${points} from=${Date.parse(signals.since)}
			until=${Date.parse(signals.until)} step=${signals.step * 1000} series=${{ storage_bytes: "size" }}
			unit=${bytes} />`;
}

function Kinds({ counts }) {
	const rows = Object.entries(counts).filter(([, many]) => many).sort((one, other) => other[1] - one[1]);
	const most = rows[0]?.[1] ?? 1;
	if (!rows.length)
		return html`<${Empty} title="The namespace is empty">
			<p>What agents keep is counted here by kind, as soon as there is any.</p><//>`;
	return html`<${Table} label="By kind" rows=${rows} id=${(row) => row[0]} columns=${[
		["Kind", "tight", (row) => row[0]], ["How many", "num tight", (row) => number(row[1])],
		["", "", (row) => html`<meter max=${most} value=${row[1]} aria-label=${`${row[0]}: ${row[1]}`}></meter>`],
	]} />`;
}
