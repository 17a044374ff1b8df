// What is marked in a transcript: late turns, lost context, and the summary where it stands.

import { html, Time } from "./parts.js";
import { count } from "./words.js";

const BREAKS = /** @type {Record<string, string>} */ ({
	asked_again: "the agent asks once more",
	already_given: "the agent asks for what it was given",
	complaint: "the user has said it before",
	restarted: "the agent starts over",
	tool_call: "the same tool is called once more",
});

/** @param {import("./transcript.js").Entry[]} entries @param {any} about @returns {Map<number, any[]>} */
export function marksOf(entries, about) {
	const marks = new Map();
	const put = (version, mark) => marks.set(version, [...(marks.get(version) ?? []), mark]);
	const { summary, late = [] } = about ?? {};
	const after = summary && entries.find((entry) => entry.version > summary.upto);
	if (after) put(after.version,
		html`<details class="mark calm">
			<summary>A summary stands for the ${count(summary.messages, "message")} up to #${summary.upto},
				made <${Time} at=${summary.made_at} /></summary><p class="said">${summary.text}</p></details>`);
	for (const turn of late) {
		put(turn.first,
			html`<div class="mark">Late: ${count(turn.last - turn.first + 1, "message")} of a turn that waited on the agent's
				machine and was stored after newer ones, <${Time} at=${turn.written_at} /></div>`);
	}
	for (const { version, breaks = [] } of entries) {
		for (const { kind, evidence, earlier } of breaks) {
			put(version,
				html`<div class="mark">Context break: ${BREAKS[kind] ?? kind}
					${earlier ? `, see #${earlier}` : ""}. <q>${evidence}</q></div>`);
		}
	}
	return marks;
}
