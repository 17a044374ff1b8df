// What changed between two values, line by line of their JSON.

/** @param {any} before @param {any} after @returns {string[][]} each line with what became of it */
export function difference(before, after) {
	const [old, young] = [lines(before), lines(after)];
	if (old.length * young.length > 1_000_000)
		return [...old.map((text) => ["gone", text]), ...young.map((text) => ["came", text])];
	// The longest common subsequence, from the end.
	const table = Array.from({ length: old.length + 1 }, () => new Uint32Array(young.length + 1));
	for (let i = old.length - 1; i >= 0; i -= 1) {
		for (let j = young.length - 1; j >= 0; j -= 1) {
			table[i][j] = old[i] === young[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
		}
	}
	const found = [];
	let [i, j] = [0, 0];
	while (i < old.length || j < young.length) {
		if (i < old.length && j < young.length && old[i] === young[j]) {
			found.push(["same", old[i]]);
			i += 1;
			j += 1;
		} else if (i < old.length && (j === young.length || table[i + 1][j] >= table[i][j + 1]))
			found.push(["gone", old[i++]]);
		else found.push(["came", young[j++]]);
	}
	return found;
}

/** Names in order, no commas: a line differs only if what it says does. */
function lines(value) {
	if (value === null || value === undefined) return [];
	return JSON.stringify(ordered(value), null, 2).split("\n").map((line) => line.replace(/,$/, ""));
}

function ordered(value) {
	if (Array.isArray(value)) return value.map(ordered);
	if (typeof value !== "object" || value === null) return value;
	return Object.fromEntries(Object.keys(value).sort().map((name) => [name, ordered(value[name])]));
}
