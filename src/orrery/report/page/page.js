"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

// --- numbers as people read them ----------------------------------------------------

const three = (x) => {
  if (x === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(x)) + 1e-9));
  return x.toFixed(Math.min(digits, 6));
};
const scaled = (x, steps, unit) => {
  let [size, prefix] = steps[steps.length - 1];
  for (const step of steps) if (Math.abs(x) >= step[0] * 0.9995) { [size, prefix] = step; break; }
  return three(x / size) + " " + prefix + unit;
};
const large = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
const small = [[1, ""], [1e-3, "m"], [1e-6, "u"], [1e-9, "n"]];
const seconds = (x) => x === 0 ? "0 s" : scaled(x, small, "s");
const bytes = (x) => scaled(x, large, "B");
const flops = (x) => scaled(x, large, "FLOP");
const share = (x) => (100 * x).toFixed(1) + " %";
const whole = (x) => Math.round(x).toLocaleString("en-US");

// --- the page's elements --------------------------------------------------------------

const element = (tag, properties, ...children) => {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(properties || {}))
    if (key in made) made[key] = value; else made.setAttribute(key, value);
  made.append(...children);
  return made;
};
const legendEntry = (color, name, value) => {
  const mark = element("i");
  mark.style.background = color;
  return element("li", {}, mark, name + " ", element("b", {textContent: value}));
};
/** Parts side by side, of which `total` is the full width. */
const fillBar = (bar, parts, total) => {
  for (const [color, value, title] of parts) {
    const part = element("span", {title});
    part.style.cssText = `background:${color};flex:0 0 ${Math.max(0, 100 * value / total)}%`;
    bar.append(part);
  }
};

const tip = byId("tip");
const showTip = (text, x, y) => {
  if (!text) { tip.style.visibility = "hidden"; return; }
  tip.textContent = text;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + "px";
  tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 10) : y + 18) + "px";
  tip.style.visibility = "visible";
};

// --- light and dark -------------------------------------------------------------------

const redraws = [];
const remembered = () => { try { return localStorage.getItem("orrery-theme"); } catch { return null; } };
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const setTheme = (theme) => {
  document.documentElement.dataset.theme = theme;
  for (const redraw of redraws) redraw();
};
const chosenTheme = () => remembered() || (systemDark.matches ? "dark" : "light");
byId("theme").onclick = () => {
  const other = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("orrery-theme", other); } catch { /* A page of a file may not keep it. */ }
  setTheme(other);
};
systemDark.addEventListener("change", () => setTheme(chosenTheme()));
setTheme(chosenTheme());
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const palette = {
  "gemm": "#4e79a7", "convolution": "#59a14f", "attention": "#e15759", "elementwise": "#f28e2b",
  "reduction": "#b07aa1", "normalization": "#76b7b2", "data movement": "#9c755f",
  "indexed": "#d9b63c", "sort": "#ff9da7", "library": "#8cd17d", "collective": "#d37295",
};
const other = "#8a93a3";
const colorOf = (kind) => palette[kind] || other;
const tinted = (color, percent) => `color-mix(in srgb, ${color} ${percent}%, var(--raised))`;

// --- launches, kernels, parts ---------------------------------------------------------

const text = (index) => data.strings[index];
const K = data.kernels, L = data.launches, P = data.parts;
const kernelCount = K.name.length, launchCount = L.kernel.length, partCount = P.name.length;
const kernelName = (k) => text(K.name[k]);
const kindOf = (k) => text(K.kind[k]);
const timeOf = (i) => L.count[i] * K.time[L.kernel[i]];
const starts = new Float64Array(launchCount);
for (let i = 0, ns = 0; i < launchCount; ++i) starts[i] = (ns += L.start[i]) * 1e-9;
let kernelTime = 0;
for (let i = 0; i < launchCount; ++i) kernelTime += timeOf(i);
const latency = data.latency;
const partWay = (p) => {
  const names = [];
  for (; p !== 0; p = P.parent[p]) names.push(text(P.name[p]));
  return names.reverse().join(" / ");
};
const ways = Array.from({length: partCount}, (_, p) => partWay(p));

// --- headline -------------------------------------------------------------------------

byId("workload").textContent = data.workload;
byId("conditions").textContent =
  `on ${data.device} (${data.stack}, ${data.kernel_model})`;
