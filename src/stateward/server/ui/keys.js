// Keys: who may ask, what, and until when.

import { at, get, post } from "./api.js";
import { Act, Code, command, curl, Empty, html, Json, Listing, Page, Pill, Table, Time, useList,
	when } from "./parts.js";

const stands = (row) => (row.revoked_at ? "revoked" : row.expires_at && Date.parse(row.expires_at) < Date.now()
	? "expired" : "in force");

const made = ({ key }) => html`<p>It is shown only once. Anyone who has it can use the service:</p>
	<${Json} value=${key} />`;

export function Keys() {
	const list = useList((after) => get("keys", { limit: 100, after }), []);
	const create = (given) => post("keys", {
		scope: given.scope, note: given.note, user: given.user || null, days: given.days ? Number(given.days) : null,
		namespaces: given.namespaces ? given.namespaces.split(",").map((name) => name.trim()) : null,
	});
	return html`<${Page} title="Keys" lead="Who may call the service, what they may do, and until when."
		copy=${[curl("keys"), command("key", "list", "$STATEWARD_URL")]}
		actions=${html`<${Act} needs="admin" label="New key" title="Make a key" act=${create} done=${made} fields=${[
			{ name: "scope", label: "What it permits", options: ["read", "write", "operate", "admin"] },
				{ name: "namespaces", label: "Namespaces, with commas (empty: every one)", value: "default" },
			{ name: "user", label: "Only for one user (empty: all users)" },
				{ name: "days", label: "Valid for this many days (empty: agents' until revoked, people's 90)",
					value: "30" },
				{ name: "note", label: "What it is for" },
		]} />`}>
		<${Listing} list=${list}
			empty=${html`<${Empty} title="No keys are stored">
				<p>Agents, and people who look, each get one. It is shown once, when it is made here or on the command line:</p>
				<${Code}>stateward key create "$STATEWARD_URL" --scope write<//><//>`}>
			${(items) => html`<${Table} label="Keys" rows=${items} id=${(row) => row.id} columns=${[
				["Key", "wide",
					(row) => html`<div><span class="mono">sw.${row.id}.…</span>
						${row.note && html`<div class="faint">${row.note}</div>`}</div>`],
				["State", "tight",
					(row) => html`<${Pill} of=${stands(row)} tone=${stands(row) === "in force" ? "good" : "faint"} />`],
				["Scope", "tight", (row) => row.scope],
				["Namespaces", "", (row) => row.namespaces?.join(", ") ?? html`<span class="faint">every one</span>`],
				["User", "", (row) => row.user ?? html`<span class="faint">all users</span>`],
				when("Made", "created_at"),
				["Last used", "when", (row) => html`<${Time} at=${row.last_used_at} />
					${row.last_used_from && html`<div class="faint mono">${row.last_used_from}</div>`}`],
				["Ends", "when", (row) => html`<${Time} at=${row.revoked_at ?? row.expires_at} />`],
				["Act", "tight", (row) => !row.revoked_at && html`
					<${Act} needs="admin" small label="Rotate" title="Give this key a new secret" done=${made}
						act=${({ hours }) => post(at`keys/${row.id}/rotate`, { overlap_hours: Number(hours) })}
						fields=${[{ name: "hours", label: "Hours that the old secret stays in force", value: "24" }]} />
					<${Act} needs="admin" small danger label="Revoke" title="Revoke this key" typed=${row.id} typedWhat="its id"
						act=${() => post(at`keys/${row.id}/revoke`)}><p>Requests with it are refused, within five seconds.</p><//>`],
			]} />`}<//>
	<//>`;
}
