// What the processes that have the store open measured, over time.

import { useState } from "./vendor/preact-hooks.js";
import { get, lacks, session } from "./api.js";
import { refine, to } from "./route.js";
import { Choice, command, curl, Empty, html, Page, Read, Table, Time, useRead, when } from "./parts.js";
import { placeOf } from "./find.js";
import { Chart } from "./chart.js";
import { bytes, clock, count, millis, number, span } from "./words.js";

const SINCE = [["900", "15 min"], ["3600", "1 h"], ["21600", "6 h"], ["86400", "1 day"]];
const CHARTS = [
	["Lookups", "how long they took", millis, { lookup_p50: "p50", lookup_p95: "p95", lookup_p99: "p99" }],
	["Traffic", "in each step", number, { lookups: "lookups", writes: "writes" }],
	["Failures", "and what callers were spared", number,
		{ failures: "failed", suppressed: "suppressed", breakers_open: "breakers open" }],
	["Conflicts", "concurrent changes", number, { conflicts: "conflicts", fenced: "fenced", went_back: "went back" }],
	["Turns", "that waited, came late or were lost", number,
		{ kept: "waiting", late: "late", dropped: "dropped", lost: "lost" }],
	["Context breaks", "an agent forgot", number, { context_breaks: "context breaks" }],
	["Storage", "size of the store", bytes, { storage_bytes: "size" }],
];
/** What is told of, and how it is called: one, and several. @type {Record<string, [string, string?]>} */
const TOLD = {
	failures: ["failure"], suppressed: ["suppressed", "suppressed"], dropped: ["dropped", "dropped"],
		lost: ["lost", "lost"], late: ["late", "late"],
	conflicts: ["conflict"], fenced: ["fenced", "fenced"], went_back: ["went back", "went back"],
		context_breaks: ["context break"],
};

export function Signals({ query }) {
	const since = query.since ?? "3600";
	const [chosen, setChosen] = useState(null);
	const read = useRead(() => get("signals", { since }), [since], { every: 15 });
	return html`<${Page} title="Signals"
		lead=${"Were turns lost, late or in conflict? Did an agent forget? "
			+ "Click a point to see which conversations were affected."}
		copy=${[curl("signals", { since }), command("inspect", "$STATEWARD_URL")]}>
		<div class="bar">
				<${Choice} label="How far back" value=${since} options=${SINCE} onChange=${(value) => refine({ since: value })} />
			</div>
		<${Read} of=${read}>${(data) => data.points.length === 0
			? html`<${Empty} title="No measurements in this time">
				<p>Every process that opens the store reports its state every few seconds, unless it was opened
					with <code>heartbeat=None</code>. Open one, or look further back.</p><//>`
			: html`<${Concerned} point=${chosen ?? data.total} title=${chosen ? clock(chosen.at) : "All of this time"}
				onAll=${chosen && (() => setChosen(null))} />
				<div class="halves">
					${CHARTS.map(([title, about, unit, series]) =>
						html`<div class="panel"><h2>${title} <span class="faint">${about}</span></h2>
					<${Chart} title=${title} points=${data.points} from=${Date.parse(data.since)} until=${Date.parse(data.until)}
						step=${data.step * 1000} series=${series} unit=${unit} onChoose=${setChosen} /></div>`)}</div>`}<//>
		${!lacks("operate", true) && session.permits?.namespaces === null && html`<${Refused} />`}
	<//>`;
}

/** What this process of the service has refused: who tries keys, or more than a key may. */
function Refused() {
	const read = useRead(() => get("refusals"), [], { every: 15 });
	return html`<div class="panel"><h2>Refused requests <span class="faint">at this process of the service</span></h2>
		<${Read} of=${read}>${(data) => html`
			<p>${count(data.answers["401"], "request")} without a good key (401), ${data.answers["403"]} for what the key
				may not (403), ${data.answers["429"]} over a limit (429), ${data.ended_keys} with a key that has ended;
				${count(data.new_addresses, "new address", "new addresses")} of keys,
				since <${Time} at=${data.since} />. <a href=${to(["keys"])}>When each key was last used</a>.</p>
			${data.latest.length > 0 && html`<${Table} label="Refused requests" rows=${data.latest}
				id=${(row) => `${row.at} ${row.key} ${row.path}`} columns=${[
					when("At", "at"), ["Answer", "tight", (row) => row.answer],
					["Key", "", (row) => html`<span class="mono">${row.key}</span>`],
					["Address", "", (row) => html`<span class="mono">${row.address}</span>`],
					["Request", "wide", (row) => html`<span class="mono">${row.method} ${row.path}</span>`],
				]} />`}`}<//></div>`;
}

/** Whom what happened happened to. */
export function Concerned({ point, title, onAll }) {
	const names = Object.keys(TOLD).filter((name) => point[name] > 0);
	return html`<div class="panel">
		<h2>${title} <span class="faint">${span(point.seconds)}, ${count(point.replicas ?? 0, "process", "processes")}
			</span> ${onAll && html`<button class="link" onClick=${onAll}>all of it</button>`}</h2>
		${names.length === 0 ? html`<p class="faint">Nothing failed, nothing was late, no context was lost.</p>`
			: html`<ul class="plain">
				${names.map((name) =>
					html`<li><b>${count(point[name], ...TOLD[name])}
						</b> ${(point.concerned?.[name] ?? [])
						.map((one) =>
						html` <a class="label" href=${placeOf(one.kind, one.id) ?? to(["find"], { q: one.id })}>${one.kind} ${one.id}
						</a>`)}</li>`)}</ul>`}</div>`;
}
