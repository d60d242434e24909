// Asks the gateway for its state each second and has it shown. When it does not answer, says so and goes on asking.

import { $, brief, count, percent, seconds, write } from "./dom.js";
import { drawCharts } from "./charts.js";
import { showDecisions } from "./decisions.js";
import { showPods } from "./pods.js";

const EVERY = 1000;
const PATIENCE = 4000;

async function poll() {
  try {
    const answer = await fetch("state", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(await answer.json());
  } catch (error) {
    console.warn("no state:", error);
    status("lost", "disconnected, retrying");
    $("main").dataset.stale = "";
  }
  setTimeout(poll, EVERY);
}

function show(state) {
  if (state.draining) status("draining", "draining");
  else status("live", "live");
  delete $("main").dataset.stale;
  write($("profile"), String(state.profile ?? "–"));
  write($("model"), String(state.model ?? "–"));
  write($("uptime"), seconds(state.uptime_s));
  showTotals(state.totals ?? {});
  drawCharts(state.series ?? []);
  showPods(state.pods ?? [], state.active_requests ?? []);
  showDecisions(state.decisions ?? []);
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

poll();
