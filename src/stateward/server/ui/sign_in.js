// Who is asking: the key stays in this tab, and leaves with it.

import { useState } from "./vendor/preact-hooks.js";
import { get, session } from "./api.js";
import { Code, Failure, html } from "./parts.js";

/** `stateward ui` opens the page with a key in the fragment: it is taken, and the address cleaned. */
export function takeKey() {
	const given = /^#key=([\w.-]+)$/.exec(location.hash);
	if (!given) return;
	session.key = given[1];
	history.replaceState(null, "", "#/now");
	dispatchEvent(new Event("session"));
}

export function SignIn({ refused }) {
	const [error, setError] = useState(/** @type {any} */ (null));
	const [busy, setBusy] = useState(false);
	const enter = async (event) => {
		event.preventDefault();
		setBusy(true);
		session.key = event.target.elements.key.value.trim();
		try {
			await get("key");
			dispatchEvent(new Event("session"));
		} catch (failed) {
			session.key = null;
			setError(failed);
		}
		setBusy(false);
	};
	return html`<main class="sign-in"><form onSubmit=${enter}>
		<h1><img src=${new URL("mark.svg", import.meta.url).href} alt="" width="28" height="28" /> Stateward</h1>
		${error ? html`<${Failure} error=${error} />`
			: refused && html`<div class="note warn" role="status"><strong>The key is no longer in force</strong>
				<p>It was revoked, or has expired. Sign in with another one.</p></div>`}
		<label class="field"><span>Key</span>
			<input name="key" type="password" required autocomplete="off" autofocus placeholder="sw.…" /></label>
		<button class="full" disabled=${busy}>${busy ? "Asking…" : "Sign in"}</button>
		<p class="faint">It stays in this tab until you close it. One that may look and act:</p>
		<${Code}>stateward key create "$STATEWARD_URL" --scope operate<//>
		<p class="faint">On this machine, <code>stateward ui "$STATEWARD_URL"</code> opens the dashboard without one.</p>
	</form></main>`;
}
