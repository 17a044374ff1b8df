// Who holds the lock, since when, until when.

import { at, get, post } from "./api.js";
import { refine } from "./route.js";
import { Act, Choice, Code, command, curl, Empty, html, Listing, Page, Pill, Table, useList, when } from "./parts.js";

export function Leases({ query }) {
	const leaders = query.leaders === "true";
	const asked = leaders ? { leaders: true } : {};
	const list = useList((after) => get("locks", { ...asked, limit: 100, after }), [query]);
	const end = (row) => (row.until === null ? "free" : Date.parse(row.until) < Date.now() ? "expired" : "held");
	return html`<${Page} title="Leases"
		lead="Who holds a lock or leadership. The lease of a dead process ends when it expires."
		copy=${[curl("locks", asked), command("lock", "list", "$STATEWARD_URL")]}>
		<div class="bar">
			<${Choice} label="What" value=${leaders ? "true" : ""} options=${[["", "Locks"], ["true", "Leaders"]]}
				onChange=${(value) => refine({ leaders: value })} /></div>
		<${Listing} list=${list}
			empty=${html`<${Empty} title=${leaders ? "No leaders" : "No locks"}><p>One appears when it is taken:</p>
				<${Code}>async with store.lock("inventory") as lease: …<//><//>`}>
			${(items) => html`<${Table} label=${leaders ? "Leaders" : "Locks"} rows=${items} id=${(row) => row.name} columns=${[
				["Name", "wide", (row) => row.name],
				["State", "tight",
					(row) => html`<${Pill} of=${end(row)} tone=${{ held: "calm", expired: "warn", free: "faint" }[end(row)]} />`],
				["Holder", "", (row) => row.holder ?? html`<span class="faint">none</span>`],
				["Token", "num", (row) => row.token],
				when("Since", "granted_at"),
				when("Until", "until"),
				["Act", "tight", (row) => row.token !== null && end(row) !== "free" &&
					html`<${Act} small danger label="Break" title=${`Break the lease of ${row.name}`} typed=${row.name}
						typedWhat="its name" act=${() => post(at`locks/${row.name}/break`, { token: row.token, leader: leaders })}>
					<p><b>${row.holder}</b> loses it. The token grows, so that what it still writes under the old one is refused.</p>
						<//>`],
			]} />`}<//>
	<//>`;
}
