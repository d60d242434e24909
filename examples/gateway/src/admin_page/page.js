// Asks the gateway for its state each second and has it shown. When it does not answer, says so and goes on asking.

import { $, brief, count, keyed, make, percent, seconds, write } from "./dom.js";
import { drawCharts } from "./charts.js";
import { showDecisions } from "./decisions.js";
import { listen, query, showFleet } from "./fleet.js";
import { showPods } from "./pods.js";

const EVERY = 1000;
const PATIENCE = 4000;

let timer;
let turn = 0;

async function poll() {
  const mine = ++turn;
  clearTimeout(timer);
  try {
    const answer = await fetch(`state?${query()}`, { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const state = await answer.json();
    // Something else was asked for meanwhile.
    if (mine !== turn) return;
    show(state);
  } catch (error) {
    if (mine !== turn) return;
    console.warn("no state:", error);
    status("lost", "disconnected, retrying");
    $("main").dataset.stale = "";
  }
  timer = setTimeout(poll, EVERY);
}

function show(state) {
  if (state.draining) status("draining", "draining");
  else status("live", "live");
  delete $("main").dataset.stale;
  showModels(state.models ?? []);
  showFindings(state.findings ?? []);
  write($("uptime"), seconds(state.uptime_s));
  showTotals(state.totals ?? {});
  drawCharts(state.series ?? []);
  showFlow(state.flow ?? []);
  showFleet(state.fleet, state.pods ?? []);
  showPods(state.pods ?? [], state.active_requests ?? []);
  showDecisions(state.decisions ?? []);
}

function showModels(models) {
  const unique = (values) => [...new Set(values)].join(", ") || "–";
  write($("model-title"), models.length > 1 ? "models" : "model");
  write($("model"), unique(models.map((model) => String(model.name))));
  write($("profile"), unique(models.map((model) => String(model.profile))));
  const peers = Math.max(0, ...models.map((model) => model.peers ?? 0));
  $("peers-fact").hidden = peers === 0;
  write($("peers"), count(peers));
}

/** Bands of flow control: what waits in each, who waits most, and what became of the others. */
function showFlow(bands) {
  $("flow").hidden = bands.length === 0;
  const key = (band) => JSON.stringify([band.model, band.band]);
  keyed($("flow-list"), bands, key, () => make("li", "finding", make("b"), make("span")), (row, band) => {
    const [name, what] = row.children;
    const keys = (band.keys ?? []).map(([who, requests]) => `${who || "nobody in particular"} ${count(requests)}`);
    const outcomes = Object.entries(band.outcomes ?? {}).map(([outcome, requests]) => `${outcome} ${count(requests)}`);
    write(name, String(band.band));
    const waiting = `${count(band.requests)} requests, ${brief(band.tokens)} tokens`;
    write(what, [waiting, keys.join(", "), outcomes.join(", ")].filter(Boolean).join(" · "));
  });
}

/** What the routers diagnose: nothing on most days, so it takes no room then. */
function showFindings(findings) {
  $("findings").hidden = findings.length === 0;
  const key = (finding) => JSON.stringify([finding.model, finding.kind, finding.pod]);
  keyed($("finding-list"), findings, key, () => make("li", "finding", make("b"), make("span")), (row, finding) => {
    const [where, what] = row.children;
    write(where, `${finding.model}${finding.pod ? `, pod ${finding.pod}` : ""}: `);
    write(what, String(finding.message));
  });
}

function showTotals(totals) {
  const rate = totals.prompt_tokens > 0 ? totals.cached_tokens / totals.prompt_tokens : undefined;
  write($("total-hit-rate"), percent(rate));
  for (const name of ["requests", "in_flight", "completed", "failed", "cancelled", "rejected"]) {
    write($(`total-${name}`), count(totals[name]));
  }
  for (const name of ["prompt_tokens", "cached_tokens"]) {
    write($(`total-${name}`), brief(totals[name]));
    $(`total-${name}`).title = count(totals[name]);
  }
  $("total-failed").toggleAttribute("data-alarm", totals.failed > 0);
}

function status(state, text) {
  $("status").dataset.state = state;
  write($("status"), text);
}

listen(poll);
poll();
