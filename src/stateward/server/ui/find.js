// One box: an id, a user, a correlation id.

import { at, get } from "./api.js";
import { go, to } from "./route.js";
import { command, curl, Empty, Failure, html, Loading, Page, useRead } from "./parts.js";
import { count } from "./words.js";

/** What there is of that name; what is not there is no failure. @param {Promise<any>} asked */
const maybe = (asked) => asked.catch((error) => {
  if (error.status === 404 || error.status === 403 || error.status === 400 || error.status === 410) return null;
  throw error;
});

/** @param {string} wanted */
async function search(wanted) {
  const [thread, begins, theirs, documents, workflow, task, works] = await Promise.all([
    maybe(get(at`threads/${wanted}`, { last: 1 })), maybe(get("threads", { prefix: wanted, limit: 20 })), maybe(get("threads", { user: wanted, limit: 20 })),
    maybe(get(at`users/${wanted}/documents`, { limit: 20 })), maybe(get(at`workflows/${wanted}`)), maybe(get(at`tasks/${wanted}`)),
    maybe(get("workflows", { user: wanted, limit: 20 })),
  ]);
  const found = /** @type {{what: string, name: string, href: string, why: string}[]} */ ([]);
  if (thread) found.push({ what: "thread", name: wanted, href: to(["threads", wanted]), why: count(thread.omitted + thread.messages.length, "message") });
  const known = [theirs?.items.length && count(theirs.items.length, "conversation"), documents?.items.length && count(documents.items.length, "document"), works?.items.length && count(works.items.length, "workflow")].filter(Boolean);
  if (known.length) found.push({ what: "user", name: wanted, href: to(["users", wanted]), why: known.join(", ") });
  if (workflow) found.push({ what: "workflow", name: wanted, href: to(["work", "workflow", wanted]), why: `${workflow.kind}, ${workflow.status}` });
  if (task) found.push({ what: "task", name: task.name, href: to(["work", "tasks"], { status: task.status }), why: task.status });
  for (const one of begins?.items ?? []) if (one.id !== wanted) found.push({ what: "thread", name: one.title ?? one.id, href: to(["threads", one.id]), why: `its id begins so: ${one.id}` });
  for (const one of theirs?.items ?? []) if (one.id !== wanted) found.push({ what: "thread", name: one.title ?? one.id, href: to(["threads", one.id]), why: `${count(one.messages, "message")} of ${wanted}` });
  return found;
}

/** @param {{query: Record<string, string>}} props */
export function Find({ query }) {
  const wanted = query.q ?? "";
  const read = useRead(async () => (wanted ? search(wanted) : []), [wanted]);
  const submit = (event) => {
    event.preventDefault();
    go(["find"], { q: event.target.elements.q.value.trim() });
  };
  return html`<${Page} title="Find" lead="A conversation, a user, a workflow or a task, by its id or by how its id begins."
    copy=${wanted ? [curl("threads", { user: wanted }), command("user", "show", "$STATEWARD_URL", wanted)] : []}>
    <form class="bar" role="search" onSubmit=${submit}><label class="filter grow"><span>Id</span><input name="q" type="search" value=${wanted} key=${wanted} autofocus autocomplete="off" spellcheck="false" placeholder="s-abc123, u-42, refund-991 …" /></label><button class="full">Find</button></form>
    ${read.error && html`<${Failure} error=${read.error} />`}
    ${read.loading && wanted && html`<${Loading} />`}
    ${read.data && wanted && (read.data.length
      ? html`<ul class="found">${read.data.map((one) => html`<li><a href=${one.href}><span class="pill">${one.what}</span> <b>${one.name}</b> <span class="faint">${one.why}</span></a></li>`)}</ul>`
      : html`<${Empty} title=${`Nothing is called ${wanted}`}><p>Ids are compared as a whole; only a thread's may be given by its beginning. Is it in another namespace? Words that were said are not searched: they are personal data, and the store keeps no index of them.</p><//>`)}
    ${!wanted && html`<${Empty} title="What are you looking for?"><p>Paste an id from a log, a ticket or an alert. From every page <kbd>/</kbd> leads to the box.</p><//>`}
  <//>`;
}
