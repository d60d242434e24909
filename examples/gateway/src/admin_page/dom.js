// Elements and figures as text. Names of pods and ids of requests are data: they enter the page as text, never as markup.

export const $ = (id) => document.getElementById(id);

/** An element with a class, and children that are elements or text. */
export function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children);
  return element;
}

/** Writes only what changed, so that selections and screen readers are left in peace. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function mark(element, name) {
  if (element.className !== name) element.className = name;
}

export const given = (value) => typeof value === "number" && Number.isFinite(value);
export const count = (value) => (given(value) ? Math.round(value).toLocaleString("en") : "–");
export const percent = (share) => (given(share) ? `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %` : "–");

/** 1,234,567 as 1.23 M, where a figure has little room. */
export function brief(value) {
  if (!given(value)) return "–";
  if (value < 1e4) return count(value);
  const [unit, size] = value < 999_500 ? ["k", 1e3] : value < 999_500_000 ? ["M", 1e6] : ["G", 1e9];
  return `${(value / size).toPrecision(3)} ${unit}`;
}

export function milliseconds(value) {
  if (!given(value)) return "–";
  return value < 9_950 ? `${value < 9.95 ? value.toFixed(1) : count(value)} ms` : `${(value / 1000).toFixed(1)} s`;
}

export function seconds(value) {
  if (!given(value)) return "–";
  if (value < 9.95) return `${value.toFixed(1)} s`;
  if (value < 120) return `${Math.round(value)} s`;
  return value < 7200 ? `${Math.floor(value / 60)} min` : `${Math.floor(value / 3600)} h`;
}

/** Makes the children of `parent` those of `items`, in order; what is there for a key stays the same element. */
export function keyed(parent, items, key, create, update) {
  const old = new Map(Array.from(parent.children, (child) => [child.key, child]));
  let at = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let element = old.get(name);
    old.delete(name);
    if (!element) {
      element = create(item);
      element.key = name;
    }
    if (element === at) at = at.nextElementSibling;
    else parent.insertBefore(element, at);
    update(element, item);
  }
  for (const gone of old.values()) gone.remove();
}
