// Charts and sliders. Every page says the same without them.
"use strict";

(() => {
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const number = (value, decimals = 0) =>
    value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  const charts = new Map();
  document.documentElement.classList.add("js");

  // ---- charts -------------------------------------------------------------------------------

  function axis(more) {
    const ink = style("--muted"), line = style("--line");
    return { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui, sans-serif", ...more };
  }

  function plot(element, options, data) {
    const size = { width: Math.max(element.clientWidth, 120), height: element.clientHeight };
    const chart = new uPlot({
      ...size, legend: { show: false }, cursor: { show: false, drag: { x: false, y: false } }, ...options,
    }, data, element);
    charts.get(element)?.chart?.destroy();
    charts.set(element, { chart });
    return chart;
  }

  // The area below the curve from `low` to `high`, in pixels of the canvas.
  function fillBetween(u, low, high, colour) {
    const [xs, ys] = u.data, base = u.valToPos(0, "y", true);
    const at = (x) => u.valToPos(x, "x", true);
    const inside = xs.map((x, i) => [x, ys[i]]).filter(([x]) => x >= low && x <= high);
    const ends = (x) => [x, interpolate(xs, ys, x)];
    const points = [ends(Math.max(low, xs[0])), ...inside, ends(Math.min(high, xs[xs.length - 1]))];
    if (points[0][0] >= points[points.length - 1][0]) return;
    u.ctx.beginPath();
    u.ctx.moveTo(at(points[0][0]), base);
    for (const [x, y] of points) u.ctx.lineTo(at(x), u.valToPos(y, "y", true));
    u.ctx.lineTo(at(points[points.length - 1][0]), base);
    u.ctx.closePath();
    u.ctx.fillStyle = colour;
    u.ctx.fill();
  }

  function place(xs, x) {
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= x) low = middle; else high = middle;
    }
    return low;
  }

  function interpolate(xs, ys, x) {
    const i = place(xs, x), part = (x - xs[i]) / (xs[i + 1] - xs[i]);
    return ys[i] + part * (ys[i + 1] - ys[i]);
  }

  // P(q >= t) by cubic Hermite pieces: the slope at each point is minus the density there.
  function atLeast({ x: xs, density, atLeast: p }, t) {
    if (t <= xs[0]) return 1;
    if (t >= xs[xs.length - 1]) return 0;
    const i = place(xs, t), h = xs[i + 1] - xs[i], s = (t - xs[i]) / h;
    const a = (1 + 2 * s) * (1 - s) ** 2, b = s * (1 - s) ** 2, c = s * s * (3 - 2 * s), d = s * s * (s - 1);
    return a * p[i] - b * h * density[i] + c * p[i + 1] - d * h * density[i + 1];
  }

  function probabilityText(p) {
    if (p < 0.001) return "less than 0.001";
    return p > 0.999 ? "more than 0.999" : p.toFixed(3);
  }

  function drawPosterior(element) {
    const holder = element.closest("[data-posterior]");
    const known = JSON.parse(holder.dataset.posterior);
    const state = holder.threshold ?? (holder.threshold = { value: null });
    const accent = style("--accent"), mark = style("--mark");
    const chart = plot(element, {
      padding: [8, 30, 0, 30],
      pxAlign: false,
      scales: { x: { time: false }, y: { range: (_u, _low, high) => [0, high * 1.05] } },
      axes: [axis({ size: 34, values: (_u, at) => at.map((v) => number(v, known.decimals)), space: 90 }), { show: false }],
      series: [{}, { stroke: accent, width: 2, points: { show: false } }],
      hooks: {
        drawClear: [(u) => {
          u.ctx.save();
          u.ctx.globalAlpha = 0.22;
          fillBetween(u, known.low, known.high, accent);
          if (state.value !== null) fillBetween(u, state.value, Infinity, mark);
          u.ctx.restore();
        }],
        draw: [(u) => {
          if (state.value === null) return;
          const x = u.valToPos(Math.min(Math.max(state.value, known.x[0]), known.x[known.x.length - 1]), "x", true);
          u.ctx.save();
          u.ctx.strokeStyle = mark;
          u.ctx.lineWidth = 2 * devicePixelRatio;
          u.ctx.beginPath();
          u.ctx.moveTo(x, u.bbox.top);
          u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
          u.ctx.stroke();
          u.ctx.restore();
        }],
      },
    }, [known.x, known.density]);
    wireThreshold(holder, known, state, () => charts.get(element).chart.redraw(false));
    dragOn(chart, (x) => holder.moveTo(x));
  }

  function dragOn(chart, move) {
    const to = (event) => move(chart.posToVal(event.clientX - chart.over.getBoundingClientRect().left, "x"));
    chart.over.addEventListener("pointerdown", (event) => {
      chart.over.setPointerCapture(event.pointerId);
      to(event);
    });
    chart.over.addEventListener("pointermove", (event) => { if (event.buttons & 1) to(event); });
  }

  function wireThreshold(holder, known, state, redraw) {
    const slider = holder.querySelector("input[type=range]");
    const typed = holder.querySelector("input.number");
    const most = holder.querySelector("input[name=at_most]");
    const said = holder.querySelector("[data-probability]");
    const between = (t) => {
      const end = parseFloat(most.value.replaceAll(",", ""));
      return Number.isFinite(end) ? Math.max(0, atLeast(known, t) - atLeast(known, end)) : atLeast(known, t);
    };
    const show = (t, { keepTyped = false } = {}) => {
      state.value = t;
      const text = probabilityText(between(t));
      slider.value = t;
      slider.setAttribute("aria-valuetext", `at least ${number(t, known.decimals)}: probability ${text}`);
      if (!keepTyped) typed.value = t.toFixed(known.decimals);
      said.textContent = text;
      redraw();
    };
    holder.moveTo = show;
    const first = parseFloat(typed.value.replaceAll(",", ""));
    const asked = "asked" in holder.dataset && Number.isFinite(first);
    show(state.value ?? (asked ? first : Number(slider.value)), { keepTyped: true });
    if (holder.dataset.wired) return;
    holder.dataset.wired = "1";
    slider.addEventListener("input", () => holder.moveTo(Number(slider.value)));
    const read = () => {
      const t = parseFloat(typed.value.replaceAll(",", ""));
      if (Number.isFinite(t)) holder.moveTo(t, { keepTyped: true });
    };
    typed.addEventListener("input", read);
    most.addEventListener("input", read);
    holder.querySelector("form").addEventListener("submit", (event) => { event.preventDefault(); read(); });
  }

  function drawPrices(element) {
    const holder = element.closest("[data-slider]");
    const stops = JSON.parse(holder.dataset.slider).filter((stop) => stop.price !== null);
    if (!stops.length) return;
    const slider = holder.querySelector("input[type=range]");
    const accent = style("--accent"), mark = style("--mark");
    // Only half-widths that double have room for a label.
    const isDoubling = (s) => Math.abs((Math.log2(s.within / stops[0].within) + 0.5) % 1 - 0.5) < 1e-6;
    plot(element, {
      padding: [10, 12, 0, 0],
      scales: { x: { time: false, distr: 3, log: 2 }, y: { range: (_u, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [axis({ size: 34, values: (_u, at) => at.map((v) => (v === null ? null : `${v}`)), splits: () => stops.filter(isDoubling).map((s) => s.within) }),
        axis({ size: 58, values: (_u, at) => at.map((v) => `${+v.toPrecision(3)}`), space: 34 })],
      series: [{}, { stroke: accent, width: 2, points: { show: true, size: 6, fill: accent } }],
      hooks: {
        draw: [(u) => {
          const chosen = JSON.parse(holder.dataset.slider)[Number(slider.value)];
          if (chosen.price === null) return;
          u.ctx.beginPath();
          u.ctx.arc(u.valToPos(chosen.within, "x", true), u.valToPos(chosen.price, "y", true), 6 * devicePixelRatio, 0, 2 * Math.PI);
          u.ctx.fillStyle = mark;
          u.ctx.fill();
        }],
      },
    }, [stops.map((s) => s.within), stops.map((s) => s.price)]);
    wireSlider(holder, slider, () => charts.get(element).chart.redraw(false));
  }

  // What a place of the slider means for the form is told as the event `stop`.
  function wireSlider(holder, slider, redraw) {
    if (holder.dataset.wired) return;
    holder.dataset.wired = "1";
    const places = JSON.parse(holder.dataset.slider);
    slider.addEventListener("input", () => {
      const at = Number(slider.value), stop = places[at];
      holder.querySelector("[data-within]").textContent = stop.text;
      slider.setAttribute("aria-valuetext", `plus or minus ${stop.text}, price ${stop.shown}`);
      holder.querySelectorAll("tbody tr").forEach((row, i) => row.classList.toggle("chosen", i === at));
      holder.dispatchEvent(new CustomEvent("stop", { bubbles: true, detail: stop }));
      redraw();
    });
  }

  function drawBurnDown(element) {
    const found = JSON.parse(element.dataset.burnDown);
    const at = [...found.at], left = [...found.left], ahead = at.map(() => null);
    const now = at[at.length - 1], span = Math.max(now - at[0], 86400);
    if (found.ends !== null) {
      // The pace, as far ahead as the past reaches back, and a day at least.
      const end = Math.min(found.ends, now + span), level = left[left.length - 1];
      ahead[ahead.length - 1] = level;
      at.push(end);
      left.push(null);
      ahead.push(level * (1 - (end - now) / (found.ends - now)));
    }
    const clock = (seconds) => {
      const text = new Date(seconds * 1e3).toISOString();
      return span > 2 * 86400 ? text.slice(5, 10) : text.slice(11, 16);
    };
    const accent = style("--accent"), mark = style("--mark");
    plot(element, {
      padding: [10, 14, 0, 0],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
      scales: { x: { time: true }, y: { range: () => [0, found.limit * 1.05] } },
      axes: [axis({ size: 34, values: (_u, v) => v.map(clock), space: 70 }), axis({ size: 58, values: (_u, v) => v.map((y) => `${+y.toPrecision(3)}`) })],
      series: [{},
        { stroke: accent, width: 2, fill: `${accent}22`, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } },
        { stroke: mark, width: 2, dash: [6, 5], points: { show: false } }],
    }, [at, left, ahead]);
  }

  const DRAW = { posterior: drawPosterior, prices: drawPrices, "burn-down": drawBurnDown };
  const draw = (element) => DRAW[element.dataset.chart](element);

  function drawNew() {
    for (const [element, { chart }] of charts) {
      if (!element.isConnected) { chart.destroy(); charts.delete(element); }
    }
    for (const element of document.querySelectorAll("[data-chart]")) {
      if (!charts.has(element)) draw(element);
    }
  }

  function drawAgain() {
    for (const element of [...charts.keys()]) if (element.isConnected) draw(element);
  }

  // ---- the query builder --------------------------------------------------------------------

  // What a folded condition says of itself.
  function tell(details) {
    const said = details.querySelector("[data-said]");
    if (!said) return;
    const ticked = [...details.querySelectorAll("[name^='is:']")].filter((i) => (i.type === "checkbox" ? i.checked : i.value)).map((i) => i.value);
    const [low, high] = ["from:", "to:"].map((n) => details.querySelector(`[name^='${n}']`)?.value.trim() ?? "");
    const not = details.querySelector("[name^='not:']")?.checked && ticked.length;
    const isSet = ticked.length > 0 || low !== "" || high !== "";
    said.textContent = ticked.length ? `${not ? "not " : ""}${ticked.join(", ")}` : isSet ? `${low || "…"} to ${high || "…"}` : "any";
    details.classList.toggle("set", isSet);
  }

  // ---- tables that sort ---------------------------------------------------------------------

  // A press sorts, the largest or the first name on top; the next press turns the order round.
  function sortBy(head, place) {
    const table = head.closest("table"), body = table.tBodies[0];
    const byNumber = head.dataset.sort === "number";
    const was = head.getAttribute("aria-sort");
    const descends = was ? was === "ascending" : byNumber;
    const value = (row) => {
      const cell = row.cells[place];
      if (!byNumber) return cell.textContent;
      return "value" in cell.dataset ? Number(cell.dataset.value) : NaN;
    };
    const compare = (a, b) => {
      const [x, y] = [value(a), value(b)];
      // What is not known comes last in either order.
      if (byNumber && (Number.isNaN(x) || Number.isNaN(y))) return Number.isNaN(x) - Number.isNaN(y);
      const order = byNumber ? x - y : x.localeCompare(y, "en", { numeric: true });
      return descends ? -order : order;
    };
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descends ? "descending" : "ascending");
    body.append(...[...body.rows].sort(compare));
  }

  function letSort(table) {
    [...table.tHead.rows[0].cells].forEach((head, place) => {
      if (!head.dataset.sort || table.tBodies[0].rows.length < 2) return;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sortBy(head, place));
      head.replaceChildren(button);
    });
  }

  // Attributes without the words that are looked for are hidden, unless they are part of the question.
  function find(input) {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const one of input.closest(".card").querySelectorAll(".conditions details, .names > div")) {
      const text = one.textContent.toLowerCase();
      one.hidden = !one.classList.contains("set") && !words.every((word) => text.includes(word));
    }
  }

  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-find]")) find(event.target);
    const details = event.target.closest(".conditions details");
    if (details) tell(details);
  });
  document.addEventListener("htmx:after:swap", drawNew);
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(".conditions details").forEach(tell);
    document.querySelectorAll("table.sorts").forEach(letSort);
    drawNew();
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    drawAgain();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAgain);
})();
