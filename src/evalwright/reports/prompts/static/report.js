"use strict";
(() => {
  const at = (id) => document.getElementById(id);
  const table = at("files"), body = table.tBodies[0], form = at("filters"), count = at("count");
  const heads = [...table.tHead.rows[0].cells], rows = [...body.rows];
  const chips = [...form.querySelectorAll("[data-chip]")];
  const textOf = (row, place) => row.cells[place].textContent.trim();

  function keyOf(row, place) {
    const text = textOf(row, place);
    return heads[place].dataset.kind === "number" ? parseFloat(text.replace("\u2212", "-")) : text.toLowerCase();
  }

  function compare(a, b) {
    if (a === b) return 0;
    return a < b ? -1 : 1;
  }

  function sort(place) {
    load();
    const up = heads[place].ariaSort !== "ascending";
    const keyed = rows.map((row, order) => ({ row, order, key: keyOf(row, place) }));
    keyed.sort((a, b) => {
      const missing = Number.isNaN(a.key) - Number.isNaN(b.key);
      return missing || (up ? compare(a.key, b.key) : compare(b.key, a.key)) || a.order - b.order;
    });
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[place].setAttribute("aria-sort", up ? "ascending" : "descending");
    body.replaceChildren(...keyed.map((each) => each.row));
  }

  function filter() {
    load();
    const text = form.elements.q.value.trim().toLowerCase();
    const status = chips.find((chip) => chip.ariaPressed === "true").dataset.chip;
    let shown = 0;
    for (const row of rows) {
      const fits = (!text || textOf(row, 1).toLowerCase().includes(text)) && (status === "all" || row.dataset.status === status);
      row.hidden = !fits;
      shown += fits;
    }
    count.textContent = shown === rows.length ? shown + " rows" : shown + " of " + rows.length + " rows";
  }

  // The rows and files of a large library are texts until they are asked for.
  function load() {
    const rest = at("rest");
    if (!rest) return;
    const holder = document.createElement("template");
    holder.innerHTML = rest.textContent;
    rows.push(...holder.content.querySelectorAll("tr"));
    body.append(...rows);
    rest.remove();
    at("all").remove();
  }

  function open(place) {
    const kept = place.firstElementChild;
    if (kept && kept.localName === "noscript") place.innerHTML = kept.textContent;
    return place.firstElementChild;
  }

  function follow() {
    const name = location.hash.match(/^#(f\d+)(l\d+)?$/);
    const place = name && document.querySelector(`[data-file="${name[1]}"]`);
    if (!place) return;
    open(place).open = true;
    at(name[0].slice(1)).scrollIntoView({ behavior: "instant" });
  }

  heads.forEach((head, place) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sort(place));
    head.replaceChildren(button);
  });
  for (const chip of chips) {
    chip.addEventListener("click", () => {
      for (const each of chips) each.setAttribute("aria-pressed", String(each === chip));
      filter();
    });
  }
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", filter);
  addEventListener("beforeprint", () => document.querySelectorAll("[data-file]").forEach(open));
  addEventListener("hashchange", follow);
  for (const each of [at("all"), at("hint")]) if (each) each.hidden = false;
  if (at("all")) at("all").addEventListener("click", load);
  if (form.elements.q.value) filter();
  follow();
})();