const card = (name, figure, ...more) => {
  const box = element("div", {}, element("dt", {textContent: name}),
                      element("dd", {className: "figure", textContent: figure}));
  for (const line of more)
    box.append(typeof line === "string" ? element("dd", {className: "more", textContent: line}) : line);
  byId("headline").append(box);
};
{
  const bar = element("dd", {className: "interval", title: "the 90 % interval, from end to end; the mark is the prediction"});
  const at = data.high > data.low && data.low > 0
    ? Math.log(latency / data.low) / Math.log(data.high / data.low) : 0.5;
  const mark = element("span");
  mark.style.left = `calc(${(100 * at).toFixed(1)}% - 0.1rem)`;
  bar.append(mark);
  card("step time", seconds(latency), `90 % within ${seconds(data.low)} … ${seconds(data.high)}`, bar);
  card("single call", seconds(data.single_call), "with what the host does around it");
  if (data.kernel_sum > 0)
    card("kernels", seconds(data.kernel_sum),
         `together; γ = step / kernels − 1 = ${(latency / data.kernel_sum - 1).toFixed(3)}`);
  if (data.energy === null) card("energy", "not known", "the device's power is not published");
  else card("energy", scaled(data.energy, [...large, ...small.slice(1)], "J"), "a step");
  const m = data.memory;
  card("memory at peak", bytes(m.peak),
       element("dd", {className: m.fits ? "more" : "more bad",
                      textContent: `of ${bytes(m.capacity)}: ${m.fits ? "fits" : "DOES NOT FIT"}`}));
  const mean = (amount, unit) => latency > 0 ? [scaled(amount / latency, large, unit) + " on average"] : [];
  card("work", flops(data.flops), ...mean(data.flops, "FLOP/s"));
  card("memory traffic", bytes(data.bytes), ...mean(data.bytes, "B/s"));
  card("launches", whole(data.launch_count), `${whole(kernelCount)} different kernels`);
}
byId("trust").textContent = `${data.trust[0]}: ${data.trust[1]}`;

{
  // A kind keeps its colour; what it waits for changes the shade.
  const seen = new Map();
  const shown = data.breakdown.filter((cause) => cause[1] > 0).map(([cause, time]) => {
    const kind = cause.split(",")[0];
    const nth = seen.get(kind) || 0;
    seen.set(kind, nth + 1);
    return {cause, time, color: tinted(colorOf(kind), 100 - 30 * Math.min(nth, 2))};
  });
  fillBar(byId("breakdown-bar"), shown.map(({cause, time, color}) => [color, time, `${cause}: ${seconds(time)}`]), latency);
  byId("breakdown").append(...shown.map(({cause, time, color}) =>
    legendEntry(color, cause, `${seconds(time)}, ${share(time / latency)}`)));
}

// --- the icicle -----------------------------------------------------------------------

/** A node of either tree; `kernel` and `part` are -1 where it stands for none. */
const node = (name, parent, kernel = -1) =>
  ({name, parent, kernel, part: -1, time: 0, count: 0, children: [], kind: kernel < 0 ? null : kindOf(kernel)});
