// Lines over time, drawn as SVG: colours come with the theme, and all of it is a node like any other.

import { useRef, useState } from "./vendor/preact-hooks.js";
import { html } from "./parts.js";
import { clock, number } from "./words.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [600, 170, 62, 20];

/** A round number at or above one. @param {number} value */
function ceiling(value) {
	const unit = 10 ** Math.floor(Math.log10(value));
	return [1, 2, 2.5, 5, 10].map((each) => each * unit).find((each) => each >= value * 0.999) ?? value;
}

/**
 * @param {{title: string, points: any[], from: number, until: number, step: number,
 *   series: Record<string, string>, unit: (value: any) => string,
 *   onChoose?: (point: any) => void}} props */
export function Chart({ title, points, from, until, step, series, unit, onChoose }) {
	const [over, setOver] = useState(-1);
	const place = useRef(/** @type {any} */ (null));
	const names = Object.keys(series);
	const most = Math.max(...points.flatMap((point) => names.map((name) => point[name] ?? 0)));
	const top = most > 0 ? ceiling(most) : 1;
	const whole = unit === number; // of what is counted there are no halves
	const times = points.map((point) => Date.parse(point.at));
	const x = (time) => LEFT + ((time - from) / (until - from || 1)) * (WIDTH - LEFT - 6);
	const y = (value) => 8 + (1 - value / top) * (HEIGHT - BOTTOM - 8);
	const path = (name) => points.map((point, at) => {
		if (point[name] === null) return "";
		const joined = at > 0 && points[at - 1][name] !== null && times[at] - times[at - 1] < step * 3.5;
		return `${joined ? "L" : "M"}${x(times[at]).toFixed(1)} ${y(point[name]).toFixed(1)}${joined ? "" : "h.1"}`;
	}).join("");
	const nearest = (event) => {
		const box = place.current.getBoundingClientRect();
		const time = from + (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - 6) * (until - from);
		return times.reduce((best, each, at) => (Math.abs(each - time) < Math.abs(times[best] - time) ? at : best), 0);
	};
	const moved = (event) => {
		const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
		if (by) setOver(Math.min(Math.max((over < 0 ? points.length : over) + by, 0), points.length - 1));
		else if (event.key === "Enter" && over >= 0) onChoose?.(points[over]);
		else return;
		event.preventDefault();
	};
	const shown = points[over] ?? points[points.length - 1];
	const hour = (time) => new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
	return html`<div class="chart">
		<svg ref=${place} viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} tabindex="0" role="img"
			aria-label=${`${title}, over time. Arrow keys move along it${onChoose
				? ", Enter shows whom a point concerned" : ""}.`}
			onMouseMove=${(event) => setOver(nearest(event))} onMouseLeave=${() => setOver(-1)}
				onClick=${(event) => onChoose?.(points[nearest(event)])} onKeyDown=${moved}>
			${[0, 0.5,
				1].map((part) => html`<line class="grid" x1=${LEFT} x2=${WIDTH} y1=${y(top * part)} y2=${y(top * part)} />
					<text x=${LEFT - 8} y=${y(top * part) + 4} text-anchor="end">
						${whole && !Number.isInteger(top * part) ? "" : unit(top * part)}</text>`)}
			${[0, 0.5,
				1].map((part) =>
				html`<text x=${x(from + (until - from) * part)} y=${HEIGHT - 4}
					text-anchor=${["start", "middle", "end"][part * 2]}>${hour(from + (until - from) * part)}</text>`)}
			${names.map((name, at) => html`<path class=${`line s${at}`} d=${path(name)} />`)}
			${over >= 0 && html`<line class="cursor" x1=${x(times[over])} x2=${x(times[over])} y1="8" y2=${HEIGHT - BOTTOM} />`}
		</svg>
		<p class="legend"><span>${over >= 0 ? clock(points[over].at) : "last"}</span>
			${names.map((name, at) => html`<span class=${`s${at}`}>${series[name]} <b>${unit(shown[name])}</b></span>`)}</p>
	</div>`;
}
