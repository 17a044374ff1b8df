// Is it fit for production? The reports that were kept, and what changed.

import { at, download, get } from "./api.js";
import { to } from "./route.js";
import { command, curl, Empty, Facts, Fold, html, Listing, Page, Pill, Read, Table, Time, useList, useRead } from "./parts.js";
import { count, span } from "./words.js";

/** @param {{path: string[]}} props */
export const Audits = ({ path }) => (path[1] ? html`<${Audit} id=${path[1]} />` : html`<${All} />`);

function All() {
  const list = useList((after) => get("audits", { limit: 50, after }), []);
  return html`<${Page} title="Audit" lead="Is it fit for production? The reports that were kept in this store, the newest first." copy=${[curl("audits"), command("audit", "$STATEWARD_URL", "--keep")]}>
    <${Listing} list=${list} empty=${html`<${Empty} title="No report is kept yet"><p>An audit attacks a store the way production will: crashes, races, outages, growth. With <code>--keep</code> its report stays here, to be compared with the next one.</p>
      <pre class="json" tabindex="0">stateward audit "$STATEWARD_URL" --keep</pre><//>`}>
      ${(items) => html`<${Table} label="Audits" rows=${items} id=${(row) => row.id} columns=${[
        { head: "Audit", class: "wide", cell: (row) => html`<div><a href=${to(["audits", row.id])}>${row.title}</a><div class="faint">${row.sentence}</div></div>` },
        { head: "Verdict", class: "tight", cell: (row) => html`<${Pill} of=${row.verdict} />` },
        { head: "Answers", cell: (row) => Object.entries(row.answers).map(([verdict, many]) => html`<div>${many} ${verdict}</div>`) },
        { head: "Profile", cell: (row) => row.profile },
        { head: "Took", class: "num", cell: (row) => span(row.seconds) },
        { head: "Kept", class: "when", cell: (row) => html`<${Time} at=${row.kept_at} />` },
      ]} />`}<//>
  <//>`;
}

/** @param {{id: string}} props */
function Audit({ id }) {
  const read = useRead(() => get(at`audits/${id}`), [id]);
  const info = read.data?.info;
  return html`<${Page} title=${info?.title ?? id} name=${`Audit ${info?.title ?? id}`} lead=${info?.sentence} copy=${[curl(at`audits/${id}`)]}
    actions=${info && html`<button onClick=${() => download(at`audits/${id}/report`, `audit-${id}.html`)}>Download the full report</button>`}>
    <${Read} of=${read}>${(data) => html`
      <div class="panel"><${Facts} items=${[["Verdict", html`<${Pill} of=${data.info.verdict} />`], ["Target", html`<span class="mono">${data.info.target}</span>`], ["Profile", data.info.profile], ["Seed", data.info.seed], ["Took", span(data.info.seconds)], ["Kept", html`<${Time} at=${data.info.kept_at} />`]]} /></div>
      <div class="panel"><h2>What changed ${data.before && html`<span class="faint">since <a href=${to(["audits", data.before.id])}><${Time} at=${data.before.kept_at} /></a></span>`}</h2>
        ${!data.changes ? html`<p class="faint">No earlier report of this target is kept.</p>` : data.changes.changes.length === 0 ? html`<p class="faint">Nothing.</p>`
          : html`<ul class="plain">${data.changes.changes.map((one) => html`<li class="group"><${Pill} of=${one.direction} tone=${{ worse: "bad", better: "good" }[/** @type {string} */ (one.direction)] ?? "faint"} /> <b>${one.where}</b> ${one.what} <span class="faint">${one.before} → ${one.after}</span></li>`)}</ul>`}</div>
      <div class="panel"><h2>Answers <span class="faint">${count(data.report.answers?.length ?? 0, "question")}</span></h2>
        ${(data.report.answers ?? []).map((one) => html`<${Fold} summary=${html`<span>${one.title ?? one.question ?? one.id}</span><${Pill} of=${one.verdict} />`}><p>${one.sentence ?? one.finding ?? one.text ?? ""}</p><//>`)}</div>`}<//>
  <//>`;
}