const addLeaf = (leaves, key, parent, kernel, time, count) => {
  let leaf = leaves.get(key);
  if (!leaf) {
    leaf = node(kernelName(kernel), parent, kernel);
    leaves.set(key, leaf);
    parent.children.push(leaf);
  }
  leaf.time += time;
  leaf.count += count;
};
const addUp = (n) => {
  let longest = 0;
  for (const child of n.children) {
    if (child.kernel < 0) addUp(child);
    n.time += child.time;
    n.count += child.count;
    // A part is tinted as its longest.
    if (child.time > longest) { longest = child.time; n.kind = child.kind; }
  }
};
/** Neighbours too short to be drawn, as one. */
const group = (parent, members) => {
  const made = node(`${members.length} shorter`, parent);
  made.children = members;
  for (const member of members) { made.time += member.time; made.count += member.count; }
  made.kind = members.reduce((a, b) => b.time > a.time ? b : a).kind;
  return made;
};
const between = Math.max(0, latency - kernelTime - data.left_out.time);
/** What the step is made of beside the launches shown. */
const addRest = (root) => {
  const add = (name, time) => {
    if (time <= latency * 1e-6) return;
    const rest = node(name, root);
    rest.time = time;
    root.children.push(rest);
    root.time += time;
  };
  add("shorter launches", data.left_out.time);
  add("between kernels", between);
};
const layerTree = () => {
  const nodes = [];
  for (let p = 0; p < partCount; ++p) {
    const parent = p === 0 ? null : nodes[P.parent[p]];
    nodes.push(node(p === 0 ? "step" : text(P.name[p]), parent));
    nodes[p].part = p;
  }
  // Children stand in the order they run first.
  const placed = new Uint8Array(partCount);
  const place = (p) => {
    if (p === 0 || placed[p]) return;
    placed[p] = 1;
    place(P.parent[p]);
    nodes[P.parent[p]].children.push(nodes[p]);
  };
  const leaves = new Map();
  for (let i = 0; i < launchCount; ++i) {
    const p = L.part[i], k = L.kernel[i];
    place(p);
    addLeaf(leaves, p * kernelCount + k, nodes[p], k, timeOf(i), L.count[i]);
  }
  addUp(nodes[0]);
  addRest(nodes[0]);
  return nodes[0];
};
const operatorTree = () => {
  const root = node("step", null);
  const kinds = new Map(), operations = new Map(), leaves = new Map();
  const find = (map, key, name, parent) => {
    if (!map.has(key)) { map.set(key, node(name, parent)); parent.children.push(map.get(key)); }
    return map.get(key);
  };
  for (let i = 0; i < launchCount; ++i) {
    const k = L.kernel[i];
    const kind = find(kinds, K.kind[k], kindOf(k), root);
    const operation = find(operations, K.kind[k] + "/" + K.operation[k], text(K.operation[k]), kind);
    addLeaf(leaves, k, operation, k, timeOf(i), L.count[i]);
  }
  addUp(root);
  const sort = (n) => { n.children.sort((a, b) => b.time - a.time); n.children.forEach(sort); };
  sort(root);
  addRest(root);
  return root;
};

const trees = {};
const tree = (axis) => trees[axis] || (trees[axis] = axis === "layer" ? layerTree() : operatorTree());
let axis = "layer";
let zoomed = null;
const rowHeight = 25.6, mostLevels = 9, narrowest = 2;
const tipOf = (n) => `${n.name}\n${seconds(n.time)}, ${share(n.time / latency)} of the step` +
  (n.kernel >= 0 ? `\n${whole(n.count)} × ${seconds(K.time[n.kernel])}, ${text(K.bound[n.kernel])} bound`
    : n.count > 0 ? `\n${whole(n.count)} launches` : "");
