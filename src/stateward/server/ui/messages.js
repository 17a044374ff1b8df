// A stored message taken apart: who speaks, what is said, which tools are called. As the command
// line does it, whatever form it has; one of no known form is its JSON.

/** @typedef {{id: string, name: string, arguments: string}} Call */
/** @typedef {{id: string, text: string, failed: boolean}} Result */
/** @typedef {{role: string, text: string, calls: Call[], results: Result[]}} View */

const TEXTS = ["text", "input_text", "output_text"];
const FILES = ["image", "image_url", "input_image", "document", "file", "input_file", "audio"];
const ROLES = /** @type {Record<string, string>} */ ({ model: "assistant", developer: "system", function: "tool",
	human: "user", ai: "assistant" });

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const listed = (value) => (Array.isArray(value) ? value : []);
function plain(value) {
	if (typeof value === "string") return value;
	const only = Array.isArray(value) && value.length === 1 && isObject(value[0]) ? value[0].text ?? value[0].json
		: undefined;
	return only === undefined ? JSON.stringify(value) ?? "" : plain(only);
}

export function view(message) {
	if (!isObject(message)) return { role: "–", text: plain(message), calls: [], results: [] };
	const { role, inner } = spoken(message);
	if ("sessionId" in message && inner === message && role !== "system") {
		return { role: "–", text: `[${message.type}]`, calls: [], results: [] }; // a note of Claude Code's
	}
	const calls = callsOf(inner);
	const results = resultsOf(inner, role);
	let text = role === "tool" && results.length ? "" : textOf(inner);
	if (!text && !calls.length && !results.length && !("content" in inner)) text = JSON.stringify(message);
	return { role: role || "–", text, calls, results };
}

function spoken(message) {
	let role = message.role ?? message.type;
	let inner = message;
	if (!("role" in message) && "type" in message)
		inner = [message.data, message.kwargs, message.message].find(isObject) ?? message;
	if (isObject(inner.content) && Array.isArray(inner.content.parts)) {
		role = message.author === "user" ? "user" : "assistant"; // an event of ADK
		inner = inner.content;
	}
	if (/_output$/.test(role)) role = "tool";
	else if (inner.call_id || role === "reasoning") role = "assistant";
	return { role: typeof role === "string" ? ROLES[role] ?? role : "", inner };
}

const blocks = (message) => [message, ...[...listed(message.content), ...listed(message.parts)].filter(isObject)];

function textOf(message) {
	if (typeof message.content === "string") return message.content;
	const said = [];
	for (const block of [...listed(message.content), ...listed(message.parts)]) {
		if (typeof block === "string") said.push(block);
		else if (isObject(block)) {
			const kind = String(block.type ?? "text");
			if (TEXTS.includes(kind) && typeof block.text === "string" && !block.thought) said.push(block.text);
			else if (FILES.includes(kind) || block.image || block.inline_data || block.file_data)
				said.push(`[${FILES.includes(kind) ? kind : "file"}]`);
		}
	}
	return said.join("\n");
}

function call(of, id, ...names) {
	const given = names.map((name) => of[name]).find((value) => value !== undefined) ?? {};
	return { id: String(id ?? ""), name: String(of.name ?? of.type ?? "a tool"), arguments: plain(given) };
}

function callsOf(message) {
	const found = [];
	for (const each of listed(message.tool_calls).filter(isObject)) {
		const of = each.function ?? each.custom ?? each;
		if (isObject(of)) found.push(call(of, each.id, "arguments", "args", "input"));
	}
	for (const block of blocks(message)) {
		const kind = String(block.type ?? "");
		const part = block.functionCall ?? block.function_call;
		if (isObject(block.toolUse)) found.push(call(block.toolUse, block.toolUse.toolUseId, "input"));
		else if (kind.endsWith("tool_use")) found.push(call(block, block.id, "input"));
		else if (kind.endsWith("_call") && "call_id" in block)
			found.push(call(block, block.call_id, "arguments", "input", "action"));
		else if (isObject(part)) found.push(call(part, part.id ?? part.name, "args", "arguments"));
	}
	return found;
}

function resultsOf(message, role) {
	const found = [];
	if ("tool_call_id" in message || (role === "tool" && typeof message.content === "string")) {
		const id = message.tool_call_id ?? message.name ?? "";
		return [{ id: String(id), text: plain(message.content), failed: message.status === "error" }];
	}
	for (const block of blocks(message)) {
		const part = block.functionResponse ?? block.function_response;
		if (isObject(block.toolResult)) {
			const told = block.toolResult;
			found.push({ id: String(told.toolUseId), text: plain(told.content), failed: told.status === "error" });
		} else if ("tool_use_id" in block) {
			found.push({ id: String(block.tool_use_id), text: plain(block.content), failed: Boolean(block.is_error) });
		} else if (String(block.type ?? "").endsWith("_output") && (block.call_id || block.id)) {
			found.push({ id: String(block.call_id ?? block.id), text: plain(block.output), failed: false });
		} else if (isObject(part)) {
			found.push({ id: String(part.id ?? part.name), text: plain(part.response), failed: false });
		}
	}
	return found;
}
