// One workflow: where it stands, what it waits for, and what can be done about it.

import { answer, at, get, post } from "./api.js";
import { go, to } from "./route.js";
import { Act, command, curl, Empty, Facts, html, Json, Long, Page, Pill, Read, status, Table, Time, useRead,
	when } from "./parts.js";
import { line } from "./words.js";
import { spoken, Waits } from "./work.js";

export function WorkflowPage({ path: [, , id] }) {
	const place = at`workflows/${id}`;
	const read = useRead(() => get(place), [id], { every: 10 });
	const records = useRead(() => get(`${place}/records`, { limit: 50 }), [id], { every: 10 });
	const effects = useRead(() => get("effects", { of_workflow: id, limit: 50 }), [id]);
	const info = read.data;
	const ended = info && info.status !== "active";
	return html`<${Page} title=${id} name=${`Workflow ${id}`}
		lead=${info && html`A workflow of kind <b>${info.kind}</b>
			${info.user && html` for <a href=${to(["users", info.user])}>${info.user}</a>`}`}
		copy=${[curl(place), command("workflow", "show", "$STATEWARD_URL", id)]}
		actions=${info && html`
			${!ended &&
				html`<${Act} needs="write" label="Signal" title="Tell it what it waits for"
					fields=${[{ name: "signal", label: "Signal", value: info.waits.find((one) => one.what === "signal")?.name ?? "",
						required: true }, { name: "value", label: "Value (JSON, or words)", value: '{"granted": true}', required: true }]}
				act=${(given) => post(`${place}/signals/${encodeURIComponent(given.signal)}`, { value: spoken(given.value) })}
					done=${() => "Sent. The next worker continues the workflow."} />`}
			${ended && info.status !== "completed" &&
				html`<${Act} label="Retry" title="Go on where it stands" act=${() => post(`${place}/retry`)}>
					<p>Finished steps are not run again.</p><//>`}
			<${Act} label="Fork" title="Begin another one before a step"
				fields=${[{ name: "to", label: "Id of the new workflow", value: `${id}-again`, required: true },
					{ name: "at_step", label: "The step that it stands before", value: info.failed_step ?? info.step ?? "",
						required: true }]}
				act=${async (given) => { await post(`${place}/fork`, given); go(["work", "workflow", given.to]); }}>
					<p>The new one has all that was recorded before that step. This one stays as it is.</p><//>
			${ended &&
				html`<${Act} danger label="Forget" title="Forget this workflow" typed=${id} typedWhat="its id"
					act=${async () => { await answer(place, { method: "DELETE" }); go(["work", "workflows"]); }}>
					<p>It is removed with all that it recorded.</p><//>`}
			${!ended &&
				html`<${Act} danger label="Cancel" title="Cancel this workflow" typed=${id} typedWhat="its id"
					fields=${[{ name: "reason", label: "Reason, shown to later readers" }]}
					act=${(given) => post(`${place}/cancel`, { reason: given.reason })}>
					<p>It ends, and so do its children. What is done stays done.</p><//>`}`}>
		<${Read} of=${read}>${(told) => html`
			<div class="panel"><${Facts} items=${[
				["Status", html`<${Pill} of=${told.status} />`], ["Step", told.step ?? "–"],
					["Last touched", html`<${Time} at=${told.updated_at} />`],
				["Driven by", told.driver ?? html`<span class="faint">not running</span>`],
					["Attempts of the step", told.attempt || "–"],
			]} /></div>
			${told.error &&
				html`<div class="note bad"><strong>${told.status === "cancelled" ? "Cancelled" : "It failed"}</strong>
					<p>${told.error}</p></div>`}
			${told.last_error && told.last_error !== told.error &&
				html`<div class="note warn"><strong>The step ${told.failed_step} failed, and it went on</strong>
					<p>${told.last_error}</p></div>`}
			<div class="panel"><h2>Waits for</h2>
				${told.waits.length ? html`<${Waits} waits=${told.waits} />`
					: html`<p class="faint">Nothing: it has ended, or is running.</p>`}</div>
			${Object.keys(told.state ?? {}).length > 0 &&
				html`<div class="panel"><h2>State</h2><${Json} value=${told.state} /></div>`}`}<//>
		<div class="panel">
			<h2>Recorded <span class="faint">the last 50, oldest first: what is here is never run again</span></h2>
			<${Read} of=${records}>
				${(data) => data.items.length
					? html`<${Table} label="Recorded" rows=${data.items} id=${(row) => String(row.number)} columns=${[
			["#", "num tight", (row) => row.number], ["What", "tight", (row) => row.what],
				["Name", "tight", (row) => row.name && html`<b>${line(row.name)}</b>`],
			["Value", "", (row) => row.value !== null && html`<${Long} text=${line(row.value)} most=${200} />`],
				when("When", "at"),
		]} />` : html`<${Empty} title="Nothing yet"><p>Steps, signals and waits appear as it runs.</p><//>`}<//></div>
		<div class="panel"><h2>Effects <span class="faint">what its tools did</span></h2>
			<${Read} of=${effects}>
				${(data) => data.items.length ? html`<${Table} label="Effects" rows=${data.items} id=${(row) => row.id} columns=${[
			["Tool", "", (row) => row.name], ["Call", "", (row) => html`<span class="mono">${row.call}</span>`],
			status, ["Error", "", (row) => row.error],
			when("Since", "updated_at"),
		]} />` : html`<${Empty} title="None"><p>No tool acted for it.</p><//>`}<//></div>
	<//>`;
}