const isDark = (color) => {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b < 128;
};
const drawIcicle = () => {
  const place = byId("icicle");
  const width = place.clientWidth;
  const cells = [];
  let deepest = 0;
  const draw = (n, level, left, size) => {
    deepest = Math.max(deepest, level);
    const cell = element("button", {type: "button", textContent: size > 26 ? n.name : ""});
    cell.node = n;
    cell.setAttribute("aria-label", tipOf(n).replaceAll("\n", ", "));
    if (size <= 26) cell.className = "narrow";
    cell.style.cssText = `left:${left.toFixed(2)}px;width:${size.toFixed(2)}px;top:${(level * rowHeight).toFixed(1)}px`;
    if (n.kernel >= 0) {
      cell.style.background = colorOf(n.kind);
      cell.style.color = isDark(colorOf(n.kind)) ? "#fff" : "#111";
    } else if (n.kind) {
      cell.style.background = tinted(colorOf(n.kind), 30);
    }
    cells.push(cell);
    if (level + 1 >= mostLevels || n.time <= 0) return;
    let at = left;
    let short = [], shortSize = 0;
    const flush = () => {
      if (shortSize >= narrowest && short.length > 1 && short.length < n.children.length)
        draw(group(n, short), level + 1, at - shortSize, shortSize);
      else if (shortSize >= narrowest && short.length > 1)
        crowd(level + 1, at - shortSize, shortSize, short.length);
      short = [];
      shortSize = 0;
    };
    for (const child of n.children) {
      const inner = size * child.time / n.time;
      if (inner < narrowest) {
        short.push(child);
        shortSize += inner;
      } else {
        flush();
        draw(child, level + 1, at, inner);
      }
      at += inner;
    }
    flush();
  };
  const crowd = (level, left, size, count) => {
    deepest = Math.max(deepest, level);
    const cell = element("span", {className: "crowd", title: `${whole(count)} too short to show: zoom in`});
    cell.style.cssText = `left:${left.toFixed(2)}px;width:${size.toFixed(2)}px;top:${(level * rowHeight).toFixed(1)}px`;
    cells.push(cell);
  };
  draw(zoomed, 0, 0, width);
  place.replaceChildren(...cells);
  place.style.height = ((deepest + 1) * rowHeight) + "px";
  const steps = [];
  for (let n = zoomed; n; n = n.parent) {
    const step = element("button", {type: "button", textContent: n.name});
    step.node = n;
    steps.unshift(step);
  }
  byId("way").replaceChildren(...steps.flatMap((s, i) => i ? ["›", s] : [s]));
};
const zoom = (n) => {
  zoomed = n;
  drawIcicle();
  fillTable();
};
const chooseAxis = (chosen) => {
  axis = chosen;
  byId("by-layer").setAttribute("aria-pressed", axis === "layer");
  byId("by-operator").setAttribute("aria-pressed", axis === "operator");
  zoom(tree(axis));
};
const onCell = (event) => {
  const n = event.target.node;
  if (!n || n.count === 0) return;
  // Once more on the part one is in leads out of it.
  zoom(n === zoomed && n.parent && event.currentTarget.id === "icicle" ? n.parent : n);
};
byId("icicle").onclick = onCell;
byId("way").onclick = onCell;
byId("icicle").onmousemove = (e) => showTip(e.target.node && tipOf(e.target.node), e.clientX, e.clientY);
byId("icicle").onmouseleave = () => showTip();
byId("by-layer").onclick = () => chooseAxis("layer");
byId("by-operator").onclick = () => chooseAxis("operator");

/** Which launches lie in the part one has zoomed to. */
const selection = () => {
  if (!zoomed.parent) return () => true;
  const chosen = new Set();
  const layers = axis === "layer";
  const mark = (n) => {
    if (n.kernel >= 0) chosen.add(layers ? n.parent.part * kernelCount + n.kernel : n.kernel);
    n.children.forEach(mark);
  };
  mark(zoomed);
  return layers ? (i) => chosen.has(L.part[i] * kernelCount + L.kernel[i]) : (i) => chosen.has(L.kernel[i]);
};

// --- plots ----------------------------------------------------------------------------

/** A canvas drawn at the screen's own resolution, again when its size changes. */
const plot = (canvas, draw) => {
  const redraw = () => {
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    canvas.width = width * devicePixelRatio;
    canvas.height = height * devicePixelRatio;
    const pen = canvas.getContext("2d");
    pen.scale(devicePixelRatio, devicePixelRatio);
    pen.font = "12px " + getComputedStyle(document.body).fontFamily;
    draw(pen, width, height);
  };
  redraws.push(redraw);
  new ResizeObserver(redraw).observe(canvas);
};
const perKernel = new Float64Array(kernelCount);
for (let i = 0; i < launchCount; ++i) perKernel[L.kernel[i]] += timeOf(i);

