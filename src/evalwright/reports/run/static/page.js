"use strict";
(() => {
  const STATUS = 0, CHECKS = 1, TAGS = 2, TEXT = 3, HTML = 4;
  const at = (id) => document.getElementById(id);
  const list = at("list"), form = at("filters"), count = at("count"), pager = at("pager");
  const total = Number(list.dataset.total), PAGE = Number(list.dataset.atOnce), BLOCK = Number(list.dataset.block);
  const kept = new Map();
  let lines = null, texts = null, page = 0, turn = 0;

  // What is compressed is read once, when it is first asked for.
  function read(name) {
    if (!kept.has(name)) kept.set(name, unpack(at(name).textContent));
    return kept.get(name);
  }

  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).json();
  }

  const blockOf = (number) => read("bodies-" + Math.floor(number / BLOCK));

  async function fill(details) {
    const body = details.id && details.querySelector(".inside");
    if (!body || body.textContent.trim()) return;
    const number = Number(details.id.slice(1));
    try {
      body.innerHTML = (await blockOf(number))[number % BLOCK];
    } catch (error) {
      body.textContent = "This browser cannot read the compressed part of the page: " + error.message;
    }
  }

  // The whole text of every task, for a search.
  async function readTexts() {
    if (texts) return;
    texts = [];
    const found = [];
    for (let first = 0; first < total; first += BLOCK) {
      for (const body of await blockOf(first)) found.push(plain(body));
    }
    texts = found;
    if (form.elements.q.value.trim()) show();
  }

  const plain = (html) => html.replace(/<[^>]*>/g, " ").replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&").toLowerCase();

  function matching(chosen) {
    const text = chosen.q.trim().toLowerCase(), found = [], isAsked = Object.values(chosen).some((each) => each.trim());
    lines.forEach((line, number) => {
      if ((chosen.result ? line[STATUS] === chosen.result : isAsked || line[STATUS] !== "passed") &&
          (!chosen.check || line[CHECKS].includes("\n" + chosen.check + "\n")) &&
          (!chosen.tag || line[TAGS].includes("\n" + chosen.tag + "\n")) &&
          (!text || line[TEXT].includes(text) || (texts && texts[number] && texts[number].includes(text)))) found.push(number);
    });
    return found;
  }

  async function show() {
    const mine = ++turn;
    lines = lines || await read("lines");
    if (mine !== turn) return;
    const found = matching(Object.fromEntries(new FormData(form)));
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    page = Math.max(0, Math.min(page, pages - 1));
    const first = page * PAGE, shown = found.slice(first, first + PAGE);
    list.innerHTML = shown.map((number) => lines[number][HTML]).join("");
    const isAsked = [...new FormData(form)].some((pair) => pair[1].trim());
    const words = !isAsked ? " did not pass, of " : found.length === 1 ? " that matches, of " : " that match, of ";
    const range = found.length > PAGE ? number(first + 1) + "\u2013" + number(first + shown.length) + " of " : "";
    count.textContent = range + number(found.length) + (found.length === 1 ? " task" : " tasks") + (isAsked && found.length === total ? "" : words + number(total));
    at("tasks").textContent = isAsked ? "Found" : found.length ? "Not passed" : "Tasks";
    if (at("passed")) at("passed").hidden = isAsked;
    if (found.length === 1) list.firstElementChild.open = true;
    paged(pages);
  }

  function paged(pages) {
    pager.hidden = pages < 2;
    at("page").textContent = "Page " + number(page + 1) + " of " + number(pages);
    at("previous").disabled = page === 0;
    at("next").disabled = page + 1 >= pages;
  }

  const number = (value) => value.toLocaleString("en");

  function remember() {
    const state = new URLSearchParams([...new FormData(form)].filter((pair) => pair[1]));
    if (page) state.set("page", page + 1);
    try { history.replaceState(null, "", "#" + state); } catch { /* the address then stays as it is */ }
  }

  async function turnPage(step) {
    page += step;
    await show();
    remember();
    at("tasks").scrollIntoView();
  }

  // j and k go from task to task while one of them has the focus.
  function walk(event) {
    const step = { j: 1, k: -1 }[event.key], from = event.target.closest(".change > summary");
    if (!step || !from || event.ctrlKey || event.metaKey || event.altKey) return;
    const all = [...list.querySelectorAll(".change > summary")], next = all[all.indexOf(from) + step];
    if (next) { event.preventDefault(); next.focus(); }
  }

  form.hidden = false;
  list.addEventListener("toggle", (event) => { if (event.target.open && event.target.parentElement === list) fill(event.target); }, true);
  list.addEventListener("keydown", walk);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.elements.q.addEventListener("focus", readTexts);
  form.addEventListener("input", () => { readTexts(); page = 0; show(); remember(); });
  form.addEventListener("reset", () => setTimeout(() => { page = 0; show(); remember(); }));
  at("previous").addEventListener("click", () => turnPage(-1));
  at("next").addEventListener("click", () => turnPage(1));
  // What the address asks for, at first and when a link of the page leads to other tasks.
  function follow(isFirst) {
    const wanted = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
    for (const each of form.elements) if (each.name) each.value = wanted.get(each.name) || "";
    page = Math.max(0, (Number(wanted.get("page")) || 1) - 1);
    if (wanted.get("q")) readTexts();
    if (wanted.size || !isFirst) return show();
    paged(Math.max(1, Math.ceil(Number(list.dataset.rest) / PAGE)));
  }
  addEventListener("hashchange", () => { follow(false); at("tasks").scrollIntoView(); });
  follow(true);
})();
