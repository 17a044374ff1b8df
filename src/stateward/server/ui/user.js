// One user: documents, conversations, unfinished work; export and erase.

import { at, download, get, post } from "./api.js";
import { to } from "./route.js";
import { Act, Code, command, curl, Empty, html, Page, Read, status, Table, useRead, when } from "./parts.js";
import { line, number } from "./words.js";
import { ThreadTable } from "./threads.js";

export function User({ path: [, id] }) {
	const documents = useRead(() => get(at`users/${id}/documents`, { limit: 100 }), [id]);
	const threads = useRead(() => get("threads", { user: id, limit: 20 }), [id]);
	const workflows = useRead(() => get("workflows", { user: id, status: "active", limit: 20 }), [id]);
	const erase = () => post(at`users/${id}/erase`);
	return html`<${Page} title=${id} name=${`User ${id}`}
		lead="A user: what is known about them, and what belongs to them."
		actions=${html`<${Act} label="Export" title="Export all that belongs to this user"
			act=${() => download(at`users/${id}/export`, "export.jsonl")}
				done=${() => "The file was saved. It is personal data: keep it as such."}>
					<p>One JSON object a line: conversations, documents, work, all that names this user as its owner.</p><//>
			<${Act} danger label="Erase" title="Erase this user permanently" typed=${id} typedWhat="the user's id" act=${erase}
				done=${Receipt}>
				<p>Everything that belongs to <b class="mono">${id}</b> is removed, including its history. This cannot be undone.
					Export it first if you may need it.</p><//>`}
		copy=${[curl(at`users/${id}/documents`), command("user", "show", "$STATEWARD_URL", id)]}>
		<div class="panel"><h2>Documents</h2><${Read} of=${documents}>${(data) => data.items.length
			? html`<${Table} label="Documents" rows=${data.items} id=${(row) => row.name} columns=${[
					["Name", "tight", (row) => html`<a href=${to(["users", id, row.name])}>${row.name}</a>`],
					["Value", "clip", (row) => html`<span class="mono">${line(row.value)}</span>`],
					["Version", "num", (row) => number(row.version)],
					when("Changed", "updated_at"),
				]} />`
			: html`<${Empty} title="Nothing is known of this user"><p>What agents learn about a user is kept in documents:</p>
				<${Code}>await store.user(${JSON.stringify(id)}).patch({"language": "de"})<//><//>`}<//></div>
		<div class="panel">
			<h2>Conversations <span class="faint"><a href=${to(["threads"], { user: id })}>all of them</a></span></h2>
			<${Read} of=${threads}>${(data) => data.items.length
			? html`<${ThreadTable} rows=${data.items} whose=${false} />`
				: html`<${Empty} title="None">
					<p>No conversation was begun with <span class="mono">user=${JSON.stringify(id)}</span>.</p><//>`}<//></div>
		<div class="panel">
			<h2>Unfinished work <span class="faint"><a href=${to(["work", "workflows"], { user: id })}>all of it</a></span>
			</h2><${Read} of=${workflows}>${(data) => data.items.length
			? html`<${Table} label="Workflows" rows=${data.items} id=${(row) => row.id} columns=${[
					["Workflow", "wide", (row) => html`<a href=${to(["work", "workflow", row.id])}>${row.id}</a>`],
					["Kind", "", (row) => row.kind],
					status,
					when("Last touched", "updated_at"),
				]} />` : html`<${Empty} title="None"><p>No workflow of this user is open.</p><//>`}<//></div>
	<//>`;
}

function Receipt(receipt) {
	const kinds = Object.entries(receipt.removed).filter(([, many]) => many);
	return html`<p><strong>Erased.</strong> Keep this receipt: it names no content.</p>
		<${Code}>${JSON.stringify(receipt, null, 2)}<//>
		<p class="faint">
			${kinds.length ? kinds.map(([kind, many]) => `${number(/** @type {number} */ (many))} × ${kind}`).join(", ")
				: "There was nothing to remove."}</p>`;
}
