// What pages are made of. All content is a text node: nothing that is stored is ever read as HTML.

import { h } from "./vendor/preact.js";
import { useCallback, useEffect, useRef, useState } from "./vendor/preact-hooks.js";
import htm from "./vendor/htm.js";
import { address, lacks, Problem, session } from "./api.js";
import { to } from "./route.js";
import { ago, exact, line, quoted } from "./words.js";

export const html = htm.bind(h);

// --- reading ------------------------------------------------------------------------------

/** What a function reads, read again when `deps` change, on Refresh, and `every` so many seconds.
 * @template T @param {() => Promise<T>} read @param {any[]} deps @param {{every?: number}} [options]
 * @returns {{data: T | undefined, error: any, loading: boolean, reload: () => Promise<void>}} */
export function useRead(read, deps, { every = 0 } = {}) {
	const [state, setState] = useState(/** @type {any} */ ({ loading: true }));
	const turn = useRef(0);
	const reload = useCallback(async () => {
		const mine = ++turn.current;
		try {
			const data = await read();
			if (mine === turn.current) setState({ data, loading: false });
		} catch (error) {
			if (mine === turn.current) setState((old) => ({ data: old.data, error, loading: false }));
		}
	}, deps);
	useEffect(() => {
		setState({ loading: true });
		reload();
		addEventListener("refresh", reload);
		const timer = every ? setInterval(() => document.hidden || reload(), every * 1000) : 0;
		return () => {
			turn.current += 1;
			removeEventListener("refresh", reload);
			clearInterval(timer);
		};
	}, [reload]);
	return { ...state, reload };
}

/** Pages of a list, each read when it is asked for.
 * @param {(after: string | undefined) => Promise<{items: any[], next: string | null}>} read @param {any[]} deps */
export function useList(read, deps) {
	const first = useRead(() => read(undefined), deps);
	const [more, setMore] =
		useState({ of: /** @type {any} */ (null), items: /** @type {any[]} */ ([]),
			next: /** @type {string | null} */ (null) });
	const mine = more.of === first.data ? more : { items: [], next: first.data?.next ?? null };
	const [failed, setFailed] = useState(/** @type {any} */ (null));
	const onMore = async () => {
		try {
			const page = await read(mine.next ?? undefined);
			setMore({ of: first.data, items: [...mine.items, ...page.items], next: page.next });
			setFailed(null);
		} catch (error) {
			setFailed(error);
		}
	};
	const items = first.data ? [...first.data.items, ...mine.items] : undefined;
	return { ...first, items, next: mine.next, onMore, error: first.error ?? failed };
}

let ticking = 0;
/** The current time: relative times on a page that stays open are never stale. */
function useNow() {
	const [now, setNow] = useState(Date.now());
	useEffect(() => {
		const tick = () => setNow(Date.now());
		addEventListener("tick", tick);
		ticking ||= setInterval(() => dispatchEvent(new Event("tick")), 5000);
		return () => removeEventListener("tick", tick);
	}, []);
	return now;
}

// --- words --------------------------------------------------------------------------------

export function Time({ at }) {
	const now = useNow();
	return at ? html`<time datetime=${at} title=${exact(at)}>${ago(at, now)}</time>` : html`<span class="faint">–</span>`;
}

const TONES = /** @type {Record<string, string>} */ ({
	ok: "good", completed: "good", done: "good", live: "good", pass: "good", active: "calm", running: "calm",
	pending: "calm", intended: "calm", failed: "bad", fail: "bad", down: "bad", unknown: "warn", waiting: "warn",
	overdue: "bad", cancelled: "faint", late: "warn", silent: "warn", revoked: "faint", expired: "faint", warn: "warn",
});
export const Pill = ({ of, tone }) => html`<span class=${`pill ${tone ?? TONES[of] ?? "faint"}`}>${of}</span>`;

/** Text that may be long: cut, and unfolded on demand. */
export function Long({ text, most = 900 }) {
	const [open, setOpen] = useState(false);
	const lines = text.split("\n");
	const cut = lines.length > 14 ? lines.slice(0, 12).join("\n").slice(0, most) : text.slice(0, most);
	const rest = text.length - cut.length;
	if (rest < 80) return html`<div class="said">${text}</div>`;
	const label = open ? "Show less" : `Show ${rest.toLocaleString("en")} more characters`;
	return html`<div class="said">${open ? text : cut}${open ? "" : "…"}</div>
		<button class="link" aria-expanded=${open} onClick=${() => setOpen(!open)}>${label}</button>`;
}

/** Something to unfold. */
export const Fold = ({ summary, children, open, class: name = "" }) =>
	html`<details class=${`fold ${name}`} open=${open}><summary>${summary}</summary>${children}</details>`;

export const Json = ({ value }) =>
	html`<pre class="json" tabindex="0">${typeof value === "string" ? value : JSON.stringify(value, null, 2)}</pre>`;

/** What to type. */
export const Code = ({ children }) => html`<pre class="json" tabindex="0">${children}</pre>`;

