// Users: found by their id.

import { get } from "./api.js";
import { go, to } from "./route.js";
import { command, curl, Empty, html, Page, Read, Table, Time, useRead } from "./parts.js";

/** Whose conversations were touched last. @param {any[]} threads */
function lately(threads) {
  const users = new Map();
  for (const thread of threads) {
    if (thread.user === null) continue;
    const one = users.get(thread.user) ?? { id: thread.user, threads: 0, updated_at: thread.updated_at };
    one.threads += 1;
    users.set(thread.user, one);
  }
  return [...users.values()];
}

export function Users() {
  const read = useRead(() => get("threads", { limit: 200 }), []);
  const open = (event) => {
    event.preventDefault();
    const id = event.target.elements.id.value.trim();
    if (id) go(["users", id]);
  };
  return html`<${Page} title="Users" lead="What is known of a user, where they talked, and what is theirs to have or to have forgotten."
    copy=${[curl("threads", { limit: 200 }), command("user", "list", "$STATEWARD_URL")]}>
    <form class="bar" onSubmit=${open}><label class="filter"><span>User</span><input name="id" placeholder="exactly this id" required autocomplete="off" spellcheck="false" /></label><button class="full">Open</button></form>
    <div class="panel"><h2>Active lately <span class="faint">in the 200 conversations that were touched last</span></h2>
    <${Read} of=${read}>${(data) => {
      const users = lately(data.items);
      return users.length ? html`<${Table} label="Users" rows=${users} id=${(row) => row.id} columns=${[
        { head: "User", class: "wide", cell: (row) => html`<a href=${to(["users", row.id])}>${row.id}</a>` },
        { head: "Threads", class: "num", cell: (row) => html`<a href=${to(["threads"], { user: row.id })}>${row.threads}</a>` },
        { head: "Last touched", class: "when", cell: (row) => html`<${Time} at=${row.updated_at} />` },
      ]} />` : html`<${Empty} title="Nobody yet"><p>A user appears with the first conversation that is theirs, or with what an agent learns about them:</p>
        <pre class="json" tabindex="0">await store.user("u-42").patch({"language": "de"})</pre><//>`;
    }}<//></div>
  <//>`;
}
