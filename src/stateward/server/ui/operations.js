// What was done by hand, by whom.

import { download, get } from "./api.js";
import { refine } from "./route.js";
import { Act, Code, command, curl, Empty, Filter, html, Listing, Page, Pill, Table, useList, when } from "./parts.js";
import { count } from "./words.js";
import { asked } from "./work.js";

const checked = (told) =>
	html`<p><${Pill} of=${told.ok ? "intact" : "tampered with"}
		tone=${told.ok ? "good" : "bad"} /> ${count(told.entries, "entry", "entries")} checked.</p>
	${told.problems.map((problem) => html`<p>${problem}</p>`)}
	<p class="faint">Store this head elsewhere: with it, entries cut off at the end can be detected too.</p>
		<${Code}>${told.head}<//>`;

export function Operations({ query }) {
	const list = useList((after) => get("operations-log", { target: query.target, limit: 50, after }), [query]);
	return html`<${Page} title="Operations log"
		lead="Manual operations: what, by whom, and with which result. Each entry has the hash of the one before it."
		actions=${html`<${Act} label="Verify" title="Check for tampering" act=${() => get("operations-log/verify")}
			done=${checked}><p>Every hash is computed again.</p><//>
			<button onClick=${() => download("operations-log/export", "operations.jsonl")}>Export</button>`}
		copy=${[curl("operations-log", { target: query.target }), command("operations", "verify", "$STATEWARD_URL")]}>
		<div class="bar">
			<${Filter} label="Done to" value=${query.target} placeholder="thread/s-1, user/u-42 …"
				onChange=${(target) => refine({ target })} /></div>
		<${Listing} list=${list}
			empty=${html`<${Empty} title="Nothing was done by hand">
				<p>Whatever an operator changes, here or on the command line, stands here before it is done.</p><//>`}>
			${(items) => html`<${Table} label="Operations log" rows=${items} id=${(row) => String(row.number)} columns=${[
				["#", "num", (row) => row.number],
				when("When", "at"),
				["Who", "tight", (row) => row.who],
				["What", "tight", (row) => row.what],
				["To what", "wide",
					(row) => html`<span class="mono" title=${row.target}>
						${row.target.replace(/(sha256:[0-9a-f]{12})[0-9a-f]+/, "$1…")}</span>`],
				["Outcome", "tight",
					(row) => html`<span class="group"><${Pill} of=${row.outcome} />
						${row.of !== null && html`<span class="faint">of #${row.of}</span>`}</span>`],
				["Detail", "clip", (row) => Object.keys(row.detail).length > 0 && html`<span>${asked(row.detail)}</span>`],
			]} />`}<//>
	<//>`;
}
