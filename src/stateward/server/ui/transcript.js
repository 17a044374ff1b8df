// A conversation as one reads it: roles, times, tool calls folded with their results, and marks
// where something is not as it should be.

import { view } from "./messages.js";
import { receiptLine } from "./knew.js";
import { Fold, html, Json, Long, Pill } from "./parts.js";
import { clock, day, exact } from "./words.js";

/**
 * @typedef {{message: any, version: number, cursor: string, at: string, key: string | null, receipt?: any,
 *   breaks?: any[]}} Entry */

/** JSON is set out in lines, whatever else stays as it is. @param {{text: string}} props */
function Value({ text }) {
	try {
		return html`<${Json} value=${JSON.parse(text)} />`;
	} catch {
		return html`<${Json} value=${text} />`;
	}
}

const ToolCall = ({ call, result }) =>
	html`<${Fold}
		summary=${html`<b class="mono">${call.name}</b>
			<span class="clip mono">${call.arguments === "{}" ? "" : call.arguments}</span>
		${result ? html`<${Pill} of=${result.failed ? "failed" : "answered"} tone=${result.failed ? "bad" : "good"} />`
			: html`<${Pill} of="no result" tone="warn" />`}`}>
	<div class="stack"><div><h3>Called with</h3><${Value} text=${call.arguments} /></div>
	${result ? html`<div><h3>${result.failed ? "It failed" : "Answered"}</h3><${Value} text=${result.text} /></div>`
		: html`<p class="faint">No result is stored in what is shown: the tool is still at work, or the agent died before it
			answered.</p>`}</div>
<//>`;

export function Transcript({ entries, marks, chosen, onChoose }) {
	const views = entries.map((entry) => view(entry.message));
	const results = new Map();
	const called = new Set();
	for (const seen of views) {
		for (const result of seen.results) if (!results.has(result.id)) results.set(result.id, result);
		for (const call of seen.calls) called.add(call.id);
	}
	let today = "";
	return html`<div class="transcript">${entries.map((entry, at) => {
		const seen = views[at];
		const answered = seen.role === "tool" && !seen.text && seen.results.length > 0 &&
			seen.results.every((result) => called.has(result.id));
		const first = today !== (today = day(entry.at));
		const parts = [first && html`<div class="day">${today}</div>`, ...(marks.get(entry.version) ?? [])];
		if (answered) return parts; // it stands with its call
		parts.push(html`<${Message} key=${entry.version} entry=${entry} seen=${seen} results=${results} called=${called}
			chosen=${chosen === entry.version} onChoose=${onChoose} />`);
		return parts;
	})}</div>`;
}

function Message({ entry, seen, results, called, chosen, onChoose }) {
	const tone = ["user", "assistant", "system", "tool"].includes(seen.role) ? seen.role : "other";
	const loose = seen.results.filter((result) => !called.has(result.id));
	const choose = () => onChoose(entry.version);
	const name = typeof entry.message?.name === "string" && tone !== "tool" ? entry.message.name : null;
	return html`<article class=${`message ${tone} ${chosen ? "chosen" : ""}`} id=${`m${entry.version}`}
		aria-label=${`${seen.role}, message ${entry.version}`}>
		<div class="who">${name ?? seen.role}
			<small><span title=${exact(entry.at)}>${clock(entry.at)}
				</span> <button class="link" aria-pressed=${chosen} aria-label=${`Message ${entry.version}`}
					onClick=${choose}>#${entry.version}</button></small></div>
		<div>
			${seen.text && html`<${Long} text=${seen.text} />`}
			${seen.calls.map((call) => html`<${ToolCall} call=${call} result=${results.get(call.id)} />`)}
			${loose.map((result) =>
				html`<${Fold}
					summary=${html`<span>Result</span><span class="clip">${result.text}</span>
						<${Pill} of=${result.failed ? "failed" : "answered"} />`}><${Value} text=${result.text} /><//>`)}
			${!seen.text && !seen.calls.length && !loose.length && html`<span class="faint">said nothing</span>`}
			${entry.receipt && html`<button class="link receipt" onClick=${choose}>${receiptLine(entry.receipt)}</button>`}
		</div>
	</article>`;
}
