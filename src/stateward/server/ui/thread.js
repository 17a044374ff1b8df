// One conversation, live: what was said, and what the agent knew when it said it.

import { useEffect, useMemo, useState } from "./vendor/preact-hooks.js";
import { answer, at, follow, get, post } from "./api.js";
import { go, refine, to } from "./route.js";
import { Act, command, curl, Empty, Facts, Failure, html, Loading, Page, Time, useRead } from "./parts.js";
import { earlier, Transcript } from "./transcript.js";
import { Knew } from "./knew.js";
import { marksOf } from "./marks.js";
import { number } from "./words.js";

const PAGE = 60; // messages that are shown at first, and more at a time

/** @typedef {import("./transcript.js").Entry} Entry */

/** The messages after a place, up to another one. @param {string} id @param {number} after @param {number} upto */
async function stretch(id, after, upto) {
  const found = /** @type {Entry[]} */ ([]);
  const stop = new AbortController();
  await follow(at`threads/${id}/changes`, {
    query: { after, follow: false },
    signal: stop.signal,
    each: ({ data }) => {
      if (data.version <= upto) found.push(data);
      else stop.abort();
    },
  });
  return found;
}

/** @param {string} id */
function useConversation(id) {
  const [state, setState] = useState({ entries: /** @type {Entry[] | null} */ (null), live: false, error: /** @type {any} */ (null), from: 0 });
  const head = useRead(async () => (await answer(at`threads/${id}`, { query: { last: 1, exact: true } })).data, [id]);
  const version = head.data?.version;
  const start = version === undefined ? null : Math.max(0, version - PAGE);
  useEffect(() => {
    if (start === null) return undefined;
    const stop = new AbortController();
    let waiting = /** @type {Entry[]} */ ([]);
    let drawn = 0;
    const draw = () => {
      drawn = 0;
      const news = waiting;
      waiting = [];
      setState((old) => ({ ...old, entries: [...(old.entries ?? []), ...news] }));
    };
    setState({ entries: [], live: false, error: null, from: start });
    follow(at`threads/${id}/changes`, {
      query: { after: start },
      signal: stop.signal,
      state: (live) => setState((old) => ({ ...old, live })),
      each: ({ name, data }) => {
        if (name === "reset") head.reload(); // it was removed, or begun anew
        else {
          waiting.push(data);
          drawn ||= requestAnimationFrame(draw); // many at once are drawn once
        }
      },
    }).catch((error) => setState((old) => ({ ...old, error })));
    return () => stop.abort();
  }, [id, start]);
  const older = async () => {
    const first = state.entries?.[0]?.version ?? state.from + 1;
    const from = Math.max(0, first - 1 - PAGE);
    const news = await stretch(id, from, first - 1);
    setState((old) => ({ ...old, from, entries: [...news, ...(old.entries ?? [])] }));
  };
  return { head, ...state, older };
}

/** @param {{path: string[], query: Record<string, string>}} props */
export function Thread({ path: [, id], query }) {
  const { head, entries, live, error, from, older } = useConversation(id);
  const info = useRead(() => about(id), [id]);
  const chosen = query.at ? Number(query.at) : undefined;
  const marks = useMemo(() => marksOf(entries ?? [], info.data), [entries, info.data]);
  const choose = (version) => refine({ at: version === chosen ? "" : version });
  useEffect(() => {
    if (chosen && entries?.length) document.getElementById(`m${chosen}`)?.scrollIntoView({ block: "nearest" });
  }, [Boolean(entries?.length)]);
  const thread = info.data?.thread;
  const actions = html`<span class=${live ? "live on" : "live"} role="status">${live ? "live" : "not connected"}</span>
    <${Act} label="Fork" title="Begin another conversation with what this one holds" fields=${[{ name: "to", label: "Id of the new conversation", value: `${id}-fork`, required: true }, { name: "at", label: "Up to which message (empty: all)", value: query.at ?? "" }]}
      act=${async (given) => { await post(at`threads/${id}/fork`, { to: given.to, at: given.at ? Number(given.at) : null }); go(["threads", given.to], { at: "" }); }}><p>This one stays as it is.</p><//>
    <${Act} danger label="Delete" title="Delete this conversation" typed=${id} typedWhat="its id" act=${async () => { await answer(at`threads/${id}`, { method: "DELETE" }); go(["threads"], { at: "" }); }}><p>It is removed for everybody, and cannot be brought back.</p><//>`;
  return html`<${Page} title=${thread?.title ?? id} name=${`Thread ${thread?.title ?? id}`} lead=${thread?.title && html`<span class="mono">${id}</span>`} actions=${head.data && actions}
    copy=${[curl(at`threads/${id}`, { last: 20 }), command("thread", "show", "$STATEWARD_URL", id), ...(chosen ? [command("why", "$STATEWARD_URL", id, String(chosen))] : [])]}>
    ${head.error && (head.error.status === 404
      ? html`<${Empty} title="There is no such conversation"><p>It may have been deleted or erased, have expired, or live in another namespace. <a href=${to(["find"], { q: id })}>Find</a> looks for everything of that name.</p><//>`
      : html`<${Failure} error=${head.error} />`)}
    ${error && html`<${Failure} error=${error} />`}
    ${head.data && html`<div class="panel"><${Facts} items=${[
      ["User", thread?.user ? html`<a href=${to(["users", thread.user])}>${thread.user}</a>` : undefined],
      ["Messages", number(thread?.messages ?? head.data.omitted + head.data.messages.length)],
      ["Begun", html`<${Time} at=${head.data.created_at} />`], ["Last touched", html`<${Time} at=${head.data.updated_at} />`],
      ["Tool calls without a result", head.data.pending.length ? html`<span class="mono">${head.data.pending.join(", ")}</span>` : undefined],
      ["Labels", thread && Object.keys(thread.labels).length ? Object.entries(thread.labels).map(([name, value]) => html`<span class="label">${name}=${value}</span>`) : undefined],
      ["Forked from", info.data?.origin ? html`<a href=${to(["threads", info.data.origin.thread], { at: info.data.origin.version })}>${info.data.origin.thread}</a> at ${info.data.origin.version}` : undefined],
      ["Branches", info.data?.branches?.length ? info.data.branches.map((one) => html`<div><a href=${to(["threads", one.id])}>${one.id}</a> <span class="faint">from ${one.version}</span></div>`) : undefined],
    ]} /></div>`}
    <div class=${chosen ? "talk beside" : "talk"}>
      <div>
        ${from > 0 && entries && html`<p><button onClick=${older}>${earlier(from)}</button></p>`}
        ${head.data && !entries && html`<${Loading} />`}
        ${entries && html`<${Transcript} entries=${entries} marks=${marks} chosen=${chosen} onChoose=${choose} />`}
        ${head.loading && html`<${Loading} />`}
      </div>
      ${chosen && html`<${Knew} thread=${id} version=${chosen} entry=${entries?.find((one) => one.version === chosen)} onClose=${() => refine({ at: "" })} />`}
    </div>
  <//>`;
}

/** What a listing says of it. @param {string} id */
async function about(id) {
  const page = await get("threads", { prefix: id, limit: 5 });
  return { thread: page.items.find((one) => one.id === id), origin: null, branches: [] };
}
