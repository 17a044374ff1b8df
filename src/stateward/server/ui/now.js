// Is it us or the store? Since when? Who is affected?

import { get } from "./api.js";
import { to } from "./route.js";
import { command, curl, Empty, Failure, html, Loading, Page, Pill, Read, Table, Time, useRead, when } from "./parts.js";
import { Concerned } from "./signals.js";
import { ThreadTable } from "./threads.js";
import { clock, count, millis, number } from "./words.js";

const FEW = 100; // of what hangs is counted no further

export function Now() {
	const health = useRead(() => get("health"), [], { every: 5 });
	const replicas = useRead(() => get("replicas"), [], { every: 5 });
	const lately = useRead(() => get("signals", { since: 3600 }), [], { every: 10 });
	const threads = useRead(() => get("threads", { limit: 6 }), [], { every: 10 });
	const hangs = useRead(async () => {
		const [waiting, workflows, tasks, effects] = await Promise.all([
			get("waiting", { limit: FEW }), get("workflows", { status: "failed", limit: FEW }),
				get("tasks", { status: "failed", limit: FEW }), get("effects", { status: "unknown", limit: FEW }),
		]);
		return { waiting: waiting.items, workflows: workflows.items, tasks: tasks.items, effects: effects.items };
	}, [], { every: 15 });
	const alive = (replicas.data?.items ?? []).filter((one) => one.status === "alive");
	return html`<${Page} title="Now" lead="Is it us, or the store? Since when, and who is affected?"
		copy=${[curl("health"), command("health", "$STATEWARD_URL")]}>
		${health.error ? html`<${Failure} error=${health.error} />` : health.data
			? html`<${Verdict} health=${health.data} replicas=${replicas.data?.items ?? []}
				points=${lately.data?.points ?? []} />` : html`<${Loading} />`}
		<div class="tiles">
			<${Tile} name="Processes alive" value=${replicas.data && number(alive.length)}
				about=${replicas.data && `${number(replicas.data.items.length - alive.length)} gone or closed lately`} />
			<${Tile} name="Lookups, p95" value=${lately.data && millis(last(lately.data.points)?.lookup_p95)}
				about="as of the last seconds" href=${to(["signals"])} />
			<${Tile} name="Suppressed in an hour" value=${lately.data && number(lately.data.total.suppressed)}
				tone=${lately.data?.total.suppressed ? "warn" : ""}
				about=${lately.data && `${count(lately.data.total.failures, "failure")} in all`} href=${to(["signals"])} />
			<${Tile} name="Turns that wait" value=${replicas.data && number(sum(alive, "kept"))}
				tone=${sum(alive, "kept") ? "warn" : ""} about="kept on machines, for the store" href=${to(["signals"])} />
			<${Hangs} name="Questions open" rows=${hangs.data?.waiting} tone="warn" since="asked_at"
				href=${to(["work", "waiting"])} />
			<${Hangs} name="Workflows failed" rows=${hangs.data?.workflows} since="updated_at"
				href=${to(["work", "workflows"], { status: "failed" })} />
			<${Hangs} name="Tasks failed" rows=${hangs.data?.tasks} since="since"
				href=${to(["work", "tasks"], { status: "failed" })} />
			<${Hangs} name="Effects unknown" rows=${hangs.data?.effects} since="updated_at"
				href=${to(["work", "effects"], { status: "unknown" })} />
		</div>
		${lately.data?.points.length > 0 &&
			html`<${Concerned} point=${lately.data.total} title="Affected in the last hour" />`}
		<div class="panel"><h2>Processes <span class="faint">that have the store open, as their heartbeats tell</span></h2>
			<${Read} of=${replicas}>
				${(data) => data.items.length ? html`<${Replicas} rows=${data.items} />`
					: html`<${Empty} title="No heartbeats">
						<p>Every process that opens this namespace reports its state every few seconds, unless it was opened
						with <code>heartbeat=None</code>.</p><//>`}<//></div>
		<div class="panel"><h2>Touched last <span class="faint"><a href=${to(["threads"])}>all threads</a></span></h2>
			<${Read} of=${threads}>
				${(data) => data.items.length ? html`<${ThreadTable} rows=${data.items} label="Touched last" />`
					: html`<${Empty} title="No conversations yet"><p>The newest ones will be here.</p><//>`}<//></div>
	<//>`;
}

const sum = (rows, name) => rows.reduce((all, row) => all + row.counts[name], 0);
const last = (points) => points[points.length - 1];

/** One sentence: the store, or us. */
function Verdict({ health, replicas, points }) {
	const healthy = points.findLastIndex((point) => !point.failures && !point.breakers_open);
	const since = points.length && healthy < points.length - 1 ? points[healthy + 1].at : null;
	const alive = replicas.filter((one) => one.status === "alive");
	const gone = replicas.filter((one) => one.status === "gone");
	const alarms = [...new Set(alive.flatMap((one) => one.counts.alarms))];
	const trouble = alarms.length || since;
	const tone = !health.ok ? "bad" : trouble || gone.length || health.breaker !== "closed" ? "warn" : "good";
	const said = !health.ok ? "The store does not answer" : trouble ? "The store answers, but not everything is well"
		: gone.length ? `The store answers; ${count(gone.length, "process", "processes")} stopped without closing it`
		: "All is well: the store answers";
	return html`<div class=${`panel verdict ${tone}`} role="status">
		<div><h2>${said}${since && `, since ${clock(since)}`}</h2>
		<p class="faint">
			${health.ok ? `${health.engine} ${health.version} answered the service in ${millis(
				health.latency)}: ${health.durability}.` : health.error}</p>
		<p>${alarms.map((name) => html`<${Pill} of=${name} tone="bad" /> `)}
			${health.breaker !== "closed" && html`<${Pill} of=${`breaker ${health.breaker}`} tone="bad" />`}</p></div></div>`;
}

const Tile = ({ name, value, about, tone = "", href }) =>
	html`<a class=${`tile ${tone}`} href=${href}><span>${name}</span><b>${value ?? "…"}</b>
		<small>${about ?? " "}</small></a>`;

function Hangs({ name, rows, since, href, tone = "bad" }) {
	const oldest = rows?.map((row) => row[since]).sort()[0];
	return html`<${Tile} name=${name} href=${href} tone=${rows?.length ? tone : ""}
		value=${rows && `${number(rows.length)}${rows.length === FEW ? "+" : ""}`}
		about=${oldest && html`the oldest <${Time} at=${oldest} />`} />`;
}

function Replicas({ rows }) {
	const tone = { alive: "good", closed: "faint", gone: "bad" };
	return html`<${Table} label="Processes" rows=${rows} id=${(row) => row.id} columns=${[
		["Process", "wide",
			(row) => html`<div>
				<b>${row.replica ?? row.host}</b> <span class="faint">${row.replica ? `${row.host}, ` : ""}pid ${row.pid}
				</span></div>`],
		["Status", "tight",
			(row) => html`<span class="group"><${Pill} of=${row.status} tone=${tone[row.status]} />
				${row.counts.alarms.map((name) => html`<${Pill} of=${name} tone="bad" />`)}</span>`],
		when("Heard", "beat_at"),
		["Reads", "num", (row) => number(row.counts.reads)],
		["Writes", "num", (row) => number(row.counts.writes)],
		["Failed", "num", (row) => number(row.counts.failures)],
		["Suppressed", "num", (row) => number(row.counts.suppressed)],
		["Forgot", "num", (row) => number(row.counts.context_breaks)],
		["p99", "num", (row) => millis(row.counts.read_p99)],
	]} />`;
}
