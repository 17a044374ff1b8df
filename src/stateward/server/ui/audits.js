// Is it fit for production? The reports that were kept, and what changed.

import { at, download, get } from "./api.js";
import { to } from "./route.js";
import { Code, command, curl, Empty, Facts, Fold, html, Json, Listing, Page, Pill, Read, Table, Time, useList, useRead,
	when } from "./parts.js";
import { count, span } from "./words.js";

export const Audits = ({ path }) => (path[1] ? html`<${Audit} id=${path[1]} />` : html`<${All} />`);

function All() {
	const list = useList((after) => get("audits", { limit: 50, after }), []);
	return html`<${Page} title="Audit" lead="Is it fit for production? The reports stored here, the newest first."
		copy=${[curl("audits"), command("audit", "$STATEWARD_URL", "--keep")]}>
		<${Listing} list=${list}
			empty=${html`<${Empty} title="No report is kept yet">
				<p>An audit attacks a store the way production will: crashes, races, outages, growth. With <code>--keep</code> its
					report stays here, to be compared with the next one.</p>
			<${Code}>stateward audit "$STATEWARD_URL" --keep<//><//>`}>
			${(items) => html`<${Table} label="Audits" rows=${items} id=${(row) => row.id} columns=${[
				["Audit", "wide",
					(row) => html`<div><a href=${to(["audits", row.id])}>${row.title}</a>
						<div class="faint">${row.sentence}</div></div>`],
				["Verdict", "tight", (row) => html`<${Pill} of=${row.verdict} />`],
				["Answers", "tight",
					(row) => Object.entries(row.answers).map(([verdict, many]) => html`<div>${many} ${verdict}</div>`)],
				["Profile", "", (row) => row.profile],
				["Took", "num", (row) => span(row.seconds)],
				when("Kept", "kept_at"),
			]} />`}<//>
	<//>`;
}

function Audit({ id }) {
	const read = useRead(() => get(at`audits/${id}`), [id]);
	const info = read.data?.info;
	return html`<${Page} title=${info?.title ?? id} name=${`Audit ${info?.title ?? id}`} lead=${info?.sentence}
		copy=${[curl(at`audits/${id}`)]}
		actions=${info &&
			html`<button onClick=${() => download(at`audits/${id}/report`, `audit-${id}.html`)}>Download the full report
				</button>`}>
		<${Read} of=${read}>${(data) => html`
			<div class="panel">
				<${Facts} items=${[["Verdict", html`<${Pill} of=${data.info.verdict} />`],
					["Target", html`<span class="mono">${data.info.target}</span>`], ["Profile", data.info.profile],
					["Seed", data.info.seed], ["Took", span(data.info.seconds)],
					["Kept", html`<${Time} at=${data.info.kept_at} />`]]} /></div>
			<div class="panel">
				<h2>What changed ${data.before &&
					html`<span class="faint">since <a href=${to(["audits", data.before.id])}><${Time} at=${data.before.kept_at} /></a>
						</span>`}</h2>
				${!data.changes ? html`<p class="faint">No earlier report of this target is kept.</p>`
					: data.changes.changes.length === 0 ? html`<p class="faint">Nothing.</p>`
					: html`<ul class="plain">
						${data.changes.changes.map((one) =>
							html`<li class="group">
								<${Pill} of=${one.direction}
								tone=${{ worse: "bad", better: "good" }[/** @type {string} */ (one.direction)] ?? "faint"} /> <b>${one.where}
								</b> ${one.what} <span class="faint">${one.before} → ${one.after}</span></li>`)}</ul>`}</div>
			<div class="panel"><h2>Answers <span class="faint">${count(data.report.answers.length, "question")}</span></h2>
				${data.report.answers.map((one) =>
					html`<${Fold} summary=${html`<span>${one.question}</span><${Pill} of=${one.verdict} />`}>
					<div class="stack"><p>${one.summary}</p>${one.means && html`<p class="faint">${one.means}</p>`}
						${one.remedy && html`<p><b>What to do:</b> ${one.remedy}</p>`}
					${one.counter_example && html`<${Json} value=${one.counter_example} />`}
						${one.reproduce && html`<${Code}>${one.reproduce}<//>`}</div><//>`)}</div>`}<//>
	<//>`;
}
