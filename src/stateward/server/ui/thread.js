// One conversation, live: what was said, and what the agent knew when it said it.

import { useEffect, useMemo, useState } from "./vendor/preact-hooks.js";
import { answer, at, follow, get, look, post } from "./api.js";
import { go, refine, to } from "./route.js";
import { Act, command, curl, Empty, Facts, Failure, html, Json, Loading, Page, Time, useRead } from "./parts.js";
import { Transcript } from "./transcript.js";
import { Knew } from "./knew.js";
import { marksOf } from "./marks.js";
import { number } from "./words.js";

const PAGE = 60; // messages that are shown at first, and more at a time

/** @typedef {import("./transcript.js").Entry} Entry */

/** The newest page, what comes from then on, and older pages when they are asked for. @param {string} id */
function useConversation(id) {
	const place = at`threads/${id}/messages`;
	const head = useRead(() => look(place, { limit: PAGE, breaks: true }), [id]);
	const [older, setOlder] = useState({ items: /** @type {Entry[]} */ ([]), next: /** @type {string | null} */ (null) });
	const [news, setNews] = useState(/** @type {Entry[]} */ ([]));
	const [live, setLive] = useState(false);
	const [error, setError] = useState(/** @type {any} */ (null));
	useEffect(() => {
		if (!head.data) return undefined;
		const stop = new AbortController();
		let waiting = /** @type {Entry[]} */ ([]);
		const draw = () => {
			const drawn = waiting;
			waiting = [];
			setNews((old) => [...old, ...drawn]);
		};
		setOlder({ items: [], next: head.data.next });
		setNews([]);
		follow(at`threads/${id}/changes`, {
			query: { after: head.data.items.at(-1)?.cursor },
			signal: stop.signal,
			state: setLive,
			each: ({ name, data }) => {
				if (name === "reset") head.reload(); // it was removed, or begun again
				else if (waiting.push(data) === 1) setTimeout(draw, 50); // several are drawn together
			},
		}).catch(setError);
		return () => stop.abort();
	}, [head.data]);
	const more = async () => {
		const page = await get(place, { limit: PAGE, breaks: true, after: older.next });
		setOlder({ items: [...page.items, ...older.items], next: page.next });
	};
	const entries = head.data && [...older.items, ...head.data.items, ...news];
	return { entries, live, loading: head.loading, error: head.error ?? error, more, older: older.next };
}

export function Thread({ path: [, id], query }) {
	const { entries, live, loading, error, more, older } = useConversation(id);
	const about = useRead(() => get(at`threads/${id}/about`), [id]);
	const branches = useRead(() => get(at`threads/${id}/branches`, { limit: 20 }), [id]);
	const chosen = query.at ? Number(query.at) : undefined;
	const marks = useMemo(() => marksOf(entries ?? [], about.data), [entries?.length, about.data]);
	const choose = (version) => refine({ at: version === chosen ? "" : version });
	useEffect(() => {
		if (chosen && entries?.length) document.getElementById(`m${chosen}`)?.scrollIntoView({ block: "nearest" });
	}, [Boolean(entries?.length)]);
	const { info, origin, leader, vars } = about.data ?? {};
	const forks = branches.data?.items ?? [];
	const rename = (given) => post(at`threads/${id}/describe`, { title: given.title });
	const fork = async (given) => {
		await post(at`threads/${id}/fork`, { to: given.to, at: given.at ? Number(given.at) : null });
		go(["threads", given.to]);
	};
	const remove = async () => {
		await answer(at`threads/${id}`, { method: "DELETE" });
		go(["threads"]);
	};
	const actions = info &&
		html`<span class=${live ? "live on" : "live"} role="status">${live ? "live" : "not connected"}</span>
		<${Act} needs="write" label="Rename" title="Give it a title" act=${rename}
			fields=${[{ name: "title", label: "Title (empty: none)", value: info.title ?? "" }]} />
		<${Act} needs="write" label=${info.archived ? "Unarchive" : "Archive"}
			title=${info.archived ? "Show it in lists again" : "Keep it, and leave it out of lists"}
			act=${() => post(at`threads/${id}/${info.archived ? "unarchive" : "archive"}`)} />
		<${Act} needs="write" label="Fork" title="Begin another conversation with what this one holds" act=${fork}
			fields=${[{ name: "to", label: "Id of the new conversation", value: `${id}-fork`, required: true },
				{ name: "at", label: "Up to which message (empty: all)", value: query.at ?? "" }]}>
			<p>This one stays as it is.</p><//>
		<${Act} needs="write" danger label="Delete" title="Delete this conversation" typed=${id} typedWhat="its id"
			act=${remove}><p>It is removed permanently, for all users.</p><//>`;
	return html`<${Page} title=${info?.title ?? id} name=${`Thread ${info?.title ?? id}`}
		lead=${info?.title && html`<span class="mono">${id}</span>`} actions=${actions}
		copy=${[curl(at`threads/${id}/messages`), command("thread", "show", "$STATEWARD_URL", id),
			...(chosen ? [command("why", "$STATEWARD_URL", id, String(chosen))] : [])]}>
		${error && (error.status === 404
			? html`<${Empty} title="There is no such conversation">
				<p>It may have been deleted or erased, have expired, or live in another
					namespace. <a href=${to(["find"], { q: id })}>Find</a> looks for everything of that name.</p><//>`
			: html`<${Failure} error=${error} />`)}
		${info && html`<div class="panel"><${Facts} items=${[
			["User", info.user ? html`<a href=${to(["users", info.user])}>${info.user}</a>` : undefined],
			["Messages", number(info.messages)], ["Begun", html`<${Time} at=${info.created_at} />`],
				["Last touched", html`<${Time} at=${info.updated_at} />`],
			["Expires", info.expires_at ? html`<${Time} at=${info.expires_at} />` : undefined],
			["Labels", Object.keys(info.labels).length
				? Object.entries(info.labels).map(([name, value]) => html`<span class="label">${name}=${value}</span>`)
				: undefined],
			["In hand", leader ?? undefined],
			["Forked from", origin
				? html`<a href=${to(["threads", origin.thread], { at: origin.version })}>${origin.thread}</a> at
					#${origin.version}` : undefined],
			["Branches", forks.length
				? forks.map((one) =>
					html`<div><a href=${to(["threads", one.id])}>${one.id}</a> <span class="faint">from #${one.version}</span></div>`)
				: undefined],
			["Variables", Object.keys(vars).length ? html`<${Json} value=${vars} />` : undefined],
		]} /></div>`}
		<div class=${chosen ? "talk beside" : "talk"}>
			<div>
				${older && html`<p><button onClick=${more}>Show earlier messages</button></p>`}
				${entries && html`<${Transcript} entries=${entries} marks=${marks} chosen=${chosen} onChoose=${choose} />`}
				${loading && html`<${Loading} />`}
			</div>
			${chosen && entries &&
				html`<${Knew} key=${chosen} thread=${id} version=${chosen} entry=${entries?.find((one) => one.version === chosen)}
					onClose=${() => refine({ at: "" })} />`}
		</div>
	<//>`;
}
