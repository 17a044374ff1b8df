// The public REST API, and nothing else: who asks, what is asked, and how a failure reads.

const ROOT = new URL("../../v1/", import.meta.url);
const KEY = "stateward.key";

/** A refusal or failure: what the service's problem document says. */
export class Problem extends Error {
	/** @param {number} status @param {string} title @param {string} detail @param {string} [etag] */
	constructor(status, title, detail, etag) {
		super(detail);
		this.status = status;
		this.title = title;
		this.etag = etag;
	}
}

export const session = {
	/** @type {string | null} */
	get key() {
		return sessionStorage.getItem(KEY);
	},
	/** @param {string | null} key */
	set key(key) {
		if (key === null) sessionStorage.removeItem(KEY);
		else sessionStorage.setItem(KEY, key);
	},
	namespace: "", // "": the service's own, or the only one that the key is for
	/**
	 * What the key permits, once the service has said so.
	 * @type {{scope: string, namespaces: string[] | null, user: string | null, name: string,
	 *   expires_at: string | null} | null} */
	permits: null,
	/** Called when the service does not know the key. */
	refused: () => {},
};

const SCOPES = ["read", "write", "operate", "admin"];
/** Why the key is not enough for it; "": it is, or this is not known yet.
 * @param {string} scope @param {boolean} [everybody] whether it is nothing for a key of one user */
export function lacks(scope, everybody = false) {
	const key = session.permits;
	if (key && everybody && key.user !== null) return "This concerns all users, and your key is for one user.";
	return key && SCOPES.indexOf(key.scope) < SCOPES.indexOf(scope)
		? `It needs a key with the scope ${scope}. Yours has ${key.scope}.` : "";
}

/** A path below /v1 with its names quoted: at`threads/${id}`.
 * @param {TemplateStringsArray} parts @param {...unknown} names */
export const at = (parts, ...names) =>
	String.raw({ raw: parts.raw }, ...names.map((name) => encodeURIComponent(String(name))));

/** The address of what is asked. @param {string} path @param {Record<string, any>} [query] */
export function address(path, query = {}) {
	const url = new URL(path, ROOT);
	for (const [name, value] of Object.entries(query)) {
		if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
	}
	return url;
}

// By conversation, the entry of the operations log that says it was read. One look is one entry:
// whatever else is asked of the conversation waits until the first answer has told its number.
const LOOK = "stateward-look";
/** @type {Map<string, Promise<string | undefined>>} */
const looks = new Map();
/** @param {string} path */
const conversation = (path) => path.split("/").slice(0, 2).join("/");

/** Read a conversation, again if it was read before. @param {string} path @param {Record<string, any>} [query] */
export async function look(path, query) {
	looks.delete(conversation(path));
	const first = answer(path, { query });
	looks.set(conversation(path), first.then((told) => told.look, () => undefined));
	return (await first).data;
}

/** @param {string} path @param {Record<string, string>} [more] */
async function looking(path, more = {}) {
	const entry = await looks.get(conversation(path));
	return headers(entry ? { ...more, [LOOK]: entry } : more);
}

/** @param {Record<string, string>} [more] */
function headers(more = {}) {
	const all = { ...more };
	if (session.key) all.authorization = `Bearer ${session.key}`;
	if (session.namespace) all["stateward-namespace"] = encodeURIComponent(session.namespace);
	return all;
}

/** @param {Response} answer */
async function problem(answer) {
	const told = await answer.json().catch(() => ({}));
	if (answer.status === 401) session.refused();
	const detail = told.detail || `the service answered ${answer.status}`;
	return new Problem(answer.status, told.title || "The service failed", detail, answer.headers.get("etag") ?? undefined);
}

/** @param {URL} url @param {RequestInit} options */
async function reach(url, options) {
	try {
		return await fetch(url, { ...options, redirect: "error", cache: "no-store" });
	} catch (error) {
		if (options.signal?.aborted) throw error;
		throw new Problem(0, "The service does not answer",
			"Is it running, and is the network up? This page asks again when you press Refresh.");
	}
}

/** Ask, and get what was answered with its ETag.
 * @param {string} path
 * @param {{query?: Record<string, any>, method?: string, body?: any, type?: string, match?: string,
 *   signal?: AbortSignal}} [options] */
export async function answer(path, { query, method = "GET", body, type = "application/json", match, signal } = {}) {
	const given = await looking(path, body === undefined ? {} : { "content-type": type });
	if (path === "key") delete given["stateward-namespace"]; // it may be one that the key is not for
	if (match) given["if-match"] = match;
	const text = body === undefined ? undefined : JSON.stringify(body);
	const told = await reach(address(path, query), { method, headers: given, body: text, signal });
	if (!told.ok) throw await problem(told);
	const data = told.status === 204 ? null : await told.json();
	return { data, etag: told.headers.get("etag") ?? undefined, look: told.headers.get(LOOK) ?? undefined };
}

/** @param {string} path @param {Record<string, any>} [query] */
export const get = async (path, query) => (await answer(path, { query })).data;

/** @param {string} path @param {any} [body] @param {Record<string, any>} [query] */
export const post = async (path, body, query) =>
	(await answer(path, { method: "POST", body, query })).data;

/** A file to keep. @param {string} path @param {string} name */
export async function download(path, name) {
	const told = await reach(address(path), { headers: headers() });
	if (!told.ok) throw await problem(told);
	const link = document.createElement("a");
	link.href = URL.createObjectURL(await told.blob());
	link.download = name;
	link.click();
	setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Events of a stream until it ends or is aborted; comes again after the last one that was seen.
 * @param {string} path
 * @param {{query?: Record<string, any>, signal: AbortSignal,
 *   each: (event: {name: string, data: any, id: string}) => void,
 *   state?: (live: boolean) => void}} options */
export async function follow(path, { query = {}, signal, each, state = () => {} }) {
	let last = "";
	while (!signal.aborted) {
		try {
			const given = await looking(path, { accept: "text/event-stream" });
			if (last) given["last-event-id"] = last;
			const told = await reach(address(path, query), { headers: given, signal });
			if (!told.ok || !told.body) throw await problem(told);
			state(true);
			for await (const event of events(told.body)) {
				if (event.id) last = event.id;
				if (event.name === "reset") return each(event);
				if (event.name === "problem") throw new Problem(event.data.status, event.data.title, event.data.detail);
				each(event);
			}
			if (query.follow === false) return;
		} catch (error) {
			if (signal.aborted) return;
			if (error instanceof Problem && error.status >= 400 && error.status < 500) throw error;
			if (query.follow === false) throw error;
		}
		state(false);
		await new Promise((resolve) => setTimeout(resolve, 2000));
	}
}

/** @param {ReadableStream<Uint8Array>} body */
async function* events(body) {
	const reader = body.getReader();
	const decoder = new TextDecoder();
	let text = "";
	for (;;) {
		const { done, value } = await reader.read();
		if (done) return;
		text += decoder.decode(value, { stream: true });
		const blocks = text.split("\n\n");
		text = blocks.pop() ?? "";
		for (const block of blocks) {
			const event = { name: "message", data: "", id: "" };
			for (const line of block.split("\n")) {
				if (line.startsWith("data: ")) event.data += line.slice(6);
				else if (line.startsWith("id: ")) event.id = line.slice(4);
				else if (line.startsWith("event: ")) event.name = line.slice(7);
			}
			if (event.data) yield { ...event, data: JSON.parse(event.data) };
		}
	}
}
