// The last decisions. One that is opened shows who was scored how; while one is open, the list stays as it is.

import { $, count, given, keyed, make, mark, milliseconds, percent, seconds, write } from "./dom.js";

export function showDecisions(decisions) {
  const list = $("decision-list");
  const open = list.querySelector("details[open]") !== null;
  // What is being read does not move: only what is there already is brought up to date.
  const shown = open ? decisions.filter((decision) => known(list, decision.id)) : decisions;
  const newer = open ? decisions.findIndex((decision) => known(list, decision.id)) : 0;
  if (open) {
    for (const decision of shown) update(known(list, decision.id), decision);
  } else {
    keyed(list, shown, (decision) => decision.id, create, update);
  }
  const waiting = newer < 0 ? `${decisions.length} or more` : count(newer);
  write($("held"), open ? `held while one is open; ${waiting} newer` : "newest first; open one for its scores");
  $("no-decisions").hidden = list.childElementCount > 0;
}

const known = (list, id) => Array.prototype.find.call(list.children, (child) => child.key === id);

function create(decision) {
  const parts = {};
  const part = (name, style, ...children) => (parts[name] = make("span", style, ...children));
  const bar = make("i");
  const summary = make("summary", "", make("span", "summary",
    part("age", "age small"),
    part("to", "to"),
    make("span", "share", make("span", "bar", bar), part("matched", "")),
    part("ttft", "number"),
    part("total", "number"),
    part("outcome", "outcome"),
    part("id", "id small", decision.id)));
  parts.bar = bar;
  const details = make("details", "", summary);
  // Tables are made when they are looked at: most never are.
  details.addEventListener("toggle", () => {
    if (details.open && !details.querySelector(".breakdown")) explain(details);
  });
  details.parts = parts;
  return details;
}

/** Shows the reasons of a decision. Of many candidates the gateway tells the best; the others are asked for when somebody looks. */
async function explain(details) {
  const { decision } = details;
  const shown = breakdown(decision);
  details.append(shown);
  if (!decision.steps.some((step) => step.left_out > 0)) return;
  try {
    const asked = new URLSearchParams({ decision: decision.id, scores: 1024, limit: 0 });
    const answer = await fetch(`state?${asked}`, { cache: "no-store" });
    const whole = (await answer.json()).decisions?.[0];
    if (whole) shown.replaceWith(breakdown(whole));
  } catch (error) {
    console.warn("no reasons:", error);
  }
}

function update(details, decision) {
  const parts = details.parts;
  details.decision = decision;
  write(parts.age, `${seconds(decision.age_s)} ago`);
  write(parts.to, decision.steps.map((step) => step.picked ?? "nobody").join(" → ") || "nobody");
  parts.to.title = parts.to.textContent;
  const share = decision.prompt_tokens > 0 ? decision.expected_tokens / decision.prompt_tokens : 0;
  parts.bar.style.setProperty("--share", share.toFixed(3));
  write(parts.matched, `${percent(share)} of ${count(decision.prompt_tokens)} tokens`);
  write(parts.ttft, `${milliseconds(decision.ttft_ms)} first`);
  write(parts.total, `${milliseconds(decision.total_ms)} all`);
  const outcome = String(decision.outcome ?? "in flight");
  write(parts.outcome, outcome);
  mark(parts.outcome, `outcome ${/^completed 2/.test(outcome) ? "good" : outcome === "in flight" ? "" : /^cancel/.test(outcome) ? "warn" : "bad"}`);
}

function breakdown(decision) {
  const steps = decision.steps.map((step) => {
    const title = make("h3", "", `${step.step} → ${step.picked ?? "nobody"}`);
    return make("div", "", title, make("p", "reason", String(step.reason ?? "")), ...table(step));
  });
  const told = given(decision.cached_tokens) ? `, ${count(decision.cached_tokens)} were` : "";
  const cause = decision.cause ? ` (${decision.cause})` : "";
  const about = `${decision.id}: ${count(decision.expected_tokens)} of ${count(decision.prompt_tokens)} prompt tokens were expected to be cached${told}${cause}`;
  const flow = decision.flow ? [make("p", "reason waited", waited(decision.flow))] : [];
  return make("div", "breakdown", make("p", "reason", about), ...flow, ...steps);
}

/** What flow control did to a request: who it is of, why it waited and for how long, and what its program's turn was decided by. */
function waited(flow) {
  const wait = flow.waited === "no" ? "did not wait" : `waited ${milliseconds(flow.waited_ms)} (${flow.waited})`;
  const { program } = flow;
  const left = program?.remaining > 0 ? `, ${count(program.remaining)} turns follow` : "";
  const turn = program ? `; its program was served ${count(program.service)} tokens (level ${program.level})${left}` : "";
  return `${flow.band}, ${flow.key || "nobody in particular"}: ${wait}, ${count(flow.ahead)} before it${turn}`;
}

/** A row for each pod: its scores, what each adds to the total, its place, or which filter took it away. */
function table(step) {
  // Reasons are kept only while somebody looks.
  if (!step.pods?.length) return [];
  const scorers = new Map();
  for (const pod of step.pods) for (const score of pod.scores ?? []) scorers.set(score.scorer, score.weight);
  const head = make("tr", "", heading("pod", "col"));
  for (const [scorer, weight] of scorers) {
    head.append(heading(`${scorer} × ${given(weight) ? weight.toFixed(3).replace(/0+$/, "") : "?"}`, "col"));
  }
  head.append(heading("total", "col"), heading("rank", "col"), heading("result", "col"));
  const pods = [...step.pods].sort((a, b) => (a.rank ?? Infinity) - (b.rank ?? Infinity) || (b.total ?? -1) - (a.total ?? -1));
  const body = make("tbody", "", ...pods.map((pod) => row(pod, scorers, step.picked)));
  const scroll = make("div", "scroll", make("table", "", make("thead", "", head), body));
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", `scores of step ${step.step}`);
  return step.left_out > 0 ? [scroll, make("p", "reason left-out", `and ${count(step.left_out)} more`)] : [scroll];
}

function row(pod, scorers, picked) {
  const name = heading(pod.name, "row");
  name.title = pod.name;
  const cells = Array.from(scorers.keys(), (scorer) => {
    const score = (pod.scores ?? []).find((score) => score.scorer === scorer);
    if (!score) return make("td", "", "–");
    return make("td", "", score.score.toFixed(2), make("span", "small", `+${(score.score * score.weight).toFixed(3)}`));
  });
  const result = pod.removed_by ? `removed by ${pod.removed_by}` : pod.name === picked ? "picked" : "";
  return make("tr", pod.name === picked ? "picked" : pod.removed_by ? "removed" : "", name, ...cells,
    make("td", "total", given(pod.total) ? pod.total.toFixed(3) : "–"),
    make("td", "", given(pod.rank) ? String(pod.rank) : "–"),
    make("td", "", result));
}

function heading(text, scope) {
  const cell = make("th", "", text);
  cell.scope = scope;
  return cell;
}
