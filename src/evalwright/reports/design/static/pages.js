// What pages do beyond links: theme, row height, keys, drawer, folds, copying. Without it every page can still be read.
"use strict";
(() => {
  const root = document.documentElement;
  const one = (selector, place = document) => place.querySelector(selector);
  const all = (selector, place = document) => [...place.querySelectorAll(selector)].filter((each) => each.checkVisibility());
  const keep = (name, value) => { try { localStorage.setItem(name, value); } catch { /* storage is off */ } };

  const switchTheme = () => {
    const isDark = (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    keep("theme", root.dataset.theme = isDark ? "light" : "dark");
  };
  const markDensity = () => {
    for (const each of document.querySelectorAll("[data-dense]")) each.setAttribute("aria-pressed", String(each.dataset.dense === (root.dataset.density ?? "roomy")));
  };
  const switchDensity = (wanted) => {
    keep("density", root.dataset.density = wanted ?? (root.dataset.density === "compact" ? "roomy" : "compact"));
    markDensity();
  };

  // The drawer: the server sends the one of a task; its row is marked, its address is in the URL, and the focus stays in the table.
  const drawer = () => one("[data-drawer]");
  const isSmall = () => matchMedia("(max-width: 47.99rem)").matches;
  const markRow = (id) => {
    for (const each of document.querySelectorAll("tr[data-task]")) {
      const isOpen = each.dataset.task === id;
      each.classList.toggle("is-open", isOpen);
      isOpen ? each.setAttribute("aria-current", "true") : each.removeAttribute("aria-current");
    }
  };
  const remember = (id) => {
    const address = new URL(location.href);
    id ? address.searchParams.set("task", id) : address.searchParams.delete("task");
    history.replaceState(history.state, "", address);
  };
  // On a small screen the drawer covers the page: what is behind it cannot be reached.
  const cover = () => {
    const open = drawer();
    const isCovered = Boolean(open && !open.hidden && isSmall());
    one("main").inert = isCovered;
    if (isCovered) one("[data-close]", open)?.focus({ preventScroll: true });
  };
  const closeDrawer = () => {
    const open = drawer();
    if (!open || open.hidden) return false;
    open.hidden = true;
    cover();
    const row = one("tr[aria-current] .reach");
    markRow(null);
    remember(null);
    row?.focus({ preventScroll: true });
    return true;
  };
  const shownDrawer = () => {
    const open = drawer();
    if (!open || open.hidden) return;
    const id = one("[data-drawer-id]", open)?.textContent;
    markRow(id);
    remember(id);
    cover();
  };
  document.addEventListener("htmx:after:swap", (event) => { if (one("#drawer") && (event.detail?.ctx?.target?.id === "drawer" || event.target.id === "drawer")) shownDrawer(); markDensity(); });

  const move = (selector, by) => {
    const entries = all(selector);
    if (!entries.length) return;
    let here = entries.findIndex((each) => each.contains(document.activeElement));
    if (here < 0) here = entries.findIndex((each) => each.matches('[aria-current="true"], :target, :target > *') || one('[aria-current="true"]', each));
    const more = all("[data-more]")[0];
    if (here + by >= entries.length && more) return more.click();
    const entry = entries[Math.min(Math.max(here < 0 && by < 0 ? entries.length - 1 : here + by, 0), entries.length - 1)];
    const target = one(".reach, a, summary, button", entry) ?? entry;
    if (target === entry) entry.tabIndex = -1; // what is said is no control, but has its turn
    target.focus({ preventScroll: true });
    entry.scrollIntoView({ block: "nearest" });
    const id = "step" in entry.dataset && (entry.id || entry.parentElement.id);
    if (id) history.replaceState(history.state, "", `#${id}`); // the address leads to this step
    if (drawer() && !drawer().hidden && entry.matches("tr[data-task]")) target.click();
  };
  const follow = (key) => { const target = all(`[data-key="${key}"]`)[0]; target?.focus(); target?.click(); return Boolean(target); };
  const tasks = "tr[data-task], [data-entry]";
  const keys = {
    j: () => follow("j") || move(tasks, 1), k: () => follow("k") || move(tasks, -1),
    f: () => follow("f") || move("tr[data-failed], [data-entry][data-failed]", 1),
    n: () => follow("n") || move("[data-step]", 1), p: () => move("[data-step]", -1),
    d: () => switchDensity(), t: switchTheme, "?": () => one("#keys")?.showModal(),
    "/": () => (one("[data-search]") ?? one("[data-find]"))?.focus(), Escape: closeDrawer,
  };
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input:not([type=radio], [type=checkbox]), select, textarea, [contenteditable]");
    if (isTyping) {
      if (event.key === "Escape") event.target.blur();
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.form?.requestSubmit();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]")) return;
    if (Object.hasOwn(keys, event.key)) keys[event.key]();
    else if (!/^[a-z]$/.test(event.key) || !follow(event.key)) return;
    if (event.key !== "Escape") event.preventDefault();
  });

  document.addEventListener("click", (event) => {
    const at = (selector) => event.target.closest(selector);
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
    if (at("[data-theme-switch]")) return switchTheme();
    if (at("[data-dense]")) return switchDensity(at("[data-dense]").dataset.dense);
    if (at("[data-help]")) return one("#keys")?.showModal();
    if (at("[data-close]")) return closeDrawer();
    if (at("[data-move]")) return move("tr[data-task]", Number(at("[data-move]").dataset.move));
    const fold = at("[data-fold]");
    if (fold) {
      const isOpen = fold.getAttribute("aria-expanded") !== "true";
      fold.setAttribute("aria-expanded", String(isOpen));
      for (const each of document.querySelectorAll(`[data-in="${fold.dataset.fold}"]`)) each.hidden = !isOpen;
    }
    const copy = at("[data-copy]");
    if (copy) navigator.clipboard?.writeText(one("code", copy.parentElement).textContent).then(() => { one("span", copy).textContent = "Copied"; });
    const press = at("[data-press]");
    if (press) for (const each of press.parentElement.querySelectorAll("[data-press]")) each.setAttribute("aria-pressed", String(each === press && each.getAttribute("aria-pressed") !== "true"));
  });
  const countChosen = () => {
    const bar = one("[data-selection]");
    if (!bar) return;
    const chosen = document.querySelectorAll("[data-pick]:checked").length;
    bar.hidden = !chosen;
    one("b", bar).textContent = `${chosen} ${chosen === 1 ? "run" : "runs"}`;
  };
  document.addEventListener("change", (event) => { if (event.target.matches("[data-pick]")) countChosen(); });
  countChosen();
  // A link to a step that has not come yet asks the server for the steps around it.
  const findStep = () => {
    const address = new URL(location.href), [, place] = /^#s(\d+)$/.exec(address.hash) ?? [];
    if (!place || one(address.hash) || address.searchParams.get("step") === place || !one(".talk [data-step]")) return;
    address.searchParams.set("step", place);
    location.replace(address);
  };
  addEventListener("hashchange", findStep);
  findStep();
  markDensity();
  shownDrawer();
  // The newest runs are on the right.
  for (const each of document.querySelectorAll(".heat, .chart-box")) each.scrollLeft = each.scrollWidth;
  one(".queue [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
})();
