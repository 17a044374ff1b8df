// One box: an id, a user, a correlation id.

import { get } from "./api.js";
import { go, to } from "./route.js";
import { curl, Empty, html, Page, Read, useRead } from "./parts.js";
import { count } from "./words.js";

/** Where something of a kind is shown. @param {string} kind @param {string} id */
export const placeOf = (kind, id) =>
	({ thread: to(["threads", id]), workflow: to(["work", "workflow", id]), user: to(["users", id]),
		task: to(["work", "tasks"]), schedule: to(["work", "schedules"]) })[kind];

/** What was found, as lines. */
function lines(told) {
	const found = [];
	if (told.user)
		found.push(["user", told.user, Object.entries(told.kinds).map(([kind, many]) => count(many, kind)).join(", "),
			told.user]);
	for (const one of told.entities) found.push([one.kind, one.id, one.user ? `of ${one.user}` : "", one.id]);
	for (const one of told.threads) if (!told.entities.some((other) => other.kind === "thread" && other.id === one.id))
		found.push(["thread", one.title ?? one.id, `${count(one.messages, "message")} of ${one.user}`, one.id]);
	for (const one of told.operations)
		found.push(["operation", `#${one.number} ${one.what}`, `${one.target}, ${one.outcome}`, one.target]);
	return found;
}

export function Find({ query }) {
	const wanted = query.q ?? "";
	const read = useRead(async () => (wanted ? lines(await get("find", { text: wanted })) : null), [wanted]);
	const submit = (event) => {
		event.preventDefault();
		go(["find"], { q: event.target.elements.q.value.trim() });
	};
	return html`<${Page} title="Find" lead="An id or its beginning, a user, or a correlation id."
		copy=${[curl("find", { text: wanted || "ID" })]}>
		<form class="bar" role="search" onSubmit=${submit}>
			<label class="filter grow"><span>What</span>
				<input name="q" type="search" value=${wanted} key=${wanted} autocomplete="off" spellcheck="false"
					placeholder="s-abc123, u-42, refund-991 …" /></label><button class="full">Find</button></form>
		<${Read} of=${read}>
			${(found) => !found
				? html`<${Empty} title="What are you looking for?">
					<p>Paste an id from a log, a ticket or an alert. From every page <kbd>/</kbd> leads to the box.</p><//>`
			: found.length
				? html`<ul class="found">
					${found.map(([kind, name, why, id]) =>
						html`<li><a href=${placeOf(kind, id) ?? to(["operations"],
						{ target: kind === "operation" ? id : `${kind}/${id}` })}>
						<span class="pill">${kind}</span> <b>${name}</b> <span class="faint">${why}</span></a></li>`)}</ul>`
				: html`<${Empty} title=${`Nothing is called ${wanted}`}>
					<p>Is it in another namespace? A user is found by the whole id. Words that were said are not searched: they are
						personal data, and the store keeps no index of them.</p><//>`}<//>
	<//>`;
}