export const Facts = ({ items }) =>
	html`<dl class="facts">
		${items.filter(([, value]) => value !== undefined)
			.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

// --- states -------------------------------------------------------------------------------

export function Failure({ error }) {
	const known = error instanceof Problem;
	const again = known && (error.status === 0 || error.status >= 500);
	return html`<div class="note bad" role="alert">
		<strong>${known ? error.title : "The page failed"}</strong>
		<p>${error.message}${known && error.status ? html` <span class="faint">(${error.status})</span>` : ""}</p>
		${again && html`<p><button onClick=${() => dispatchEvent(new Event("refresh"))}>Ask again</button></p>`}
	</div>`;
}

/** What would be here, and how to make it appear. */
export const Empty = ({ title, children }) => html`<div class="empty"><h2>${title}</h2>${children}</div>`;

export const Loading = () =>
	html`<div class="loading" aria-busy="true"><i></i><i></i><i></i><span class="hidden">Reading…</span></div>`;

/** What was read, or why not, or that it is being read.
 * @param {{of: {data?: any, error?: any, loading: boolean}, children: (data: any) => any}} props */
export function Read({ of, children }) {
	return html`${of.error && html`<${Failure} error=${of.error} />`}
		${of.data !== undefined ? children(of.data) : of.loading && html`<${Loading} />`}`;
}

// --- lists --------------------------------------------------------------------------------

/** What it is called, its class, and what it shows of a row. @typedef {[string, string, (row: any) => any]} Column */

/** Rows; on a narrow screen each becomes a small card.
 * @param {{label: string, columns: Column[], rows: any[], id: (row: any) => string, chosen?: Set<string>,
 *   onChoose?: (ids: Set<string>) => void}} props */
export function Table({ label, columns, rows, id, chosen, onChoose }) {
	const choose = (one) => {
		const next = new Set(chosen);
		if (!next.delete(one)) next.add(one);
		onChoose?.(next);
	};
	const all = chosen && rows.length > 0 && rows.every((row) => chosen.has(id(row)));
	return html`<table class="rows" aria-label=${label}>
		<thead><tr>
			${chosen &&
				html`<th class="check">
					<input type="checkbox" aria-label="Choose all" checked=${all}
						onChange=${() => onChoose?.(all ? new Set() : new Set(rows.map(id)))} /></th>`}
			${columns.map(([head, name]) => html`<th class=${name} scope="col">${head}</th>`)}
		</tr></thead>
		<tbody>${rows.map((row) => html`<tr key=${id(row)} class=${chosen?.has(id(row)) ? "chosen" : ""}>
			${chosen &&
				html`<td class="check">
					<input type="checkbox" aria-label=${`Choose ${id(row)}`} checked=${chosen.has(id(row))}
						onChange=${() => choose(id(row))} /></td>`}
			${columns.map(([head, name, cell]) => html`<td class=${name} data-head=${head}>${cell(row)}</td>`)}
		</tr>`)}</tbody>
	</table>`;
}

/** A list with what comes after it. */
export function Listing({ list, empty, children }) {
	if (list.items === undefined) return list.error ? html`<${Failure} error=${list.error} />` : html`<${Loading} />`;
	return html`${list.error && html`<${Failure} error=${list.error} />`}
		${list.items.length ? children(list.items) : empty}
		${list.items.length > 0 && list.next &&
			html`<p class="more">
				<button onClick=${list.onMore}>Show more</button> <span class="faint">
					${list.items.length.toLocaleString("en")} so far</span></p>`}`;
}

/** Choices next to each other. */
export const Choice = ({ label, value, options, onChange }) =>
	html`<div class="choice" role="group" aria-label=${label}>
		${options.map(([key, text]) =>
			html`<button aria-pressed=${key === value} onClick=${() => onChange(key)}>${text}</button>`)}
	</div>`;

/** A filter that is a word. */
export const Filter = ({ label, value = "", placeholder = "", onChange }) =>
	html`<label class="filter"><span>${label}</span>
		<input type="search" value=${value} placeholder=${placeholder} spellcheck="false" autocomplete="off"
			onChange=${(event) => onChange(event.target.value.trim())} /></label>`;

/** Columns that many lists have. @param {string} head @param {string} name @returns {Column} */
export const when = (head, name) => [head, "when", (row) => html`<${Time} at=${row[name]} />`];
/** @type {Column} */
export const status = ["Status", "tight", (row) => html`<${Pill} of=${row.status} />`];
/** @type {Column} */
export const theUser = ["User", "", (row) => row.user && html`<a href=${to(["users", row.user])}>${row.user}</a>`];

// --- acting -------------------------------------------------------------------------------

/** A button that asks before it acts; `typed` must be typed first, `fields` are filled in.
 * @param {{label: string, title: string, children?: any, done?: (result: any) => any,
 *   act: (given: Record<string, string>) => Promise<any>, typed?: string, typedWhat?: string,
 *   fields?: {name: string, label: string, value?: string, long?: boolean, required?: boolean,
 *     options?: string[]}[],
 *   danger?: boolean, disabled?: boolean, small?: boolean, needs?: string}} props */
export function Act({ label, title, children, act, done, typed, typedWhat, fields = [], danger, disabled, small,
	needs = "operate" }) {
	const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
	const acted = useRef(false);
	const [state, setState] = useState(/** @type {{busy?: boolean, error?: any, result?: any}} */ ({}));
	const [word, setWord] = useState("");
	const open = () => {
		setState({});
		setWord("");
		dialog.current?.showModal();
	};
	const close = () => dialog.current?.close();
	const closed = () => {
		if (acted.current) dispatchEvent(new Event("refresh")); // not before: the row may go, with what was told
		acted.current = false;
	};
	const submit = async (event) => {
		event.preventDefault();
		const given = /** @type {Record<string, string>} */ (Object.fromEntries(new FormData(event.target)));
		setState({ busy: true });
		try {
			const result = await act(given);
			setState(done ? { result: done(result) ?? "Done." } : {});
			acted.current = true;
			if (!done) close();
		} catch (error) {
			setState({ error });
		}
	};
	return html`<button class=${`${danger ? "danger" : ""} ${small ? "small" : ""}`}
		disabled=${disabled || lacks(needs) !== ""} title=${lacks(needs) || undefined} onClick=${open}>${label}</button>
		<dialog ref=${dialog} aria-label=${title} onClose=${closed}>
			<form onSubmit=${submit}>
				<h2>${title}</h2>
				${state.result ? html`<div class="result">${state.result}</div>` : html`
					<div class="about">${children}</div>
					${fields.map((field) => html`<label class="field"><span>${field.label}</span>
						${field.options
							? html`<select name=${field.name}>${field.options.map((one) => html`<option>${one}</option>`)}</select>`
							: field.long
							? html`<textarea name=${field.name} rows="8" required=${field.required} spellcheck="false">${field.value ?? ""}
								</textarea>`
							: html`<input name=${field.name} value=${field.value ?? ""} required=${field.required} autocomplete="off"
								spellcheck="false" />`}
					</label>`)}
					${typed !== undefined &&
						html`<label class="field"><span>Type ${typedWhat ?? ""} <b class="mono">${typed}</b> to continue</span>
						<input name="typed" value=${word} autocomplete="off" spellcheck="false"
							onInput=${(event) => setWord(event.target.value)} /></label>`}
					${state.error && html`<${Failure} error=${state.error} />`}`}
				<div class="buttons">
					<button type="button" onClick=${close}>${state.result ? "Close" : "Leave it"}</button>
					${!state.result &&
						html`<button type="submit" class=${danger ? "danger full" : "full"}
							disabled=${state.busy || (typed !== undefined && word !== typed)}>${state.busy ? "Working…" : label}</button>`}
				</div>
			</form>
		</dialog>`;
}

/** Do it to each of them; what failed is told, and does not keep the others from it.
 * @param {Iterable<string>} ids @param {(id: string) => Promise<any>} act */
export async function each(ids, act) {
	const failed = /** @type {[string, string][]} */ ([]);
	let done = 0;
	for (const id of ids) {
		try {
			await act(id);
			done += 1;
		} catch (error) {
			failed.push([id, error instanceof Error ? error.message : String(error)]);
		}
	}
	return { done, failed };
}

export const Told = ({ done, failed }) => html`<p>${done} done${failed.length ? `, ${failed.length} refused:` : "."}</p>
	${failed.length > 0 && html`<ul>${failed.map(([id, why]) => html`<li><b class="mono">${id}</b> ${why}</li>`)}</ul>`}`;

// --- a page -------------------------------------------------------------------------------

/** The same for a terminal. @param {string} path @param {Record<string, any>} [query] */
export function curl(path, query) {
	const given = session.namespace
		? ` -H ${quoted(`stateward-namespace: ${encodeURIComponent(session.namespace)}`)}` : "";
	return `curl -H "authorization: Bearer $STATEWARD_KEY"${given} ${quoted(address(path, query).href)}`;
}

/** @param {...string} words */
export function command(...words) {
	const given = session.namespace ? ["--namespace", session.namespace] : [];
	return ["stateward", ...[...words, ...given].map(quoted)].join(" ").replace(/'?\$STATEWARD_URL'?/, '"$STATEWARD_URL"');
}

function Copy({ lines }) {
	const [copied, setCopied] = useState(-1);
	const copy = async (at) => {
		await navigator.clipboard?.writeText(lines[at]).catch(() => {});
		setCopied(at);
		setTimeout(() => setCopied(-1), 1500);
	};
	return html`<footer class="copy" aria-label="The same in a terminal">
		${lines.map((text, at) =>
			html`<div><code>${text}</code>
				<button class="small" aria-label=${`Copy: ${text}`} onClick=${() => copy(at)}>${copied === at ? "Copied" : "Copy"}
				</button></div>`)}
	</footer>`;
}

/** */
export function Page({ title, name, lead, actions, copy = [], children }) {
	useEffect(() => {
		document.title = `${name ?? line(title)} · Stateward`;
	}, [name, title]);
	return html`<header class="head"><div><h1 tabindex="-1">${title}</h1>${lead && html`<p class="lead">${lead}</p>`}</div>
			<div class="actions">${actions}</div></header>
		<div class="content">${children}</div>
		${copy.length > 0 && html`<${Copy} lines=${copy} />`}`;
}
