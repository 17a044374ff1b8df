// Unfolds what a link leads to, marks where the reader is in the contents, and says the figures
// under the pointer, or under the arrow keys, below each chart.
"use strict";
function unfold() {
  const found = location.hash && document.getElementById(location.hash.slice(1));
  if (found && found.tagName === "DETAILS") found.open = true;
}
addEventListener("hashchange", unfold);
unfold();

const links = new Map();
for (const link of document.querySelectorAll(".contents > ul > li > a")) {
  links.set(document.getElementById(link.hash.slice(1)), link);
}
function mark() {
  let here = null;
  for (const [part, link] of links) {
    link.classList.remove("here");
    if (here === null || part.getBoundingClientRect().top < innerHeight / 3) here = link;
  }
  if (here !== null) here.classList.add("here");
}
addEventListener("scroll", mark, { passive: true });
mark();

for (const chart of document.querySelectorAll("svg.chart")) {
  const points = JSON.parse(chart.dataset.readouts);
  if (points.length === 0) continue;
  const figure = chart.closest("figure");
  let readout = figure.querySelector(".readout");
  if (readout === null) {
    readout = document.createElement("p");
    readout.className = "readout";
    readout.setAttribute("aria-live", "polite");
    figure.querySelector("svg.narrow").after(readout);
  }
  const hint = matchMedia("(hover: none)").matches
    ? "Touch the chart to read its figures."
    : "Point at the chart, or use ← and →, to read its figures.";
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("y1", chart.dataset.top);
  cursor.setAttribute("y2", chart.dataset.floor);
  let now = -1;

  function show(at) {
    now = Math.max(0, Math.min(points.length - 1, at));
    cursor.setAttribute("x1", points[now][0]);
    cursor.setAttribute("x2", points[now][0]);
    chart.append(cursor);
    readout.textContent = points[now][1];
    readout.classList.add("on");
  }

  function hide() {
    cursor.remove();
    readout.textContent = hint;
    readout.classList.remove("on");
  }

  function nearest(x) {
    let best = 0;
    for (let at = 1; at < points.length; at++) {
      if (Math.abs(points[at][0] - x) < Math.abs(points[best][0] - x)) best = at;
    }
    return best;
  }

  function point(event) {
    const box = chart.getBoundingClientRect();
    show(nearest(((event.clientX - box.left) / box.width) * chart.viewBox.baseVal.width));
  }

  chart.addEventListener("pointerdown", point);
  chart.addEventListener("pointermove", point);
  chart.addEventListener("pointerleave", hide);
  chart.addEventListener("blur", hide);
  chart.addEventListener("keydown", (event) => {
    if (event.key === "ArrowRight") show(now + 1);
    else if (event.key === "ArrowLeft") show(now < 0 ? points.length - 1 : now - 1);
    else if (event.key === "Escape") hide();
    else return;
    event.preventDefault();
  });
  hide();
}
