// Before the first paint: the theme and the row height that were chosen here, if any.
try { for (const name of ["theme", "density"]) { const kept = localStorage.getItem(name); if (kept) document.documentElement.dataset[name] = kept; } } catch { /* storage is off */ }
