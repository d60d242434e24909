// The fleet at a glance: one cell a pod, coloured by its condition and filled by its load; and what is asked for of its pods.

import { $, count, keyed, make, mark, write } from "./dom.js";

/** Pods in the table at once. */
const PAGE = 50;
const asked = { sort: "problems", search: "", pods: "all", offset: 0 };
const WORDS = { good: "well", warn: "to be watched", bad: "out" };

/** The query for what is to be shown, as the gateway takes it. */
export const query = () => new URLSearchParams({ ...asked, limit: PAGE }).toString();

/** Has `changed` called when something else is asked for. */
export function listen(changed) {
  const ask = (change) => {
    Object.assign(asked, { offset: 0 }, change);
    changed();
  };
  $("asked").addEventListener("submit", (event) => event.preventDefault());
  $("sort").addEventListener("change", () => ask({ sort: $("sort").value }));
  $("search").addEventListener("input", () => ask({ search: $("search").value }));
  $("problems").addEventListener("change", () => ask({ pods: $("problems").checked ? "problems" : "all" }));
  $("before").addEventListener("click", () => ask({ offset: Math.max(0, asked.offset - PAGE) }));
  $("after").addEventListener("click", () => ask({ offset: asked.offset + PAGE }));
  $("cells").addEventListener("click", (event) => {
    const cell = event.target.closest("button");
    if (!cell) return;
    $("search").value = cell.key;
    $("problems").checked = false;
    ask({ search: cell.key, pods: "all" });
  });
}

export function showFleet(fleet, pods) {
  // Of a gateway that tells no summary, the pods are all there are.
  const cells = fleet?.cells ?? pods.map((pod) => [pod.name, pod.healthy && pod.circuit === "closed" ? "good" : "bad", pod.in_flight]);
  const most = Math.max(8, ...cells.map(([, , load]) => load));
  keyed($("cells"), cells, ([name]) => name, ([name]) => {
    const cell = make("button", "cell-of");
    cell.type = "button";
    cell.dataset.name = name;
    return cell;
  }, (cell, [name, condition, load]) => {
    mark(cell, `cell-of ${condition}`);
    cell.style.setProperty("--share", Math.min(1, load / most).toFixed(2));
    const text = `${name}: ${WORDS[condition] ?? condition}, ${count(load)} in flight`;
    if (cell.title !== text) {
      cell.title = text;
      cell.setAttribute("aria-label", text);
    }
  });
  const problems = fleet?.problems ?? cells.filter(([, condition]) => condition !== "good").length;
  write($("fleet-count"), `${count(cells.length)} pods, ${problems === 0 ? "all well" : `${count(problems)} with problems`}`);
  $("fleet-count").toggleAttribute("data-alarm", problems > 0);
  showRange(fleet, pods.length);
}

/** Which pods of how many the table has. */
function showRange(fleet, shown) {
  const all = fleet?.matching ?? shown;
  const from = fleet?.offset ?? 0;
  if (shown === 0 && all > 0) asked.offset = 0;
  write($("range"), shown === 0 ? "none" : `${count(from + 1)} to ${count(from + shown)} of ${count(all)}`);
  $("before").disabled = from === 0;
  $("after").disabled = from + shown >= all;
  $("pager").hidden = all <= PAGE;
}
