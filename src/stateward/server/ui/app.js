// The shell: who is signed in, where one is, and the keyboard.

import { render } from "./vendor/preact.js";
import { useEffect, useRef, useState } from "./vendor/preact-hooks.js";
import { get, lacks, session } from "./api.js";
import { go, here, refine, to } from "./route.js";
import { Empty, html, Page, Time } from "./parts.js";
import { SignIn, takeKey } from "./sign_in.js";
import { Now } from "./now.js";
import { Find } from "./find.js";
import { Threads } from "./threads.js";
import { Thread } from "./thread.js";
import { Users } from "./users.js";
import { User } from "./user.js";
import { DocumentPage } from "./document.js";
import { Work } from "./work.js";
import { WorkflowPage } from "./workflow.js";
import { Leases } from "./leases.js";
import { Signals } from "./signals.js";
import { Storage } from "./storage.js";
import { Operations } from "./operations.js";
import { Keys } from "./keys.js";
import { Audits } from "./audits.js";

/**
 * name → what it is called, the key that leads there after g, the page, and what it needs: a scope, and
 * whether it is about everybody.
 * @typedef {{title: string, letter: string, page: (props: any) => any, needs?: [string, boolean]}} PageEntry */
const PAGES = /** @type {Record<string, PageEntry>} */ ({
	now: { title: "Now", letter: "n", page: Now, needs: ["operate", true] },
	find: { title: "Find", letter: "f", page: Find, needs: ["operate", true] },
	threads: { title: "Threads", letter: "t", page: (props) => html`<${props.path[1] ? Thread : Threads} ...${props} />` },
	users: { title: "Users", letter: "u",
		page: (props) => html`<${props.path[2] ? DocumentPage : props.path[1] ? User : Users} ...${props} />` },
	work: { title: "Work", letter: "w",
		page: (props) => html`<${props.path[1] === "workflow" && props.path[2] ? WorkflowPage : Work} ...${props} />` },
	leases: { title: "Leases", letter: "l", page: Leases, needs: ["read", true] },
	signals: { title: "Signals", letter: "s", page: Signals, needs: ["read", true] },
	storage: { title: "Storage", letter: "d", page: Storage, needs: ["operate", true] },
	audits: { title: "Audit", letter: "a", page: Audits, needs: ["read", true] },
	operations: { title: "Operations log", letter: "o", page: Operations, needs: ["operate", true] },
	keys: { title: "Keys", letter: "k", page: Keys, needs: ["admin", true] },
});
/** Why the key is not enough for a page. @param {string} name */
const missing = (name) => lacks(...(PAGES[name].needs ?? /** @type {[string, boolean]} */ (["read", false])));
const GROUPS = [["now", "find"], ["threads", "users"], ["work", "leases"], ["signals", "storage", "audits"],
	["operations", "keys"]];

// --- light and dark -----------------------------------------------------------------------

const THEME = "stateward.theme";
function wear(theme) {
	if (theme) document.documentElement.dataset.theme = theme;
	else delete document.documentElement.dataset.theme;
}
wear(localStorage.getItem(THEME));

function ThemeSwitch() {
	const [theme, setTheme] = useState(localStorage.getItem(THEME) ?? "");
	const next = { "": "light", light: "dark", dark: "" }[theme] ?? "";
	const turn = () => {
		setTheme(next);
		if (next) localStorage.setItem(THEME, next);
		else localStorage.removeItem(THEME);
		wear(next);
		dispatchEvent(new Event("theme"));
	};
	return html`<button class="quiet" onClick=${turn} title="Light, dark, or as the system says">
		${{ "": "Theme: system", light: "Theme: light", dark: "Theme: dark" }[theme]}</button>`;
}

// --- the frame ----------------------------------------------------------------------------

