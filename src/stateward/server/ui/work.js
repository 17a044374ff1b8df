// Work: what waits for people, workflows, tasks, what tools did, and schedules.

import { useState } from "./vendor/preact-hooks.js";
import { at, get, post } from "./api.js";
import { go, refine, to } from "./route.js";
import { Act, Choice, Code, command, curl, each, Empty, Filter, Fold, html, Json, Listing, Page, Pill, status, Table,
	theUser, Time, Told, useList, when } from "./parts.js";
import { count, line } from "./words.js";

const TABS = /** @type {[string, string][]} */ ([["waiting", "Waiting"], ["workflows", "Workflows"], ["tasks", "Tasks"],
	["effects", "Effects"], ["schedules", "Schedules"]]);
const STATUS = /** @type {Record<string, [string, string][]>} */ ({
	workflows: [["", "All"], ["active", "Active"], ["failed", "Failed"], ["cancelled", "Cancelled"],
		["completed", "Completed"]],
	tasks: [["", "All"], ["pending", "Pending"], ["running", "Running"], ["failed", "Failed"], ["cancelled", "Cancelled"],
		["completed", "Completed"]],
	effects: [["", "All"], ["unknown", "Unknown"], ["failed", "Failed"], ["intended", "Intended"], ["done", "Done"]],
});
const CLI = /** @type {Record<string, string[]>} */ ({ waiting: ["waiting"], workflows: ["workflow", "list"],
	tasks: ["task", "list"], effects: ["effect", "list"], schedules: ["inspect"] });

export function Work({ path, query }) {
	const tab = TABS.some(([name]) => name === path[1]) ? path[1] : "waiting";
	const [chosen, setChosen] = useState(/** @type {Set<string>} */ (new Set()));
	const asked = { status: STATUS[tab] ? query.status : undefined, user: query.user, kind: tab === "workflows"
		? query.kind : undefined };
	const list = useList((after) => get(tab, { ...asked, limit: tab === "effects" ? 100 : 50, after }), [tab, query]);
	const View = { waiting: Waiting, workflows: Workflows, tasks: Tasks, effects: Effects,
		schedules: Schedules }[tab] ?? Waiting;
	const turn = (name) => go(["work", name], { status: "", kind: "" });
	const refined = (news) => {
		setChosen(new Set());
		refine(news);
	};
	return html`<${Page} title="Work" lead="What runs, what waits and for whom, what failed."
		copy=${[curl(tab, asked), command(...CLI[tab], "$STATEWARD_URL")]}>
		<div class="bar">
			<${Choice} label="What" value=${tab} options=${TABS} onChange=${turn} />
			${STATUS[tab] &&
				html`<${Choice} label="Status" value=${query.status ?? ""} options=${STATUS[tab]}
					onChange=${(status) => refined({ status })} />`}
		</div>
		<div class="bar">
			<${Filter} label="User" value=${query.user} placeholder="exactly this id" onChange=${(user) => refined({ user })} />
			${tab === "workflows" &&
				html`<${Filter} label="Kind" value=${query.kind} onChange=${(kind) => refined({ kind })} />`}
		</div>
		<${View} list=${list} chosen=${chosen} onChoose=${setChosen} />
	<//>`;
}

/** The same for several: their number is typed first.
 * @param {{verb: string, what: string, chosen: Set<string>,
 *   act: (id: string, given: Record<string, string>) => Promise<any>, danger?: boolean, reason?: boolean,
 *   children?: any}} props */
export function Several({ verb, what, chosen, act, danger, reason, children }) {
	const many = chosen.size > 1;
	const title = many ? `${verb} ${count(chosen.size, what)}` : `${verb} this ${what}`;
	return html`<${Act} label=${many ? `${verb} ${chosen.size}` : verb} title=${title} danger=${danger}
		disabled=${chosen.size === 0} typed=${many ? String(chosen.size) : undefined} typedWhat="their number"
		fields=${reason ? [{ name: "reason", label: "Reason, shown to later readers" }] : []}
		act=${(given) => each(chosen, (id) => act(id, given))} done=${(result) => html`<${Told} ...${result} />`}>
		${children}
			<ul class="plain mono">${[...chosen].slice(0, 8).map((id) => html`<li>${id}</li>`)}
				${chosen.size > 8 && html`<li>… and ${chosen.size - 8} more</li>`}</ul><//>`;
}

// --- what waits for people --------------------------------------------------------------

const isOverdue = (row) => row.until && Date.parse(row.until) < Date.now();

/** A question as one reads it: its words, or what it is about. @param {any} ask */
export function asked(ask) {
	if (ask === null || typeof ask !== "object" || Array.isArray(ask)) return line(ask);
	const parts = Object.entries(ask);
	const words = parts.length === 1 && ["text", "question", "message", "prompt"].includes(parts[0][0]);
	return words ? line(parts[0][1]) : parts.map(([name, value]) => `${name}: ${line(value)}`).join(", ");
}

