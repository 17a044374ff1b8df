// What an agent was given when it said a turn, and what is different since.

import { useState } from "./vendor/preact-hooks.js";
import { at, get } from "./api.js";
import { to } from "./route.js";
import { Choice, Code, Empty, Failure, Fold, html, Json, Loading, Pill, useRead } from "./parts.js";
import { view } from "./messages.js";
import { count, exact, number } from "./words.js";

/** A receipt in one sentence: saw 18 of 240 messages, preferences v7, 2 open workflows. */
export function receiptLine(receipt) {
	if (receipt.unread) return "was given nothing";
	const given = receipt.given + receipt.pinned;
	const said = [`saw ${number(given)} of ${count(given + receipt.omitted, "message")}`];
	if (receipt.has_summary) said.push(`a summary of ${number(receipt.summarised)}`);
	for (const [name, version] of Object.entries(receipt.documents ?? {})) said.push(`${name} v${version}`);
	if (receipt.workflows?.length) said.push(count(receipt.workflows.length, "open workflow"));
	if (receipt.shortened) said.push(`${receipt.shortened} shortened`);
	if (receipt.tokens !== null) said.push(`${number(receipt.tokens)} tokens`);
	return said.join(", ");
}

export function Knew({ thread, version, entry, onClose }) {
	const [against, setAgainst] = useState("now");
	const read = useRead(() => get(at`threads/${thread}/knew/${version}`, { against }), [thread, version, against]);
	const none = read.error && [404, 410].includes(read.error.status);
	return html`<aside class="panel stack" aria-label="What it knew">
		<div class="bar"><h2>What it knew at #${version}</h2>
			<span class="push"><button class="small" onClick=${onClose}>Close</button></span></div>
		${entry && html`<p class="faint">${exact(entry.at).split("\n")[0]}
			${entry.key && html`, key <span class="mono">${entry.key}</span>`}</p>`}
		${read.loading && html`<${Loading} />`}
		${none ? html`<${Empty} title="No receipt is kept with this turn"><p>${read.error.message}</p>
				<p>What an agent knew is kept if the turn says what it saw:</p>
				<${Code}>await thread.append(*messages, saw=context)<//><//>`
			: read.error && html`<${Failure} error=${read.error} />`}
		${read.data && html`<${Given} knew=${read.data} against=${against} onAgainst=${setAgainst} />`}
		${entry && html`<${Fold} summary="The message as it is stored"><${Json} value=${entry.message} /><//>`}
	</aside>`;
}

function Given({ knew, against, onAgainst }) {
	const { receipt, difference, gone } = knew;
	return html`<p>It ${receiptLine(receipt)}.</p>
		<div><${Choice} label="Compare with" value=${against}
			options=${[["now", "Since then"], ["before", "Since the turn before"]]} onChange=${onAgainst} />
			${!difference ? html`<p class="faint">There is nothing to compare with.</p>` : difference.changes.length === 0
				? html`<p class="faint">Nothing is different.</p>`
				: html`<ul class="plain">
					${difference.changes.map((one) =>
						html`<li>${one.what} <b>${one.name}</b> ${one.was ?? "none"} → ${one.now ?? "none"}</li>`)}</ul>`}</div>
		${gone.length > 0 &&
			html`<div class="note warn"><strong>Not all of it can be shown any more</strong>
				${gone.map((one) => html`<p>${one.what} ${one.name}: ${one.why}</p>`)}</div>`}
		${Object.entries(receipt.left_out).map(([name, many]) => html`<p class="faint">left out: ${many} ${name}</p>`)}
		${knew.documents.map((one) =>
			html`<${Fold}
				summary=${html`<span>${one.name}</span> <span class="faint">document, version ${one.version}</span>`}>
				<${Json} value=${one.value} /><//>`)}
		${knew.workflows.map((one) =>
			html`<${Fold}
				summary=${html`<span>${one.id}</span> <span class="faint">workflow</span><${Pill} of=${one.status} />`}>
				<p><a href=${to(["work", "workflow", one.id])}>As it stands now</a></p><${Json} value=${one.state} /><//>`)}
		${knew.summary && html`<${Fold} summary="The summary that it was given"><${Json} value=${knew.summary} /><//>`}
		<${Fold} summary=${html`<span>Messages</span> <span class="faint">${number(knew.messages.length)}</span>`}>
			<ul class="plain">${knew.messages.map((one) => {
			const { role, text, calls } = view(one);
			return html`<li><b>${role}</b> ${text.slice(0, 200) || calls.map((call) => call.name).join(", ")}</li>`;
		})}</ul><//>`;
}
