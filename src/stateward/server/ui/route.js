// Where one is: it stands in the fragment, which no server and no log ever sees.

/** @typedef {{path: string[], query: Record<string, string>}} Place */

/** @returns {Place} */
export function here() {
	const [path, asked = ""] = location.hash.replace(/^#\/?/, "").split("?");
	const names = path.split("/").filter(Boolean).map(unquoted);
	return { path: names.length ? names : ["now"], query: Object.fromEntries(new URLSearchParams(asked)) };
}

/** @param {string} text */
function unquoted(text) {
	try {
		return decodeURIComponent(text);
	} catch {
		return text; // it was typed
	}
}

/** A link to a place; the namespace that is looked at goes along.
 * @param {(string | number)[]} path @param {Record<string, any>} [query] */
export function to(path, query = {}) {
	const all = { in: here().query.in, ...query };
	const asked =
		new URLSearchParams(Object.entries(all).filter(([, value]) => value !== undefined && value !== null &&
			value !== ""));
	return `#/${path.map((name) => encodeURIComponent(name)).join("/")}${asked.size ? `?${asked}` : ""}`;
}

/** @param {(string | number)[]} path @param {Record<string, any>} [query] */
export function go(path, query) {
	location.hash = to(path, query);
}

/** The same page with other filters, in the place of this one. @param {Record<string, any>} query */
export function refine(query) {
	const { path, query: old } = here();
	history.replaceState(null, "", to(path, { ...old, ...query }));
	dispatchEvent(new HashChangeEvent("hashchange"));
}
