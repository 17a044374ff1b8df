// Numbers, times and names as people read them.

const UNITS = /** @type {const} */ ([["d", 86400], ["h", 3600], ["min", 60], ["s", 1]]);

/** How long, in the two largest units that say something: 3 h 12 min. @param {number} seconds */
export function span(seconds) {
	const whole = Math.round(Math.abs(seconds));
	if (whole < 1) return "0 s";
	const at = UNITS.findIndex(([, size]) => whole >= size);
	const [unit, size] = UNITS[at];
	const first = `${Math.floor(whole / size)} ${unit}`;
	const next = UNITS[at + 1];
	const rest = next ? Math.floor((whole % size) / next[1]) : 0;
	return rest && whole / size < 10 ? `${first} ${rest} ${next[0]}` : first;
}

export function ago(at, now) {
	if (!at) return "–";
	const seconds = (now - Date.parse(at)) / 1000;
	if (Math.abs(seconds) < 2) return "now";
	return seconds > 0 ? `${span(seconds)} ago` : `in ${span(seconds)}`;
}

export const clock = (at) => new Date(at).toLocaleTimeString([],
	{ hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

export const day = (at) => new Date(at).toLocaleDateString([],
	{ weekday: "short", year: "numeric", month: "short", day: "numeric" });

/** In the reader's own time zone, and as it is stored. @param {string} at */
export const exact = (at) =>
	`${new Date(at).toLocaleString([], { dateStyle: "medium", timeStyle: "long", hourCycle: "h23" })}\n${at}`;

export const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));

export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

export function bytes(value) {
	if (value === null || value === undefined) return "–";
	const units = ["B", "KB", "MB", "GB", "TB"];
	let at = 0;
	while (value >= 1000 && at < units.length - 1) {
		value /= 1000;
		at += 1;
	}
	return `${value.toLocaleString("en", { maximumFractionDigits: value < 10 && at ? 1 : 0 })} ${units[at]}`;
}

export function millis(seconds) {
	if (seconds === null || seconds === undefined) return "–";
	const ms = seconds * 1000;
	return ms >= 1000 ? `${(ms / 1000).toFixed(1)} s`
		: `${ms.toLocaleString("en", { maximumFractionDigits: ms < 10 ? 1 : 0 })} ms`;
}

/** One line of a value. @param {any} value */
export const line = (value) => (typeof value === "string" ? value : JSON.stringify(value) ?? "");

export const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "");

/** For a shell. @param {string} text */
export const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
