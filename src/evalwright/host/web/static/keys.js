// Keys: j and k between tasks, n and p between steps, f to the next failure, ? for help; and those that
// a page names with data-key.
"use strict";
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const isTyping = (target) => target.closest?.("input:not([type=radio]), select, textarea, [contenteditable]");

  // Moves the focus among entries of a list; one that can be opened has it on what opens it.
  function move(selector, by) {
    const entries = all(selector);
    if (!entries.length) return false;
    const here = entries.findIndex((each) => each.contains(document.activeElement));
    const place = here < 0 ? (by > 0 ? 0 : entries.length - 1) : here + by;
    const more = document.querySelector("[data-more]");
    if (place >= entries.length && more) return more.click(), true;
    const entry = entries[Math.min(Math.max(place, 0), entries.length - 1)];
    const target = entry.querySelector("a, summary, button") ?? entry;
    target.focus({ preventScroll: true });
    entry.scrollIntoView({ block: "nearest" });
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
