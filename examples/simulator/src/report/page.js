document.querySelectorAll("table").forEach(table => table.querySelectorAll("thead th").forEach((head, at) => {
  head.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    table.querySelectorAll("thead th").forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = table.tBodies[0], sign = up ? 1 : -1;
    const number = row => "value" in row.cells[at].dataset ? Number(row.cells[at].dataset.value) : sign * Infinity;
    const order = at === 0
      ? (a, b) => sign * a.cells[0].textContent.localeCompare(b.cells[0].textContent)
      : (a, b) => number(a) === number(b) ? 0 : sign * (number(a) - number(b));
    [...body.rows].sort(order).forEach(row => body.append(row));
  });
}));