function Frame({ place, permits }) {
	const [open, setOpen] = useState(false);
	const [help, setHelp] = useState(false);
	const box = useRef(/** @type {HTMLInputElement | null} */ (null));
	const current = PAGES[place.path[0]];
	useEffect(() => setOpen(false), [place]);
	useEffect(() =>
		keyboard(() => { setOpen(true); box.current?.focus(); requestAnimationFrame(() => box.current?.focus()); },
			() => setHelp((old) => !old)), []);
	const find = (event) => {
		event.preventDefault();
		const wanted = box.current?.value.trim();
		if (wanted) go(["find"], { q: wanted });
		box.current?.blur();
	};
	return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); focusMain(); }}>To the page</a>
		<nav class=${open ? "side open" : "side"} aria-label="Pages">
			<div class="brand">
				<a href=${to(["now"])}>
					<img src=${new URL("mark.svg", import.meta.url).href} alt="" width="22" height="22" /> Stateward</a>
				<button class="menu" aria-expanded=${open} aria-controls="menu" onClick=${() => setOpen(!open)}>Menu</button></div>
			<div id="menu" class="menu-body">
				<form role="search" onSubmit=${find}>
					<input ref=${box} type="search" aria-label="Find an id, a user or a correlation id" placeholder="Find  ( / )"
						spellcheck="false" autocomplete="off" /></form>
				${GROUPS.map((names) =>
					html`<ul>${names.map((name) =>
							html`<li><a href=${to([name])} aria-current=${place.path[0] === name ? "page" : undefined}
							class=${missing(name) ? "closed" : ""} title=${missing(name) || undefined}>${PAGES[name].title}</a></li>`)}
						</ul>`)}
				<div class="foot">
					${permits &&
						html`<p class="faint" title=${`Key ${permits.name}`}>Key: ${permits.scope}
							${permits.user !== null && `, for ${permits.user}`}
							${permits.expires_at && html`, ends <${Time} at=${permits.expires_at} />`}</p>`}
					<${Namespaces} chosen=${place.query.in ?? ""} permits=${permits} />
					<${ThemeSwitch} />
					<button class="quiet" onClick=${() => setHelp(true)}>Keyboard ( ? )</button>
					${session.key && html`<button class="quiet" onClick=${signOut}>Sign out</button>`}
				</div>
			</div>
		</nav>
		<main id="main" tabindex="-1">
			${current
				? html`<${current.page} key=${`${place.query.in ?? ""}/${place.path.join("/")}`} path=${place.path}
					query=${place.query} />`
				: html`<${Page} title="No such page">
					<${Empty} title="There is no such page">
						<p>Go to <a href=${to(["now"])}>Now</a>, or press <kbd>/</kbd> to find something.</p><//><//>`}
		</main>
		${help && html`<${Help} onClose=${() => setHelp(false)} />`}`;
}

function Namespaces({ chosen, permits }) {
	const [found, setFound] = useState(/** @type {string[]} */ ([]));
	useEffect(() => {
		if (permits?.namespaces === null && !lacks("operate", true))
			get("namespaces").then((told) => setFound(told.items), () => {});
	}, [permits]);
	const names = permits?.namespaces ?? found;
	const all = chosen && !names.includes(chosen) ? [chosen, ...names] : names;
	if (all.length < 2 && !chosen) return null;
	return html`<label class="filter"><span>Namespace</span>
		<select value=${chosen} onChange=${(event) => refine({ in: event.target.value })}>
		${(permits?.namespaces ?? []).length < 2 && html`<option value="">the key's own</option>`}
			${all.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>`;
}

function signOut() {
	session.key = session.permits = null;
	dispatchEvent(new Event("session"));
}

// --- the keyboard -------------------------------------------------------------------------

function keyboard(find, help) {
	let before = "";
	const pressed = (/** @type {KeyboardEvent} */ event) => {
		const target = /** @type {HTMLElement} */ (event.target);
		if (event.ctrlKey || event.metaKey || event.altKey ||
				target.closest("input:not([type=checkbox]), textarea, select, dialog[open]"))
			return; // one that was just closed may have the focus still
		const letter = event.key;
		const leads = before === "g" && Object.entries(PAGES).find(([, page]) => page.letter === letter);
		before = letter;
		if (leads) go([leads[0]]);
		else if (letter === "/") find();
		else if (letter === "?") help();
		else if (letter === "r") dispatchEvent(new Event("refresh"));
		else if (letter === "j" || letter === "k") move(letter === "j" ? 1 : -1);
		else return;
		before = leads ? "" : before;
		event.preventDefault();
	};
	addEventListener("keydown", pressed);
	return () => removeEventListener("keydown", pressed);
}

/** To the next row, or the one before. @param {number} by */
function move(by) {
	const rows = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("main .rows tbody tr, main .message")]);
	const stops = rows.map((row) => row.querySelector("a, summary, button") ?? row);
	const now = rows.findIndex((row) => row.contains(document.activeElement));
	const next = stops[Math.min(Math.max(now + by, 0), stops.length - 1)];
	if (next instanceof HTMLElement) next.focus();
}

const focusMain = () => document.getElementById("main")?.focus();

function Help({ onClose }) {
	const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
	useEffect(() => dialog.current?.showModal(), []);
	const keys = [["/", "find"], ["j  k", "next row, row before"], ["r", "refresh"], ["?", "this"],
		...Object.values(PAGES).map((page) => [`g  ${page.letter}`, page.title])];
	return html`<dialog ref=${dialog} onClose=${onClose} aria-label="Keyboard"><form method="dialog"><h2>Keyboard</h2>
		<dl class="keys">
			${keys.map(([key, what]) =>
				html`<div><dt>${key.split("  ").map((one) => html`<kbd>${one}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl>
		<div class="buttons"><button autofocus>Close</button></div></form></dialog>`;
}

// --- all of it ----------------------------------------------------------------------------

function App() {
	const [place, setPlace] = useState(here());
	const [door, setDoor] = useState(/** @type {"asking" | "in" | "out"} */ (session.key ? "in" : "asking"));
	const [refused, setRefused] = useState(false);
	const [permits, setPermits] = useState(session.permits);
	session.namespace = place.query.in ?? "";
	useEffect(() => {
		const moved = () => {
			takeKey();
			setPlace(here());
			scrollTo(0, 0);
			const focused = document.activeElement;
			if (!focused || focused === document.body || focused.closest("nav")) focusMain();
		};
		const entered = () => {
			setRefused(false);
			setDoor(session.key ? "in" : "asking");
		};
		session.refused = () => {
			setRefused(session.key !== null);
			session.key = null;
			setDoor("out");
		};
		addEventListener("hashchange", moved);
		addEventListener("session", entered);
		return () => {
			removeEventListener("hashchange", moved);
			removeEventListener("session", entered);
		};
	}, []);
	useEffect(() => {
		if (door === "out") return;
		// A service on this machine may need no key: the first answer says.
		get("key").then((told) => {
			session.permits = told;
			setPermits(told);
			setDoor("in");
			const { path, query } = here();
			if (told.namespaces?.length > 1 && !query.in) refine({ in: told.namespaces[0] });
			else if (path[0] === "now" && lacks("operate", true)) go(["threads"]); // the first page that it is enough for
		}, () => door === "asking" && setDoor("out"));
	}, [door, session.key]);
	if (door === "asking") return null;
	return door === "out" ? html`<${SignIn} refused=${refused} />` : html`<${Frame} place=${place} permits=${permits} />`;
}

takeKey();
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
root.replaceChildren();
render(html`<${App} />`, root);
