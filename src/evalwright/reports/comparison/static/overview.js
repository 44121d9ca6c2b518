"use strict";
(() => {
  const PAGE = 100;
  const HREF = 0, ID = 1, TITLE = 2, CHANGE = 3, NEW_PASS = 5, ROOT = 6, GATED = 7, INTEGRITY = 8, SIGNALS = 9, RECOMMENDATION = 10, REASON = 11;
  const SEVERITIES = ["low", "medium", "high", "critical"];
  const at = (id) => document.getElementById(id);
  const table = at("case-table"), form = at("filters"), count = at("count"), pager = at("pager");
  const body = table.tBodies[0];
  const words = JSON.parse(table.dataset.words);
  const hrefs = JSON.parse(table.dataset.parts);
  const total = Number(table.dataset.total);
  const own = JSON.parse(table.dataset.rows);
  const parts = [];
  let rows = own, asked = own.length >= total, waiting = asked ? 0 : hrefs.length, lost = 0, page = 0, sort = "";

  window.evalwrightRows = (number, part) => { parts[number - 1] = part; };

  function load() {
    if (asked) return;
    asked = true;
    for (const href of hrefs) {
      const script = document.createElement("script");
      script.src = href;
      script.onload = () => { waiting -= 1; arrived(); };
      script.onerror = () => { waiting -= 1; lost += 1; arrived(); };
      document.head.append(script);
    }
  }

  function arrived() {
    if (waiting) return;
    const whole = parts.flat();
    if (whole.length > own.length) rows = whole;
    offerKinds();
    show();
  }

  function offerKinds() {
    const select = form.elements.kind, chosen = select.value || wanted.get("kind") || "";
    const kinds = new Set(rows.flatMap((row) => row[SIGNALS].map((signal) => signal[0])));
    const options = [...kinds].sort().map((kind) => option(kind, kind.replaceAll("_", " ")));
    select.replaceChildren(option("", "any"), ...options);
    select.value = kinds.has(chosen) ? chosen : "";
  }

  function option(value, text) {
    const made = element("option", "", text);
    made.value = value;
    return made;
  }

  function matching() {
    const chosen = Object.fromEntries(new FormData(form));
    const text = chosen.q.trim().toLowerCase(), least = SEVERITIES.indexOf(chosen.severity);
    const grave = (signal) => (!chosen.kind || signal[0] === chosen.kind) && SEVERITIES.indexOf(signal[1]) >= least;
    return rows.filter((row) =>
      (!chosen.change || row[CHANGE] === chosen.change) &&
      (!chosen.root || row[ROOT] === chosen.root) &&
      (!chosen.integrity || row[INTEGRITY] === chosen.integrity) &&
      (!chosen.gated || row[GATED] === (chosen.gated === "yes")) &&
      (!(chosen.kind || chosen.severity) || row[SIGNALS].some(grave)) &&
      (!text || [row[ID], row[TITLE], row[REASON]].some((each) => each.toLowerCase().includes(text))));
  }

  // What a column is sorted by: the gravest first, texts by their letters.
  const CHANGES = Object.keys(words.change), RULINGS = Object.keys(words.recommendation);
  const TRACES = ["broken", "partial", "ok"];
  const worst = (row) => Math.max(-1, ...row[SIGNALS].map((signal) => SEVERITIES.indexOf(signal[1])));
  const KEYS = [
    (row) => CHANGES.indexOf(row[CHANGE]),
    (row) => row[TITLE].toLowerCase(),
    (row) => row[REASON] || "\uffff",
    (row) => row[ROOT] || "\uffff",
    (row) => -worst(row),
    (row) => TRACES.indexOf(row[INTEGRITY]),
    (row) => RULINGS.indexOf(row[RECOMMENDATION]),
  ];

  function sorted(found) {
    const column = Number(sort.replace("-", ""));
    if (!sort || !KEYS[column]) return found;
    const sign = sort.startsWith("-") ? -1 : 1, key = KEYS[column];
    const keyed = found.map((row, place) => [key(row), place, row]);
    keyed.sort((a, b) => (a[0] < b[0] ? -sign : a[0] > b[0] ? sign : a[1] - b[1]));
    return keyed.map((each) => each[2]);
  }

  function offerSorting() {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = element("button", "sort", head.textContent);
      button.type = "button";
      button.addEventListener("click", () => {
        const up = String(column);
        sort = sort === up ? "-" + up : sort === "-" + up ? "" : up;
        load();
        page = 0;
        show();
        remember();
      });
      head.replaceChildren(button);
    });
  }

  function showSorting() {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const order = sort === String(column) ? "ascending" : sort === "-" + column ? "descending" : "";
      if (order) head.setAttribute("aria-sort", order);
      else head.removeAttribute("aria-sort");
    });
  }

  function show() {
    showSorting();
    const chosen = "#" + (filters().toString() || "cases");
    for (const chip of at("chips").querySelectorAll("[data-chip]")) {
      if (chip.getAttribute("href") === chosen) chip.setAttribute("aria-current", "true");
      else chip.removeAttribute("aria-current");
    }
    const found = sorted(matching()), last = Math.max(0, Math.ceil(found.length / PAGE) - 1);
    if (!waiting) page = Math.min(page, last);
    const first = page * PAGE, shown = found.slice(first, first + PAGE);
    body.replaceChildren(...shown.map(rowOf));
    const all = asked ? found.length : total;
    const filtered = all === total ? "" : (all === 1 ? " that matches, of " : " that match, of ") + number(total);
    const range = all > PAGE ? number(first + 1) + "\u2013" + number(first + shown.length) + " of " : "";
    const state = waiting && asked ? " (loading the rest\u2026)" : lost ? " (parts of the table that could not be loaded: " + lost + ")" : "";
    count.textContent = range + number(all) + (all === 1 ? " case" : " cases") + filtered + state;
    const pages = Math.max(1, Math.ceil(all / PAGE));
    pager.hidden = pages < 2;
    at("page").textContent = "Page " + number(page + 1) + " of " + number(pages);
    at("previous").disabled = page === 0;
    at("next").disabled = page + 1 >= pages;
  }

  const number = (value) => value.toLocaleString("en");

  const blank = at("blank").content.querySelector("tr");

  function rowOf(row) {
    const tr = blank.cloneNode(true), [result, head, reason, root, signals, trace, ruling] = tr.cells;
    const [change, shape] = words.change[row[CHANGE]];
    tr.dataset.task = row[ID];
    if (!row[NEW_PASS]) tr.dataset.failed = "";
    const tone = { pass: "pass", fail: "fail" }[shape] || "idle";
    result.firstElementChild.className = "result is-" + tone;
    const drawn = result.querySelector("svg");
    drawn.setAttribute("class", "shape " + shape);
    drawn.firstElementChild.setAttribute("href", "#s-" + shape);
    result.querySelector(".word").textContent = change;
    const name = element(row[HREF] ? "a" : "span", row[HREF] ? "reach" : "", row[TITLE]);
    if (row[HREF]) name.setAttribute("href", row[HREF]);
    head.firstElementChild.replaceWith(name);
    head.lastElementChild.textContent = row[ID];
    reason.firstElementChild.textContent = row[REASON];
    root.textContent = row[ROOT].replaceAll("_", " ");
    signals.append(...row[SIGNALS].map(([kind, severity]) => {
      const [name, tone] = words.severity[severity];
      return element("span", "badge " + tone, name + ": " + kind.replaceAll("_", " "));
    }));
    badge(trace, words.integrity[row[INTEGRITY]]);
    badge(ruling, words.recommendation[row[RECOMMENDATION]]);
    return tr;
  }

  function badge(cell, [text, tone]) {
    cell.firstElementChild.className = "badge " + tone;
    cell.firstElementChild.textContent = text;
  }

  function element(tag, name, text) {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  const filters = () => new URLSearchParams([...new FormData(form)].filter((pair) => pair[1]));

  function remember() {
    const kept = filters();
    if (page) kept.set("page", page + 1);
    if (sort) kept.set("sort", sort);
    try { history.replaceState(null, "", "#" + kept); } catch { /* the address then stays as it is */ }
  }

  function turn(step) {
    load();
    page += step;
    show();
    remember();
    at("cases").scrollIntoView();
  }

  let wanted = new URLSearchParams();

  // What the address asks for: filters, the order, the page.
  function follow() {
    wanted = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
    if (!wanted.size && location.hash && location.hash !== "#cases") return;
    for (const each of form.elements) if (each.name) each.value = wanted.get(each.name) || "";
    sort = /^-?[0-6]$/.test(wanted.get("sort") || "") ? wanted.get("sort") : "";
    page = Math.max(0, (Number(wanted.get("page")) || 1) - 1);
    if (wanted.size) load();
    offerKinds();
    show();
  }

  form.hidden = at("chips").hidden = false;
  offerSorting();
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("focusin", load);
  form.addEventListener("input", () => { load(); wanted.delete("kind"); page = 0; show(); remember(); });
  form.addEventListener("reset", () => setTimeout(() => { wanted.delete("kind"); page = 0; show(); remember(); }));
  at("previous").addEventListener("click", () => turn(-1));
  at("next").addEventListener("click", () => turn(1));
  addEventListener("hashchange", () => { follow(); if (wanted.size) at("cases").scrollIntoView(); });
  follow();
  if (!wanted.size) { offerKinds(); show(); }
})();
