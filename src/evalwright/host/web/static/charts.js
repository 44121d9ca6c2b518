// Charts of trends. The table below them has the same numbers, so nothing is lost without a script.
"use strict";
(() => {
  const theme = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const tones = ["--bar-new", "--good", "--bad", "--warn", "--info", "--bar-old"];
  const dashes = [[], [6, 4], [2, 3], [10, 3, 2, 3], [1, 4], [12, 4]];

  function draw(place) {
    const told = JSON.parse(place.dataset.chart);
    const axis = { stroke: theme("--muted"), grid: { stroke: theme("--line"), width: 1 }, ticks: { stroke: theme("--line") } };
    const named = (number) => (told.unit === "$" ? `$${number}` : told.unit ? `${number} ${told.unit}` : String(number));
    const value = (_, number) => (number == null ? "–" : named(+number.toPrecision(4)));
    const series = [{}];
    const data = [told.x];
    const bands = []; // first, so that lines are drawn over them
    const isAlone = told.lines.length === 1;
    for (const [n, line] of told.lines.entries()) {
      if (!told.low.some((each) => each !== null)) break;
      const edge = { stroke: isAlone ? theme("--line") : "transparent", class: isAlone ? null : "edge", width: 1, points: { show: false }, spanGaps: true, value };
      if (!isAlone) edge.label = line.name;
      series.push({ label: "at most", ...edge }, { label: "at least", ...edge });
      for (const edges of [told.high, told.low]) data.push(edges.map((each, at) => (line.y[at] === null ? null : each)));
      bands.push({ series: [data.length - 2, data.length - 1], fill: isAlone ? theme("--info-bg") : `${theme(tones[n])}22` });
    }
    told.lines.forEach((line, n) => {
      series.push({ label: line.name || told.name, stroke: theme(tones[n]), dash: dashes[n], width: 2, spanGaps: true, points: { show: true, size: 6 }, value });
      data.push(line.y);
    });
    place.replaceChildren();
    const size = { width: Math.max(200, place.clientWidth), height: 220 };
    const day = 86400; // a single run is in the middle of one, not at the edge of years
    const x = { range: (_, from, to) => (from === to ? [from - day / 2, to + day / 2] : [from, to]) };
    const chart = new uPlot({ ...size, scales: { x }, series, bands, axes: [axis, { ...axis, size: 70, values: (_, splits) => splits.map((each) => named(+each.toPrecision(6))) }], legend: { live: true } }, data, place);
    new ResizeObserver(() => chart.setSize({ width: Math.max(200, place.clientWidth), height: 220 })).observe(place);
  }
  const drawAll = () => { if (window.uPlot) document.querySelectorAll("[data-chart]").forEach(draw); };
  drawAll();
  document.addEventListener("htmx:after:swap", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();
