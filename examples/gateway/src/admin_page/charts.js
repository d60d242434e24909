// Two charts over the last minutes, drawn in the pixels they have, so that their text stays readable on a phone.

import { $, given, milliseconds, percent, write } from "./dom.js";

const LEFT = 60;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 34;
/** Seconds that a chart shows. */
const SPAN = 300;
/** Points further apart than these seconds are not joined: nothing was measured between them. */
const APART = 5;

const CHARTS = [
  {
    id: "chart-hit", label: "hit rate", text: percent, top: () => 1,
    lines: [{ field: "hit_rate", style: "a", now: "now-hit", name: "now" }],
  },
  {
    id: "chart-ttft", label: "time to first token", text: milliseconds, top: round,
    lines: [
      { field: "ttft_p50_ms", style: "a", now: "now-p50", name: "p50" },
      { field: "ttft_p99_ms", style: "b", now: "now-p99", name: "p99" },
    ],
  },
];

let last = [];

export function drawCharts(series) {
  last = series;
  for (const chart of CHARTS) draw(chart, series);
}

const resized = new ResizeObserver(() => drawCharts(last));
for (const chart of CHARTS) resized.observe($(chart.id));

function draw(chart, series) {
  const svg = $(chart.id);
  const { width, height } = svg.getBoundingClientRect();
  const lines = chart.lines.map((line) => ({
    ...line,
    // A second in which nothing was measured has no point.
    points: series.filter((entry) => given(entry[line.field])).map((entry) => [entry.t, entry[line.field]]),
  }));
  // The right edge is now, so a young gateway's chart is empty at the left.
  const end = Math.max(0, ...series.map((entry) => entry.t));
  const begin = end - Math.min(SPAN, Math.max(60, end));
  const top = chart.top(Math.max(0, ...lines.flatMap((line) => line.points.map(([, value]) => value))));
  const x = (t) => LEFT + ((t - begin) / (end - begin)) * (width - LEFT - RIGHT);
  const y = (value) => TOP + (1 - Math.min(value, top) / top) * (height - TOP - BOTTOM);
  svg.replaceChildren(
    ...[0, 0.25, 0.5, 0.75, 1].flatMap((share) => level(share, share * top, chart.text, y, width)),
    ...times(begin, end, x, height, width),
    ...lines.map((line) => path(line, x, y, begin)),
  );
  for (const line of lines) write($(line.now), chart.text(line.points.at(-1)?.[1]));
  const now = lines.map((line) => `${line.name} ${chart.text(line.points.at(-1)?.[1])}`).join(", ");
  svg.setAttribute("aria-label", `${chart.label} over the last ${Math.round(end - begin)} seconds: ${now}`);
}

function level(share, value, text, y, width) {
  const at = Math.round(y(value)) + 0.5;
  const line = shape("line", { class: share === 0 ? "axis" : "grid", x1: LEFT, x2: width - RIGHT, y1: at, y2: at });
  const label = shape("text", { x: LEFT - 8, y: at + 4, "text-anchor": "end" });
  label.textContent = text(value).replace(/\.0(?= ms)/, "");
  return share === 0.25 || share === 0.75 ? [line] : [line, label];
}

/** Ticks at round distances from now. */
function times(begin, end, x, height, width) {
  const step = width < 420 ? 120 : 60;
  const marks = [];
  for (let ago = 0; ago <= end - begin + 0.5; ago += step) {
    const at = Math.round(x(end - ago)) + 0.5;
    marks.push(shape("line", { class: "axis", x1: at, x2: at, y1: height - BOTTOM, y2: height - BOTTOM + 4 }));
    const label = shape("text", { x: at, y: height - BOTTOM + 16, "text-anchor": ago === 0 ? "end" : "middle" });
    label.textContent = ago === 0 ? "now" : `−${ago}`;
    marks.push(label);
  }
  const unit = shape("text", { x: (LEFT + width - RIGHT) / 2, y: height - 3, "text-anchor": "middle" });
  unit.textContent = "seconds";
  return [...marks, unit];
}

function path(line, x, y, begin) {
  let d = "";
  let before = -Infinity;
  let drawn = 0;
  for (const [t, value] of line.points) {
    if (t < begin) continue;
    const at = `${x(t).toFixed(1)} ${y(value).toFixed(1)}`;
    // A line of no length is a dot, where a point has no neighbour.
    d += t - before > APART ? `M${at}L${at}` : `L${at}`;
    before = t;
    drawn += 1;
  }
  return shape("path", { class: line.style, d, "data-points": drawn });
}

/** The next of 1, 2, 4 or 8 times a power of ten: its quarters are round too. */
function round(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 10)));
  return power * ([1, 2, 4, 8].find((times) => times * power >= value) ?? 10);
}

function shape(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}
