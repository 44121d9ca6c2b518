// Keys: j and k between tasks, n and p between steps, f to the next failure, ? for help; and those that
// a page names with data-key.
"use strict";
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)].filter((each) => each.checkVisibility());
  const isTyping = (target) => target.closest?.("input:not([type=radio]), select, textarea, [contenteditable]");

  // Moves the focus among entries of a list; one that can be opened has it on what opens it.
  function move(selector, by) {
    const entries = all(selector);
    if (!entries.length) return false;
    const focused = entries.findIndex((each) => each.contains(document.activeElement));
    const here = focused < 0 ? entries.findIndex((each) => each.matches(":target")) : focused;
    const place = here < 0 ? (by > 0 ? 0 : entries.length - 1) : here + by;
    const more = all("[data-more]")[0];
    if (place >= entries.length && more) return more.click(), true;
    const entry = entries[Math.min(Math.max(place, 0), entries.length - 1)];
    const target = entry.querySelector("a, summary, button") ?? entry;
    target.focus({ preventScroll: true });
    entry.scrollIntoView({ block: "nearest" });
    // The address leads to the step that is looked at.
    if (entry.id && "step" in entry.dataset) history.replaceState(history.state, "", `#${entry.id}`);
    return true;
  }
  const follow = (key) => {
    const link = document.querySelector(`[data-key="${key}"]`);
    link?.focus();
    link?.click();
    return Boolean(link);
  };
  const help = () => document.querySelector("#keys")?.showModal();
  const keys = {
    j: () => follow("j") || move("[data-task]", 1),
    k: () => follow("k") || move("[data-task]", -1),
    f: () => follow("f") || move("[data-failed]", 1),
    n: () => follow("n") || move("[data-step]", 1),
    p: () => move("[data-step]", -1),
    "?": help,
  };
  // In a field, Escape leaves it, and Ctrl and Enter send its form.
  document.addEventListener("keydown", (event) => {
    const form = event.target.form;
    if (!form || !("send" in form.dataset)) return;
    if (event.key === "Escape") event.target.blur();
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    const known = Object.hasOwn(keys, event.key) && keys[event.key];
    if (known || /^[a-z]$/.test(event.key)) {
      if (known) known();
      else if (!follow(event.key)) return;
      event.preventDefault();
    }
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-help]")) help();
  });
})();
// A link to a step that is not among those shown: the page is asked for with it.
(() => {
  const find = () => {
    const wanted = /^#s(\d+)$/.exec(location.hash);
    if (!wanted || !document.querySelector(".trail") || document.getElementById(location.hash.slice(1))) return;
    const address = new URL(location.href);
    if (address.searchParams.get("step") === wanted[1]) return;
    address.searchParams.set("step", wanted[1]);
    location.replace(address);
  };
  find();
  addEventListener("hashchange", find);
})();
// The tree of a trace: a step folds away those within it, also those that have not come yet.
(() => {
  const trail = document.querySelector(".trail.waterfall");
  if (!trail) return;
  const folds = (place = trail) => [...place.querySelectorAll(".fold")];
  const isFolded = (fold) => fold.getAttribute("aria-expanded") === "false";
  let isAllFolded = false;

  function fold(which, wanted) {
    for (const each of which) each.setAttribute("aria-expanded", String(!wanted));
    let until = 0; // the place behind the last that is folded away
    for (const entry of [...trail.children]) {
      const place = Number(entry.dataset.place);
      entry.hidden = place < until;
      if (entry.hidden) split(entry, until);
      else for (const each of folds(entry)) if (isFolded(each)) until = Number(each.dataset.until);
    }
  }
  // What has not come yet is folded away up to a place: what is behind it comes by itself.
  function split(entry, until) {
    const link = entry.querySelector("[data-more]");
    if (!link || until >= Number(entry.dataset.end)) return;
    const rest = entry.cloneNode(true);
    rest.hidden = false;
    lead(rest, until, entry.dataset.end);
    lead(entry, entry.dataset.place, until);
    entry.after(rest);
    htmx.process(rest);
  }
  function lead(entry, from, to) {
    const link = entry.querySelector("[data-more]");
    const address = new URL(link.href);
    address.searchParams.set("from", from);
    address.searchParams.set("to", to);
    Object.assign(entry.dataset, { place: from, end: to });
    link.href = address.pathname + address.search;
    link.setAttribute("hx-get", link.getAttribute("href"));
    link.textContent = `Show the next of ${(to - from).toLocaleString("en")} more steps`;
  }

  document.addEventListener("click", (event) => {
    const one = event.target.closest(".fold");
    const every = event.target.closest("[data-fold]");
    if (every) isAllFolded = every.dataset.fold === "true";
    if (one) fold([one], !isFolded(one));
    else if (every) fold(folds(), isAllFolded);
  });
  trail.addEventListener("keydown", (event) => {
    const one = event.target.closest("[data-step]")?.querySelector(".fold");
    if (!one || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    fold([one], event.key === "ArrowLeft");
    event.preventDefault();
  });
  const seen = new WeakSet(folds());
  document.addEventListener("htmx:after:swap", () => {
    const fresh = folds().filter((each) => !seen.has(each));
    for (const each of fresh) seen.add(each);
    fold(fresh, isAllFolded);
  });
  addEventListener("hashchange", () => { if (document.querySelector(":target")?.hidden) fold(folds(), false); });
})();
