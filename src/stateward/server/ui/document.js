// One document of a user: what it is, what it was, who may want it back.

import { answer, at, get, post } from "./api.js";
import { to } from "./route.js";
import { Act, command, curl, Empty, html, Json, Page, Read, Time, useRead } from "./parts.js";
import { difference } from "./difference.js";

export function DocumentPage({ path: [, user, name] }) {
	const place = at`users/${user}/documents/${name}`;
	const read = useRead(async () => {
		const [now, history] = await Promise.all([
			answer(place)
				.catch((error) => { if (error.status === 404) return { data: undefined, etag: undefined }; throw error; }),
			get(`${place}/history`, { limit: 50 }),
		]);
		return { now, history: history.items ?? history };
	}, [user, name]);
	const save = async (given) => {
		let value;
		try {
			value = JSON.parse(given.value);
		} catch (error) {
			throw new Error(`That is no JSON: ${error instanceof Error ? error.message : error}`);
		}
		return answer(place, { method: "PUT", body: value, match: read.data?.now.etag });
	};
	const now = read.data?.now;
	return html`<${Page} title=${name} name=${`${name} of ${user}`}
		lead=${html`A document of <a href=${to(["users", user])}>${user}</a>`}
		actions=${now?.data !== undefined &&
			html`<${Act} needs="write" label="Edit" title=${`Edit ${name}`} act=${save}
				fields=${[{ name: "value", label: "The whole document, as JSON", value: JSON.stringify(now?.data, null, 2),
					long: true, required: true }]}>
			<p>It is saved only if it has not been changed in the meantime.</p><//>`}
		copy=${[curl(`${place}/history`), command("user", "show", "$STATEWARD_URL", user)]}>
		<${Read} of=${read}>${(data) => html`
			<div class="panel">
				<h2>Now ${data.now.etag &&
					html`<span class="faint">version ${data.now.etag.split("-")[0].replace('"', "")}</span>`}</h2>
				${data.now.data === undefined
					? html`<${Empty} title="It is not there now">
						<p>It was removed, or never written. What is kept of it stands below.</p><//>`
					: html`<${Json} value=${data.now.data} />`}</div>
			<div class="panel"><h2>History <span class="faint">the newest first</span></h2>
				${data.history.length === 0 &&
					html`<${Empty} title="No history is kept">
						<p>A store keeps it if it was opened with <code>document_history</code>; every change from then on appears
							here.</p><//>`}
				<ul class="plain stack">
					${data.history.map((one, index) =>
						html`<${Version} one=${one} before=${data.history[index + 1]} first=${index === 0} place=${place}
							name=${name} />`)}</ul></div>`}<//>
	<//>`;
}

function Version({ one, before, first, place, name }) {
	const undo = () => post(`${place}/undo`, one.version > 0 ? { to: one.version } : { at: one.updated_at });
	return html`<li>
		<div class="bar"><strong>${one.value === null ? "Removed" : `Version ${one.version ?? "?"}`}</strong>
			<${Time} at=${one.updated_at} />${one.by && html`<span class="faint">by ${one.by}</span>`}
			${!first && one.value !== null &&
				html`<span class="push">
					<${Act} needs="write" small label="Make it this again" title=${`Make ${name} what it was`} act=${undo}>
				<p>The document becomes what it was then. What it is now stays in the history.</p><${Json} value=${one.value} /><//>
					</span>`}</div>
		${before ? html`<div class="diff">
				${difference(before.value, one.value)
					.map(([kind, text]) =>
					html`<div class=${kind}>${kind === "gone" ? "− " : kind === "came" ? "+ " : "  "}${text}</div>`)}</div>`
			: html`<${Json} value=${one.value} />`}
	</li>`;
}