/** A value for a workflow: JSON, or plain words. @param {string} text */
export function spoken(text) {
	try {
		return JSON.parse(text);
	} catch {
		return text;
	}
}

function Waiting({ list }) {
	return html`<${Listing} list=${list}
		empty=${html`<${Empty} title="No open questions">
			<p>Questions that workflows ask and wait for appear here, the oldest first: mostly approvals.</p>
			<${Code}>granted = await run.wait("approval", ask={"refund": 40}, for_="support")<//><//>`}>
		${(items) => html`<${Table} label="Open questions" rows=${items} id=${(row) => row.id} columns=${[
			["Asks", "wide",
				(row) => html`<div>${row.ask === null ? html`<span class="faint">no question was given</span>` : asked(row.ask)}
					<div class="faint">${row.signal} of <a href=${to(["work", "workflow", row.workflow])}>${row.workflow}</a>
					</div></div>`],
			["Kind", "", (row) => row.kind],
			["Whom", "", (row) => row.for_ ?? row.for ?? html`<span class="faint">anyone</span>`],
			theUser,
			when("Since", "asked_at"),
			["Until", "when",
				(row) => html`<span class="group"><${Time} at=${row.until} />
					${isOverdue(row) && html`<${Pill} of="overdue" />`}</span>`],
			["Answer", "tight",
				(row) => html`<span class="group"><${Reply} row=${row} label="Approve" value=${{ granted: true }} />
					<${Reply} row=${row} label="Refuse" value=${{ granted: false }} /></span>`],
		]} />`}<//>`;
}

const Reply = ({ row, label, value }) =>
	html`<${Act} needs="write" small label=${label} title=${`${label}: ${row.signal} of ${row.workflow}`}
		act=${(given) => post(at`waiting/${row.id}/answer`, { value: spoken(given.value) })}
		done=${(told) => (told.changed ? "Answered. The next worker continues the workflow."
			: "It was answered before: the first answer counts.")}
		fields=${[{ name: "value", label: "The answer that the workflow gets (JSON, or words)", value: JSON.stringify(value),
			required: true }]}>
		${row.ask !== null && html`<${Json} value=${row.ask} />`}<p>The first answer counts.</p><//>`;

// --- workflows ----------------------------------------------------------------------------

const WAITS = /** @type {Record<string, string>} */ ({ signal: "the signal", sleep: "the end of", child: "its child",
	driver: "a worker to take it up" });
export const Waits = ({ waits, before = "" }) =>
	waits.map((one) =>
		html`<div>${before}
			${WAITS[one.what] ?? one.what} <b>${one.name}</b> <span class="faint">· <${Time} at=${one.since} /></span></div>`);

function Workflows({ list, chosen, onChoose }) {
	return html`<${Listing} list=${list}
		empty=${html`<${Empty} title="No matching workflows">
			<p>Durable workflows appear when they are started; after a crash they continue where they stopped.</p>
			<${Code}>async with store.workflow("refund-991", kind="refund", user="u-42") as run: …<//><//>`}>
		${(items) => html`
			<div class="bar level">
				<${Several} verb="Retry" what="workflow" chosen=${chosen} act=${(id) => post(at`workflows/${id}/retry`)}>
					<p>Failed or cancelled ones go on with the step that they stand before.</p><//>
				<${Several} verb="Cancel" what="workflow" danger reason chosen=${chosen}
					act=${(id, given) => post(at`workflows/${id}/cancel`, { reason: given.reason })}>
					<p>They end, and so do their children. What is done stays done.</p><//>
				<span class="faint">${chosen.size ? `${chosen.size} chosen` : "Choose some to retry or cancel them."}</span></div>
			<${Table} label="Workflows" rows=${items} id=${(row) => row.id} chosen=${chosen} onChoose=${onChoose} columns=${[
			["Workflow", "wide", (row) => html`<a href=${to(["work", "workflow", row.id])}>${row.id}</a>`],
			["Kind", "", (row) => row.kind],
			theUser,
			status,
			["Where it stands", "",
				(row) => html`<div>${row.step && html`<div>${row.step}</div>`}<${Waits} before="waits for " waits=${row.waits} />
					${(row.error ?? row.last_error) && html`<div class="faint">${row.error ?? row.last_error}</div>`}</div>`],
			when("Last touched", "updated_at"),
		]} />`}<//>`;
}

// --- tasks --------------------------------------------------------------------------------

const isPast = (at) => at && Date.now() - Date.parse(at) > 60_000; // workers look every few seconds
const late = (row) => row.status === "pending" && isPast(row.due_at);

