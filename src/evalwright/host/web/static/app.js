// All behaviour of the pages that the server cannot render. No page has a script of its own.
"use strict";
(() => {
  const $ = (selector, from = document) => from.querySelector(selector);
  const token = () => $('meta[name="csrf"]')?.content ?? "";
  const state = $("#state");

  function tell(text, link) {
    if (!state) return;
    state.replaceChildren(text);
    if (link) {
      const anchor = document.createElement("a");
      anchor.href = link.href;
      anchor.textContent = link.text;
      state.append(" ", anchor);
    }
    state.hidden = false;
  }
  function clear() { if (state) state.hidden = true; }

  // Every request of a script proves that it comes from a page of this session.
  document.addEventListener("htmx:config:request", (event) => {
    const request = event.detail.ctx.request;
    request.headers["X-CSRF-Token"] = token();
    // Filters that are not set have no place in an address.
    if (request.method === "GET" && request.body instanceof FormData)
      for (const [name, value] of [...request.body]) if (!value || name === "csrf") request.body.delete(name);
  });

  // States: the session has ended, the host fails, the connection is lost, and it is back.
  function failed(status) {
    if (status === 401) tell("Your session has ended.", { href: location.href, text: "Sign in again" });
    else if (status >= 500) tell("The host cannot answer at the moment.", { href: location.href, text: "Try again" });
  }
  document.addEventListener("htmx:after:request", (event) => {
    const status = event.detail.ctx?.response?.status;
    if (status && status < 400) clear();
    else if (status) failed(status);
  });
  document.addEventListener("htmx:error", ({ detail }) => {
    if (!navigator.onLine) offline();
    else if (detail.ctx && detail.error instanceof TypeError) failed(503); // nobody answers
  });
  function offline() { tell("The connection is lost; what is shown may be out of date."); }
  addEventListener("offline", offline);
  addEventListener("online", clear);
  document.addEventListener("htmx:sse:error", (event) => {
    if (event.detail.status === 401) failed(401);
    else tell("The connection is lost; trying to reconnect.");
  });
  document.addEventListener("htmx:sse:after:connection", clear);

  // A run that is over has another page, with its scorecard.
  document.addEventListener("run-over", () => location.reload());

  document.addEventListener("submit", (event) => {
    const ask = event.target.dataset.ask;
    if (ask && !confirm(ask)) event.preventDefault();
    // A second click would do it twice.
    else if (event.target.method === "post" && event.submitter) setTimeout(() => { event.submitter.disabled = true; });
  });
  addEventListener("pageshow", (event) => {
    if (event.persisted) document.querySelectorAll("button:disabled").forEach((each) => { each.disabled = false; });
  });

  // Filters that somebody keeps in this browser, by name.
  function kept() { try { return Object.entries(JSON.parse(localStorage.getItem("filters") ?? "{}")); } catch { return []; } }
  function keep(filters) {
    try { localStorage.setItem("filters", JSON.stringify(Object.fromEntries(filters.slice(-20)))); } catch { /* storage is off */ }
    showKept();
  }
  function filterHere() {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of [...query]) if (!value || name === "before") query.delete(name);
    return query.toString();
  }
  function showKept() {
    const place = $("[data-kept]"), menu = $("[data-keep]"), here = filterHere();
    if (!place) return;
    place.replaceChildren(...kept().map(([name, query]) => {
      const chip = document.createElement("a");
      chip.className = "chip";
      chip.href = `/runs?${query}`;
      chip.append($("svg", menu).cloneNode(true), name);
      if (query === here) chip.setAttribute("aria-current", "true");
      return chip;
    }));
    menu.hidden = !here;
    $("[data-forget]", menu).hidden = !kept().some(([, query]) => query === here);
  }
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("[data-keep-as]")) return;
    event.preventDefault();
    const name = event.target.elements.name.value.trim();
    if (name) keep([...kept().filter(([each]) => each !== name), [name, filterHere()]]);
    event.target.reset();
    $("[data-keep]").open = false;
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-forget]")) return;
    keep(kept().filter(([, query]) => query !== filterHere()));
    $("[data-keep]").open = false;
  });
  document.addEventListener("htmx:after:swap", showKept);
  showKept();

  // Cells of a grid have a sign only: their names are told when they are pointed at.
  document.addEventListener("mouseover", (event) => {
    const cell = event.target.closest?.(".cells a");
    if (cell) cell.title = cell.ariaLabel;
  });

  // Times: told from now on, with the local time beside them.
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  function words(at, now) {
    const ago = Math.max(0, (now - at) / 1000);
    if (ago < 60) return "just now";
    if (ago < 3600) return `${Math.floor(ago / 60)} min ago`;
    if (ago < 86400) return `${Math.floor(ago / 3600)} h ago`;
    const days = Math.floor(ago / 86400);
    if (days < 30) return days === 1 ? "1 day ago" : `${days} days ago`;
    return null;
  }
  function left(at, now) {
    const minutes = Math.ceil((at - now) / 60000);
    if (minutes <= 1) return "less than 1 min";
    return `about ${minutes < 60 ? "" : `${Math.floor(minutes / 60)} h `}${minutes % 60} min`;
  }
  function times(root) {
    const now = Date.now();
    for (const each of root.querySelectorAll("time[datetime]")) {
      const at = Date.parse(each.dateTime);
      const text = ("left" in each.dataset ? left : words)(at, now);
      if (text && each.textContent !== text) each.textContent = text;
      each.title = format.format(at);
    }
  }
  times(document);
  setInterval(() => times(document), 30000);
  document.addEventListener("htmx:after:swap", () => times(document));
})();
