// Conversations, those first that were touched last.

import { get } from "./api.js";
import { refine, to } from "./route.js";
import { Code, command, curl, Empty, Filter, html, Listing, Page, Table, theUser, useList, when } from "./parts.js";
import { number } from "./words.js";

export const ThreadTable = ({ rows, label = "Threads", whose = true }) =>
	html`<${Table} label=${label} rows=${rows} id=${(row) => row.id} columns=${[
	["Thread", "wide", (row) => html`<div><a href=${to(["threads", row.id])}>${row.title ?? row.id}</a>
		<div class="under">${row.title && html`<span class="faint mono">${row.id}</span>`}
		${Object.entries(row.labels).map(([name, value]) => html`<span class="label">${name}=${value}</span>`)}
			${row.archived && html`<span class="label">archived</span>`}</div></div>`],
	...(whose ? [theUser] : []),
	["Messages", "num", (row) => number(row.messages)],
	when("Begun", "created_at"),
	when("Last touched", "updated_at"),
]} />`;

export function Threads({ query }) {
	const asked = { user: query.user, prefix: query.prefix, label: query.label, archived: query.archived };
	const list = useList((after) => get("threads", { ...asked, limit: 50, after }), [query]);
	const filtered = Boolean(query.user || query.prefix || query.label || query.archived);
	return html`<${Page} title="Threads" lead="Conversations, the most recently changed first."
		copy=${[curl("threads", asked),
			command("thread", "list", "$STATEWARD_URL", ...(query.user ? ["--user", query.user] : []))]}>
		<div class="bar">
			<${Filter} label="User" value=${query.user} placeholder="exactly this id" onChange=${(user) => refine({ user })} />
			<${Filter} label="Id begins with" value=${query.prefix} onChange=${(prefix) => refine({ prefix })} />
			<${Filter} label="Label" value=${query.label} placeholder="name=value" onChange=${(label) => refine({ label })} />
			<label class="group">
				<input type="checkbox" checked=${query.archived === "true"}
					onChange=${(event) => refine({ archived: event.target.checked ? "true" : "" })} /> archived ones</label>
		</div>
		<${Listing} list=${list} empty=${filtered
			? html`<${Empty} title="No conversation is like that">
				<p>Take a filter away. A user's id and a label are compared as a whole; only an id may be given by its
					beginning.</p><//>`
			: html`<${Empty} title="No conversations yet">
				<p>Here will be every conversation of this namespace. One begins when an agent appends to it:</p>
					<${Code}>await store.thread("s-1", user="u-42").append({"role": "user", "content": "Hello"})<//><//>`}>
			${(items) => html`<${ThreadTable} rows=${items} />`}
		<//>
	<//>`;
}