function Tasks({ list, chosen, onChoose }) {
	return html`<${Listing} list=${list}
		empty=${html`<${Empty} title="No task is like that"><p>Tasks run once, by whichever worker is free:</p>
			<${Code}>await store.enqueue("send-receipt", order="o-991")<//><//>`}>
		${(items) => html`
			<div class="bar level">
				<${Several} verb="Retry" what="task" chosen=${chosen} act=${(id) => post(at`tasks/${id}/retry`)}>
					<p>Failed or cancelled ones run again.</p><//>
				<${Several} verb="Cancel" what="task" danger reason chosen=${chosen}
					act=${(id, given) => post(at`tasks/${id}/cancel`, { reason: given.reason })}>
					<p>They never run, or have run in vain.</p><//>
				<span class="faint">${chosen.size ? `${chosen.size} chosen` : "Choose some to retry or cancel them."}</span></div>
			<${Table} label="Tasks" rows=${items} id=${(row) => row.id} chosen=${chosen} onChoose=${onChoose} columns=${[
			["Task", "wide", (row) => html`<div><b>${row.name}</b><div class="faint mono">${row.id}</div></div>`],
			theUser,
			["Status", "tight",
				(row) => html`<span class="group"><${Pill} of=${row.status} />
					${late(row) && html`<${Pill} of="overdue" />`}</span>`],
			["Attempt", "num", (row) => row.attempt],
			["Error or holder", "", (row) => row.error ??
				(row.holder && html`<span class="faint">runs on ${row.holder}</span>`)],
			["Due", "when", (row) => row.status === "pending" && html`<${Time} at=${row.due_at} />`],
			when("Since", "since"),
		]} />`}<//>`;
}

// --- effects ------------------------------------------------------------------------------

function Effects({ list }) {
	return html`<${Listing} list=${list}
		empty=${html`<${Empty} title="No effect is like that">
			<p>A tool that acts outside (books, pays, sends) is recorded before and after, so that it is never carried out
				twice:</p><${Code}>await thread.effect("call-7", book, flight)<//><//>`}>
		${(items) => html`<${Table} label="Effects" rows=${items} id=${(row) => row.id} columns=${[
			["Tool", "wide",
				(row) => html`<div><b>${row.name}</b> <span class="faint mono">${row.call}</span>
					<${Fold} summary="With what">
						<${Json} value=${{ args: row.args, kwargs: row.kwargs, result: row.result, key: row.key }} /><//></div>`],
			["Belongs to", "",
				(row) => html`<a href=${row.kind === "thread" ? to(["threads", row.of]) : to(["work", "workflow", row.of])}>
					${row.kind} ${row.of}</a>`],
			status,
			["Error", "", (row) => row.error],
			when("Since", "updated_at"),
			["Resolve", "tight", (row) => ["unknown", "failed"].includes(row.status) && html`<${Resolve} row=${row} />`],
		]} />`}<//>`;
}

function Resolve({ row }) {
	const say = (decision) => (given) =>
		post(at`effects/${row.id}/resolve`,
			{ decision, ...(decision === "done" ? { result: spoken(given.result) } : { error: given.error ?? "" }) });
	return html`<span class="group">
		<${Act} small label="It happened" title=${`${row.name} happened`} act=${say("done")}
			fields=${[{ name: "result", label: "Its result (JSON, or words)", value: "null", required: true }]}>
			<p>Look in the other system first, by the key <b class="mono">${row.key}</b>. It is not carried out again.</p><//>
		<${Act} small label="It did not" title=${`${row.name} did not happen`} act=${say("not done")} danger>
				<p>Look in the other system first, by the key <b class="mono">${row.key}</b>. It may then be carried out again.</p>
			<//></span>`;
}

// --- schedules ----------------------------------------------------------------------------

function Schedules({ list }) {
	return html`<${Listing} list=${list}
		empty=${html`<${Empty} title="No schedules"><p>What runs by the clock appears here:</p>
			<${Code}>await store.schedule("nightly").declare("0 3 * * *", task="digest")<//><//>`}>
		${(items) => html`<${Table} label="Schedules" rows=${items} id=${(row) => row.id} columns=${[
			["Schedule", "wide", (row) => row.id],
			["When", "", (row) => html`<span class="mono">${row.cron}</span> <span class="faint">${row.tz}</span>`],
			["Runs", "", (row) => row.task ?? row.workflow],
			status,
			when("Last", "last_at"),
			["Next", "when",
				(row) => html`<span class="group"><${Time} at=${row.next_at} />
					${row.status === "active" && isPast(row.next_at) && html`<${Pill} of="overdue" />`}</span>`],
			["Act", "tight", (row) => row.status === "active"
				? html`<${Act} small label="Pause" title=${`Pause ${row.id}`} act=${() => post(at`schedules/${row.id}/pause`)}>
					<p>No tick runs until it is resumed.</p><//>`
				: html`<${Act} small label="Resume" title=${`Resume ${row.id}`} act=${() => post(at`schedules/${row.id}/resume`)}>
					<p>Its ticks run again.</p><//>`],
		]} />`}<//>`;
}