{
  const points = [];
  let idle = 0;
  for (let k = 0; k < kernelCount; ++k) {
    if (K.flops[k] > 0 && K.bytes[k] > 0 && K.time[k] > 0)
      points.push({k, x: K.flops[k] / K.bytes[k], y: K.flops[k] / K.time[k]});
    else idle += perKernel[k];
  }
  points.sort((a, b) => perKernel[b.k] - perKernel[a.k]);
  const peak = data.roofs.length ? data.roofs[0][1] : Math.max(1, ...points.map((p) => p.y));
  const ridge = data.bandwidth > 0 ? peak / data.bandwidth : 1;
  const xs = points.map((p) => p.x);
  const low = (values, floor) => values.reduce((a, b) => Math.min(a, b), floor);
  const high = (values, floor) => values.reduce((a, b) => Math.max(a, b), floor);
  // A few decades more than the roof's edge; what lies outside is drawn at the border.
  const xLow = Math.max(low(xs, ridge / 100), 1e-4) / 1.6, xHigh = high(xs, ridge * 4) * 1.6;
  const yHigh = peak * 2.5, yLow = Math.max(low(points.map((p) => p.y), peak / 1e3), peak / 1e6) / 1.6;
  let drawn = [];
  const canvas = byId("roofline");
  plot(canvas, (pen, width, height) => {
    const left = 62, right = width - 10, above = 10, below = height - 40;
    const x = (v) => left + (right - left) * Math.log(v / xLow) / Math.log(xHigh / xLow);
    const y = (v) => below - (below - above) * Math.log(Math.max(v, yLow) / yLow) / Math.log(yHigh / yLow);
    const faint = style("--faint"), line = style("--line"), ink = style("--text");
    pen.clearRect(0, 0, width, height);
    pen.textBaseline = "middle";
    pen.lineWidth = 1;
    const decade = (from, to, visit) => {
      const few = Math.ceil(Math.log10(to / from) / (width < 500 ? 5 : 10));
      for (let e = Math.ceil(Math.log10(from)); 10 ** e <= to; ++e) if (e % few === 0) visit(10 ** e);
    };
    pen.fillStyle = faint;
    pen.strokeStyle = line;
    pen.beginPath();
    pen.textAlign = "center";
    decade(xLow, xHigh, (v) => {
      pen.moveTo(x(v), above); pen.lineTo(x(v), below);
      pen.fillText(v >= 1e3 ? scaled(v, large, "").replace(/\.0+ /, " ") : String(+v.toPrecision(1)), x(v), below + 12);
    });
    pen.textAlign = "right";
    decade(yLow, yHigh, (v) => {
      pen.moveTo(left, y(v)); pen.lineTo(right, y(v));
      pen.fillText(scaled(v, large, "").replace(/\.0+ /, " "), left - 6, y(v));
    });
    pen.stroke();
    pen.textAlign = "center";
    pen.fillText("FLOP per byte of memory traffic", (left + right) / 2, height - 9);
    pen.save();
    pen.translate(10, (above + below) / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText("FLOP/s", 0, 0);
    pen.restore();

    drawn = points.map((p) => ({
      ...p, px: x(p.x), py: y(p.y), size: 3 + 22 * Math.sqrt(perKernel[p.k] / latency),
    }));
    pen.globalAlpha = 0.75;
    for (const p of drawn) {
      pen.fillStyle = colorOf(kindOf(p.k));
      pen.beginPath();
      pen.arc(p.px, p.py, p.size, 0, 7);
      pen.fill();
    }
    pen.globalAlpha = 1;

    pen.strokeStyle = pen.fillStyle = ink;
    pen.lineWidth = 1.5;
    pen.textAlign = "right";
    pen.textBaseline = "bottom";
    let labelled = Infinity, labelEnd = right;
    data.roofs.forEach(([name, rate]) => {
      const from = data.bandwidth > 0 ? Math.max(xLow, rate / data.bandwidth) : xLow;
      if (from > xHigh || rate < yLow) return;
      pen.beginPath();
      pen.moveTo(x(from), y(rate));
      pen.lineTo(right, y(rate));
      pen.stroke();
      // Beside the label above where that is too near.
      const label = `${name}, ${scaled(rate, large, "FLOP/s")}`;
      const size = pen.measureText(label).width;
      if (labelled === Infinity || y(rate) - labelled > 20) labelEnd = right;
      if (labelEnd - size < left) return;
      pen.fillText(label, labelEnd, y(rate) - 3);
      labelled = y(rate);
      labelEnd -= size + 14;
    });
    if (data.bandwidth > 0) {
      const from = Math.max(xLow, yLow / data.bandwidth);
      pen.beginPath();
      pen.moveTo(x(from), y(from * data.bandwidth));
      pen.lineTo(x(ridge), y(peak));
      pen.stroke();
      pen.save();
      const middle = Math.sqrt(from * ridge);
      pen.translate(x(middle), y(middle * data.bandwidth));
      pen.rotate(Math.atan2(y(peak) - y(from * data.bandwidth), x(ridge) - x(from)));
      pen.textAlign = "center";
      pen.fillText(`memory, ${scaled(data.bandwidth, large, "B/s")}`, 0, -4);
      pen.restore();
    }
  });
  const near = (event) => {
    const box = canvas.getBoundingClientRect();
    const px = event.clientX - box.left, py = event.clientY - box.top;
    let best = null, least = 14;
    for (const p of drawn) {
      const distance = Math.max(0, Math.hypot(p.px - px, p.py - py) - p.size);
      // Of those below the pointer the smallest, which is drawn last.
      if (distance < least || (distance === least && best && p.size <= best.size)) { best = p; least = distance; }
    }
    if (!best) return showTip();
    const k = best.k;
    showTip(`${kernelName(k)}\n${seconds(perKernel[k])}, ${share(perKernel[k] / latency)} of the step; one ${seconds(K.time[k])}` +
            `\n${scaled(best.y, large, "FLOP/s")} at ${three(best.x)} FLOP/B, ${text(K.bound[k])} bound`,
            event.clientX, event.clientY);
  };
  canvas.onpointermove = canvas.onpointerdown = near;
  canvas.onpointerleave = () => showTip();
  const kinds = new Map();
  for (let k = 0; k < kernelCount; ++k) kinds.set(kindOf(k), (kinds.get(kindOf(k)) || 0) + perKernel[k]);
  byId("kinds").append(...[...kinds].sort((a, b) => b[1] - a[1]).map(([kind, time]) =>
    legendEntry(colorOf(kind), kind, share(time / latency))));
  byId("roofline-note").textContent =
    `${whole(points.length)} kernels; areas are shares of the time.` +
    (idle > 0 ? ` ${whole(kernelCount - points.length)} more do no arithmetic and take ${share(idle / latency)} of the time.` : "");
}

{
  const m = data.memory;
  const parts = [["arguments", m.arguments - m.aliased, "#4e79a7"], ["arguments that become outputs", m.aliased, "#76b7b2"],
                 ["outputs", m.outputs - m.aliased, "#59a14f"], ["temporaries", m.temporaries, "#f28e2b"],
                 ["constants", m.constants, "#b07aa1"]].filter((p) => p[1] > 0);
  const total = Math.max(m.peak, m.capacity);
  fillBar(byId("memory-bar"), parts.map(([name, size, color]) => [color, size, `${name}: ${bytes(size)}`]), total);
  byId("memory-legend").append(...parts.map(([name, size, color]) => legendEntry(color, name, bytes(size))));
  byId("memory-note").textContent = m.fits
    ? `${bytes(m.peak)} at peak, ${share(m.peak / m.capacity)} of ${bytes(m.capacity)}.`
    : `${bytes(m.peak)} at peak, more than the ${bytes(m.capacity)} there are.`;
  const time = data.held.time, held = data.held.bytes;
  if (time.length === 0) {
    byId("memory-plot").remove();
    byId("memory-note").textContent += " How it changes over the step was not planned.";
  } else {
    const most = held.reduce((a, b) => Math.max(a, b), 0);
    const scale = most * 1.15;
    const canvas = byId("memory");
    const left = 62;
    plot(canvas, (pen, width, height) => {
      const right = width - 10, above = 10, below = height - 24;
      const x = (t) => left + (right - left) * (t - data.step[0]) / (data.step[1] - data.step[0] || 1);
      const y = (b) => below - (below - above) * b / scale;
      pen.clearRect(0, 0, width, height);
      pen.textBaseline = "middle";
      pen.textAlign = "right";
      pen.strokeStyle = style("--line");
      pen.fillStyle = style("--faint");
      pen.beginPath();
      for (let i = 0; i <= 4; ++i) {
        const b = scale * i / 4;
        pen.moveTo(left, y(b)); pen.lineTo(right, y(b));
        pen.fillText(i ? bytes(b) : "0", left - 6, y(b));
      }
      pen.stroke();
      pen.textAlign = "center";
      for (let i = 0; i <= 4; ++i)
        pen.fillText(seconds(latency * i / 4), Math.min(right - 20, x(data.step[0] + latency * i / 4)), below + 13);
      // One pass a pixel: what is held at most in each.
      pen.beginPath();
      pen.moveTo(left, below);
      let at = 0;
      for (let px = left; px <= right; ++px) {
        let highest = at > 0 ? held[at - 1] : 0;
        for (; at < time.length && x(time[at]) <= px; ++at) highest = Math.max(highest, held[at]);
        pen.lineTo(px, y(highest));
      }
      pen.lineTo(right, below);
      pen.globalAlpha = 0.35;
      pen.fillStyle = "#4e79a7";
      pen.fill();
      pen.globalAlpha = 1;
      pen.strokeStyle = "#4e79a7";
      pen.stroke();
    });
    canvas.onpointermove = canvas.onpointerdown = (event) => {
      const box = canvas.getBoundingClientRect();
      const t = data.step[0] + (data.step[1] - data.step[0]) * (event.clientX - box.left - left) / (box.width - left - 10);
      let low = 0, high = time.length;
      while (low < high) { const middle = (low + high) >> 1; if (time[middle] <= t) low = middle + 1; else high = middle; }
      showTip(low > 0 && `${bytes(held[low - 1])} at ${seconds(Math.max(0, t - data.step[0]))}`, event.clientX, event.clientY);
    };
    canvas.onpointerleave = () => showTip();
  }
}

// --- the table ------------------------------------------------------------------------

const rate = (amount, time, unit) => amount > 0 && time > 0 ? scaled(amount / time, large, unit) : "–";
/** Columns: the cell's text and, of numbers, what they are sorted by. */
const kernelColumns = [
  {title: "kernel", cell: (r) => kernelName(r.k), long: true},
  {title: "share", cell: (r) => share(r.time / latency), key: (r) => r.time},
  {title: "together", cell: (r) => seconds(r.time), key: (r) => r.time},
  {title: "count", cell: (r) => whole(r.count), key: (r) => r.count},
  {title: "each", cell: (r) => seconds(K.time[r.k]), key: (r) => K.time[r.k]},
  {title: "90 % within", cell: (r) => `${seconds(K.low[r.k])} … ${seconds(K.high[r.k])}`, key: (r) => K.high[r.k]},
  {title: "bound by", cell: (r) => text(K.bound[r.k])},
  {title: "kind", cell: (r) => kindOf(r.k)},
  {title: "rate", cell: (r) => rate(K.flops[r.k], K.time[r.k], "FLOP/s"), key: (r) => K.flops[r.k] / K.time[r.k] || 0},
  {title: "traffic", cell: (r) => rate(K.bytes[r.k], K.time[r.k], "B/s"), key: (r) => K.bytes[r.k] / K.time[r.k] || 0},
  {title: "operations", cell: (r) => whole(K.fused[r.k]), key: (r) => K.fused[r.k]},
];
const launchColumns = [
  {title: "start", cell: (r) => seconds(Math.max(0, starts[r.i] - data.step[0])), key: (r) => r.i},
  {title: "kernel", cell: (r) => kernelName(r.k), long: true},
  {title: "time", cell: (r) => seconds(r.time), key: (r) => r.time},
  {title: "share", cell: (r) => share(r.time / latency), key: (r) => r.time},
  {title: "part", cell: (r) => ways[L.part[r.i]], long: true},
  {title: "count", cell: (r) => whole(r.count), key: (r) => r.count},
  {title: "bound by", cell: (r) => text(K.bound[r.k])},
  {title: "kind", cell: (r) => kindOf(r.k)},
  {title: "FLOP", cell: (r) => K.flops[r.k] > 0 ? flops(K.flops[r.k] * r.count) : "–", key: (r) => K.flops[r.k] * r.count},
  {title: "bytes", cell: (r) => bytes(K.bytes[r.k] * r.count), key: (r) => K.bytes[r.k] * r.count},
];
const views = {
  kernels: {columns: kernelColumns, sorted: 2, down: true},
  launches: {columns: launchColumns, sorted: 0, down: false},
};
let view = "kernels";
let rows = [];
const scroller = byId("scroller"), table = byId("table");
const body = table.tBodies[0];

const drawHead = () => {
  const {columns, sorted, down} = views[view];
  const cells = columns.map((column, i) => {
    const button = element("button", {type: "button", textContent: column.title});
    const cell = element("th", {className: column.key ? "number" : "", scope: "col"}, button);
    if (i === sorted) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
    button.onclick = () => {
      const v = views[view];
      v.down = i === v.sorted ? !v.down : Boolean(column.key);
      v.sorted = i;
      drawHead();
      sortRows();
      table.tHead.rows[0].cells[i].firstChild.focus({preventScroll: true});
    };
    return cell;
  });
  table.tHead.replaceChildren(element("tr", {}, ...cells));
};
const drawRows = () => {
  const height = parseFloat(getComputedStyle(document.documentElement).fontSize) * parseFloat(style("--row"));
  const first = Math.max(0, Math.floor(scroller.scrollTop / height) - 10);
  const last = Math.min(rows.length, first + Math.ceil(scroller.clientHeight / height) + 20);
  const {columns} = views[view];
  const spacer = (size) => {
    const cell = element("td", {colSpan: columns.length});
    cell.style.height = size + "px";
    return element("tr", {className: "spacer", "aria-hidden": "true"}, cell);
  };
  const shown = [spacer(first * height)];
  for (let i = first; i < last; ++i) {
    const row = element("tr", {"aria-rowindex": i + 2});
    for (const column of columns) {
      const value = column.cell(rows[i]);
      row.append(element("td", {
        className: column.key ? "number" : column.long ? "long" : "", textContent: value,
        title: column.long ? value : ""}));
    }
    shown.push(row);
  }
  shown.push(spacer((rows.length - last) * height));
  body.replaceChildren(...shown);
};
const sortRows = () => {
  const {columns, sorted, down} = views[view];
  const {key, cell} = columns[sorted];
  const sign = down ? -1 : 1;
  if (key) rows.sort((a, b) => sign * (key(a) - key(b)) || a.i - b.i);
  else rows.sort((a, b) => sign * (cell(a) < cell(b) ? -1 : cell(a) > cell(b) ? 1 : 0) || a.i - b.i);
  scroller.scrollTop = 0;
  drawRows();
};
const fillTable = () => {
  const selected = selection();
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const ofKernel = Array.from({length: kernelCount}, (_, k) =>
    `${kernelName(k)} ${kindOf(k)} ${text(K.operation[k])} ${text(K.bound[k])}`.toLowerCase());
  const ofPart = ways.map((w) => w.toLowerCase());
  const launches = view === "launches";
  const wanted = (i) => words.every((word) => ofKernel[L.kernel[i]].includes(word) || ofPart[L.part[i]].includes(word));
  rows = [];
  const known = new Map();
  let time = 0;
  for (let i = 0; i < launchCount; ++i) {
    if (!selected(i) || !wanted(i)) continue;
    const k = L.kernel[i];
    time += timeOf(i);
    const row = launches ? undefined : known.get(k);
    if (row) {
      row.count += L.count[i];
      row.time += timeOf(i);
    } else {
      rows.push({i, k, count: L.count[i], time: timeOf(i)});
      if (!launches) known.set(k, rows[rows.length - 1]);
    }
  }
  table.setAttribute("aria-rowcount", rows.length + 1);
  byId("row-count").textContent =
    `${whole(rows.length)} ${launches ? "launches" : "kernels"}, ${seconds(time)}, ${share(time / latency)} of the step` +
    (zoomed.parent ? ` in ${zoomed.name}` : "");
  sortRows();
};
const chooseView = (chosen) => {
  view = chosen;
  byId("rows-kernels").setAttribute("aria-pressed", view === "kernels");
  byId("rows-launches").setAttribute("aria-pressed", view === "launches");
  drawHead();
  fillTable();
};
byId("rows-kernels").onclick = () => chooseView("kernels");
byId("rows-launches").onclick = () => chooseView("launches");
byId("filter").oninput = fillTable;
let waiting = false;
scroller.addEventListener("scroll", () => {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; drawRows(); });
});

// --- the rest -------------------------------------------------------------------------

if (data.folded)
  byId("icicle-note").textContent += ` The step has ${whole(data.launch_count)} launches: what loops and calls repeat is shown once, with its count.`;
if (data.left_out.launches > 0)
  byId("icicle-note").textContent += ` The ${whole(data.left_out.launches)} shortest launches are left out of the table and take ${seconds(data.left_out.time)} together.`;
byId("gaps").append(...(data.gaps.length ? data.gaps : ["Nothing that is known of."]).map((gap) => element("li", {textContent: gap})));
for (const [key, value] of data.provenance)
  byId("provenance").append(element("dt", {textContent: key}), element("dd", {textContent: value}));

zoomed = tree(axis);
drawHead();
drawIcicle();
fillTable();
new ResizeObserver(drawIcicle).observe(byId("icicle"));
})();
