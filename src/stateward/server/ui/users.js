// Everybody who has anything here.

import { get } from "./api.js";
import { go, to } from "./route.js";
import { Code, command, curl, Empty, html, Listing, Page, Table, useList } from "./parts.js";
import { number } from "./words.js";

export function Users() {
	const list = useList((after) => get("users", { limit: 50, after }), []);
	const open = (event) => {
		event.preventDefault();
		go(["users", event.target.elements.id.value.trim()]);
	};
	return html`<${Page} title="Users" lead="Every user with data here, by id: conversations, documents, work."
		copy=${[curl("users"), command("user", "list", "$STATEWARD_URL")]}>
		<form class="bar" onSubmit=${open}>
			<label class="filter"><span>User</span>
				<input name="id" placeholder="exactly this id" required autocomplete="off" spellcheck="false" /></label>
			<button class="full">Open</button></form>
		<${Listing} list=${list}
			empty=${html`<${Empty} title="No users yet">
				<p>A user appears with the first conversation that is theirs, or with what an agent learns about them:</p>
				<${Code}>await store.user("u-42").patch({"language": "de"})<//><//>`}>
			${(items) => html`<${Table} label="Users" rows=${items} id=${(row) => row.id} columns=${[
				["User", "wide", (row) => html`<a href=${to(["users", row.id])}>${row.id}</a>`],
				["Entries", "num", (row) => number(row.entities)],
				["", "tight", (row) => html`<a href=${to(["threads"], { user: row.id })}>threads</a>`],
			]} />`}<//>
	<//>`;
}
