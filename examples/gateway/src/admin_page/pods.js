// Pods, each with its lane: a request enters at the gateway's end and moves towards the pod, stage by stage.

import { $, brief, count, given, keyed, make, mark, percent, seconds, write } from "./dom.js";

/** How far along its lane a request is: waiting for its first token, handed over, or sending its answer. */
const STAGES = { prefill: [0.04, 0.4], decode: [0.45, 0.6], streaming: [0.65, 0.95] };
/** How long a request takes through its stretch of the lane, in seconds. It slows down towards the end, and never gets there. */
const PACE = 4;
/** More dots than these cannot be told apart. */
const MOST = 24;

export function showPods(pods, flow) {
  $("no-pods").hidden = pods.length > 0;
  write($("no-pods"), $("cells").childElementCount > 0 ? "No pod is like that." : "The fleet is empty.");
  const lanes = new Map(pods.map((pod) => [pod.name, []]));
  for (const request of flow) lanes.get(request.pod)?.push(request);
  const most = Math.max(8, ...pods.map((pod) => pod.in_flight ?? 0));
  keyed($("pods"), pods, (pod) => pod.name, createPod, (row, pod) => updatePod(row, pod, lanes.get(pod.name), most));
}

function createPod(pod) {
  const parts = {};
  const part = (name, tag, style, ...children) => (parts[name] = make(tag, style, ...children));
  const cell = (...children) => {
    const element = make("div", "cell", ...children);
    element.setAttribute("role", "cell");
    return element;
  };
  const bar = (name, style, label) => {
    const element = part(name, "div", `bar ${style}`, make("i"));
    element.setAttribute("role", "meter");
    element.setAttribute("aria-label", label);
    return element;
  };
  const row = make("div", "pod",
    cell(part("name", "span", "name", pod.name), part("role", "span", "small")),
    cell(part("health", "span", ""), part("circuit", "span", "small")),
    cell(part("lane", "div", "lane")),
    cell(make("span", "figures", part("load", "span", ""), part("waiting", "span", "small")), bar("loadBar", "load", "load"),
      part("queued", "span", "small")),
    cell(make("span", "figures", part("used", "span", ""), part("blocks", "span", "small")), bar("cacheBar", "cache", "KV cache in use"),
      part("running", "span", "small")),
    cell(part("source", "span", ""), part("batches", "span", "small")));
  row.setAttribute("role", "row");
  parts.name.title = pod.name;
  row.parts = parts;
  return row;
}

function updatePod(row, pod, requests, most) {
  const parts = row.parts;
  write(parts.role, pod.role === "both" ? "prefill and decode" : String(pod.role ?? ""));
  write(parts.health, pod.healthy ? "healthy" : "unhealthy");
  mark(parts.health, pod.healthy ? "good" : "bad");
  write(parts.circuit, `circuit ${pod.circuit}`);
  mark(parts.circuit, pod.circuit === "closed" ? "small" : "small warn");
  write(parts.load, `${count(pod.in_flight)} in flight`);
  write(parts.waiting, `${count(pod.waiting)} wait`);
  write(parts.queued, `${count(pod.prefilling)} prefill, ${brief(pod.queued_tokens)} tokens`);
  fill(parts.loadBar, (pod.in_flight ?? 0) / most, `${count(pod.in_flight)} in flight`);
  write(parts.used, percent(pod.kv_used));
  write(parts.blocks, `${brief(pod.blocks)} blocks`);
  write(parts.running, `${count(pod.running)} running${pace(pod)}${accuracy(pod.cache)}`);
  fill(parts.cacheBar, pod.kv_used ?? 0, percent(pod.kv_used));
  showEvents(parts, pod.events ?? {});
  showLane(parts.lane, pod.name, requests);
}

/** How much longer prompts and answers take than the cost model says, where that was learned. */
function pace(pod) {
  const [prompts, answers] = [pod.pace ?? 1, pod.decode_pace ?? 1];
  const isLearned = [prompts, answers].some((learned) => Math.abs(learned - 1) >= 0.05);
  return isLearned ? `, prompts ${prompts.toFixed(1)}×, answers ${answers.toFixed(1)}×` : "";
}

/** How often as many tokens were cached as the gateway expected, if the engine says how many. */
function accuracy(cache) {
  const told = (cache?.exact ?? 0) + (cache?.over ?? 0) + (cache?.under ?? 0);
  return told > 0 ? `, ${percent(cache.exact / told)} as expected` : "";
}

/** What is known of a pod's cache comes by events; where they are missing, the index may be wrong about it. */
function showEvents(parts, events) {
  const none = !events.source || events.source === "none";
  write(parts.source, none ? "no events" : `${events.source} ${events.state}`);
  mark(parts.source, none ? "small" : events.state === "live" ? "good" : "warn");
  const age = given(events.age_s) ? `, ${seconds(events.age_s)} ago` : "";
  const missed = `${several(events.gaps, "gap")}, ${count(events.lost)} lost`;
  const more = events.gaps > 0 || events.lost > 0 ? `, ${missed}` : age;
  write(parts.batches, none ? "guessed, if at all" : `${several(events.batches, "batch", "batches")}${more}`);
  parts.batches.title = none ? "" : missed;
}

const several = (value, one, many = `${one}s`) => `${brief(value)} ${value === 1 ? one : many}`;

function showLane(lane, pod, requests) {
  const shown = requests.slice(0, MOST);
  lane.setAttribute("role", "img");
  lane.setAttribute("aria-label", `${requests.length} requests on their way to ${pod}`);
  keyed(lane, shown, (request) => request.id, (request) => {
    const dot = make("i", "dot");
    dot.title = request.id;
    return dot;
  }, (dot, request) => {
    mark(dot, `dot ${request.stage in STAGES ? request.stage : "prefill"}`);
    const [from, to] = STAGES[request.stage] ?? STAGES.prefill;
    const along = 1 - Math.exp(-(request.age_s ?? 0) / PACE);
    dot.style.left = `calc(${((from + (to - from) * along) * 100).toFixed(2)}% - 5px)`;
    dot.style.top = `${2 + scatter(request.id) * 14}px`;
  });
  const hidden = requests.length - shown.length;
  if (hidden > 0) {
    const more = make("span", "more", `+${hidden}`);
    more.key = "more";
    lane.append(more);
  }
}

/** A share of 0 to 1 that is always the same for an id, so that requests at one place do not hide each other. */
function scatter(id) {
  let mixed = 7;
  for (const unit of String(id)) mixed = (Math.imul(mixed, 31) + unit.codePointAt(0)) >>> 0;
  return (Math.imul(mixed, 2654435761) >>> 0) / 2 ** 32;
}

function fill(bar, share, text) {
  const bounded = Math.min(1, Math.max(0, share));
  bar.firstElementChild.style.setProperty("--share", bounded.toFixed(3));
  bar.setAttribute("aria-valuemin", "0");
  bar.setAttribute("aria-valuemax", "1");
  bar.setAttribute("aria-valuenow", bounded.toFixed(3));
  bar.setAttribute("aria-valuetext", text);
}
