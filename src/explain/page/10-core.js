// What all views share: numbers, elements, drawings, and the place the reader looks at.

// ---- numbers: a tensor is decoded when it is first used

const doc = JSON.parse(document.getElementById("weft").textContent);
const stored = new Map((doc.tensors || []).map(t => [t.name, t]));

function floats(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}

// Row i of a causal map has only the keys that query floor(i / heads) sees.
function tensor(name) {
  const t = stored.get(name);
  if (!t) return null;
  if (typeof t.data === "string") {
    t.data = floats(t.data);
    t.row = t.heads
      ? i => { const q = Math.floor(i / t.heads), at = t.heads * q * (q + 1) / 2 + (i % t.heads) * (q + 1);
               return t.data.subarray(at, at + q + 1); }
      : i => t.data.subarray((i - t.first) * t.cols, (i - t.first + 1) * t.cols);
  }
  return t;
}

// Numbers of a view that are no tensor, decoded once.
function series(o, key) {
  if (typeof o[key] === "string") o[key] = floats(o[key]);
  return o[key];
}

const sum = x => { let s = 0; for (const v of x) s += v; return s; };
const dot = (x, y) => { let s = 0; for (let i = 0; i < x.length; i++) s += x[i] * y[i]; return s; };
const norm = x => Math.sqrt(dot(x, x));
const largest = x => { let m = -Infinity; for (const v of x) if (v > m) m = v; return m; };
const smallest = x => { let m = Infinity; for (const v of x) if (v < m) m = v; return m; };
const entropy = p => -sum(Array.from(p, v => v > 0 ? v * Math.log2(v) : 0));

// Four digits; and all of them, the shortest text that is this f32 again.
function fmt(x) {
  if (x === null || x === undefined || !isFinite(x)) return x < 0 ? "−∞" : "–";
  if (x !== 0 && (Math.abs(x) >= 1e5 || Math.abs(x) < 1e-4)) return x.toExponential(2).replace("-", "−").replace("e+", "e");
  const s = Math.abs(x) >= 1000 ? x.toFixed(0) : String(+x.toPrecision(4));
  return s.replace("-", "−");
}
function full(x) {
  for (let p = 1; p < 9; p++)
    if (Math.fround(+x.toPrecision(p)) === x) return String(+x.toPrecision(p));
  return String(+x.toPrecision(9));
}
const count = n => n >= 1e9 ? +(n / 1e9).toPrecision(3) + " G" : n >= 1e6 ? +(n / 1e6).toPrecision(3) + " M"
  : n >= 1e4 ? +(n / 1e3).toPrecision(3) + " k" : String(n);
const bytes = n => n >= 1 << 30 ? fmt(n / (1 << 30)) + " GiB" : n >= 1 << 20 ? fmt(n / (1 << 20)) + " MiB"
  : n >= 1024 ? fmt(n / 1024) + " KiB" : n + " B";

// ---- elements: h("p.note", {id: "x"}, "text", child)

const svgTags = new Set(["svg", "path", "line", "rect", "circle", "text", "g", "polyline"]);
function h(tag, attributes, ...children) {
  const [name, ...classes] = tag.split(".");
  const e = svgTags.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  if (classes.length) e.setAttribute("class", classes.join(" "));
  for (const [k, v] of Object.entries(attributes || {}))
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v !== null && v !== undefined && v !== false) e.setAttribute(k, v === true ? "" : v);
  e.append(...children.flat().filter(c => c !== null && c !== undefined).map(c => typeof c === "object" ? c : String(c)));
  return e;
}
const num = x => h("span.n", {title: x === null || !isFinite(x) ? "" : full(x)}, fmt(x));
// Rows are lists of cells; a row may be {cells, on, pick}.
function table(heads, rows) {
  const line = r => {
    const o = Array.isArray(r) ? {cells: r} : r;
    return h("tr" + (o.on ? ".on" : "") + (o.pick ? ".to" : ""), o.pick ? {onclick: o.pick} : null,
      o.cells.map(c => c instanceof HTMLElement && c.colSpan > 1 ? c : h("td" + (typeof c === "string" ? ".t" : c instanceof HTMLElement && c.className === "bar" ? ".g" : ""), null, typeof c === "number" ? num(c) : c)));
  };
  return h("div.wide", null, h("table", null, heads && h("thead", null, h("tr", null,
    heads.map((t, i) => h("th" + (rows.length && typeof (rows[0].cells || rows[0])[i] === "string" ? ".t" : ""), null, t)))),
    h("tbody", null, rows.map(line))));
}
const bar = share => h("span.bar", {style: `width:${Math.max(0, Math.min(1, share)) * 120}px`});
const wide = (...x) => h("div.wide", null, ...x);
const slider = (label, min, max, step, value, change) => {
  const shown = h("span.n", null, String(value));
  return h("label", null, label + " ", h("input", {type: "range", min, max, step, value,
    oninput: e => { shown.textContent = e.target.value; change(+e.target.value); }}), " ", shown);
};

// Layers of an encoder-decoder are those of both stacks, and the decoder's once more for cross-attention. doc.tokens are
// the rows of the layer that is looked at, doc.keys the columns of its maps.
const target = doc.tokens, layers = doc.layers || Array.from({length: doc.model.n_layer}, (_, i) => ({number: i, block: i, n_head: doc.model.n_head}));
const stackOf = i => layers[i].stack, layerName = i => (stackOf(i) || "layer") + " " + layers[i].number;

// A token as letters: blanks and line ends are shown.
const letters = s => s === "" ? "∅" : s.replace(/ /g, "·").replace(/\n/g, "⏎").replace(/\t/g, "⇥");
const spelled = (list, i) => letters(list[i].text), word = i => spelled(doc.tokens, i), key = j => spelled(doc.keys, j);

// ---- drawings

const color = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
function rgb(name) {
  const c = parseInt(color(name).slice(1), 16);
  return color(name).length === 4 ? [c >> 8, c >> 4 & 15, c & 15].map(v => v * 17) : [c >> 16, c >> 8 & 255, c & 255];
}

const tip = h("div", {id: "tip"});
function showTip(e, text) {
  tip.textContent = text;
  tip.style.display = text ? "block" : "none";
  tip.style.left = Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(e.clientY + 14, innerHeight - tip.offsetHeight - 8) + "px";
}

// A matrix as squares: value(i, k) from 0 to `top`, or from −top to top. o: cell, signed, top, say(i, k), pick(i, k), mark.
function heat(rows, cols, value, o = {}) {
  const cell = o.cell || Math.max(1, Math.min(18, Math.floor(620 / Math.max(rows, cols))));
  const canvas = h("canvas", {width: cols, height: rows, style: `width:${cols * cell}px;height:${rows * cell}px`});
  const paint = canvas.getContext("2d"), image = paint.createImageData(cols, rows);
  const [a, b, back] = [rgb("a"), rgb("b"), rgb("card")];
  let top = o.top;
  if (!top) { top = 1e-30; for (let i = 0; i < rows; i++) for (let k = 0; k < cols; k++) {
    const v = Math.abs(value(i, k)); if (v > top && isFinite(v)) top = v; } }
  for (let i = 0; i < rows; i++)
    for (let k = 0; k < cols; k++) {
      const v = value(i, k), at = 4 * (i * cols + k), share = isFinite(v) ? Math.min(1, Math.abs(v) / top) : 0;
      const ink = v < 0 ? b : a, s = o.signed ? share : Math.sqrt(share);
      for (let c = 0; c < 3; c++) image.data[at + c] = back[c] + (ink[c] - back[c]) * s;
      image.data[at + 3] = v === undefined || Number.isNaN(v) ? 0 : 255;
    }
  paint.putImageData(image, 0, 0);
  const where = e => { const r = canvas.getBoundingClientRect();
    return [Math.floor((e.clientY - r.top) / cell), Math.floor((e.clientX - r.left) / cell)]; };
  const inside = ([i, k]) => i >= 0 && i < rows && k >= 0 && k < cols;
  canvas.addEventListener("mousemove", e => { const [i, k] = where(e);
    showTip(e, inside([i, k]) ? (o.say ? o.say(i, k) : full(value(i, k))) : ""); });
  canvas.addEventListener("mouseleave", e => showTip(e, ""));
  if (o.pick) { canvas.style.cursor = "pointer";
    canvas.addEventListener("click", e => { const at = where(e); if (inside(at)) o.pick(...at); }); }
  return canvas;
}

// Curves over one axis: lines are {x, y, class, label}. o: width, height, xlabel, ylabel, dots.
function plot(lines, o = {}) {
  const W = o.width || 460, H = o.height || 200, left = 52, low = 30, all = lines.flatMap(l => Array.from(l.y)).filter(isFinite);
  const xs = lines.flatMap(l => Array.from(l.x));
  const [x0, x1] = [smallest(xs), largest(xs)];
  let [y0, y1] = [Math.min(smallest(all), o.zero ? 0 : Infinity), largest(all)];
  if (y0 === y1) { y0 -= 1; y1 += 1; }
  const X = x => left + (x - x0) / (x1 - x0 || 1) * (W - left - 8), Y = y => H - low - (y - y0) / (y1 - y0) * (H - low - 10);
  const s = h("svg", {viewBox: `0 0 ${W} ${H}`, width: W, height: H},
    h("path.axis", {d: `M${left} 10V${H - low}H${W - 8}`}),
    [y0, (y0 + y1) / 2, y1].map(v => h("text", {x: left - 5, y: Y(v) + 4, "text-anchor": "end"}, fmt(v))),
    [x0, x1].map((v, i) => h("text", {x: X(v), y: H - low + 14, "text-anchor": i ? "end" : "start"}, fmt(v))),
    o.xlabel && h("text", {x: (left + W) / 2, y: H - 3, "text-anchor": "middle"}, o.xlabel));
  lines.forEach(l => {
    if (l.dots) for (let i = 0; i < l.x.length; i++)
      s.append(h("circle.dot", {cx: X(l.x[i]), cy: Y(l.y[i]), r: l.radius || 3, style: l.class && `fill:var(--${l.class})`}));
    else s.append(h("polyline." + (l.class || "a"), {"stroke-width": 1.8,
      points: Array.from(l.x, (x, i) => isFinite(l.y[i]) ? X(x) + "," + Y(l.y[i]) : "").join(" ")}));
    if (l.label) { const last = l.x.length - 1;
      s.append(h("text", {x: X(l.x[last]) - 4, y: Y(l.y[last]) - 5, "text-anchor": "end"}, l.label)); }
  });
  return wide(s);
}

// Counts of numbers in n equal steps.
function histogram(values, n, o = {}) {
  const W = 460, H = 150, lo = smallest(values), hi = largest(values), bins = new Array(n).fill(0);
  values.forEach(x => bins[Math.min(n - 1, Math.floor((x - lo) / (hi - lo || 1) * n))]++);
  const top = largest(bins), w = (W - 60) / n;
  return wide(h("svg", {viewBox: `0 0 ${W} ${H}`, width: W, height: H},
    bins.map((b, i) => h("rect", {x: 40 + i * w, width: w - 1, y: H - 30 - b / top * (H - 44), height: b / top * (H - 44)})),
    h("text", {x: 34, y: 18, "text-anchor": "end"}, String(top)), h("text", {x: 40, y: H - 16}, fmt(lo)),
    h("text", {x: W - 20, y: H - 16, "text-anchor": "end"}, fmt(hi)), h("text", {x: W / 2, y: H - 3, "text-anchor": "middle"}, o.xlabel || "")));
}

// ---- the place the reader looks at: views are drawn again when it changes

const at = {layer: doc.layer, head: doc.head, token: doc.token};
const views = {};  // name → function(box, view), one in each of the other files
const drawn = [];
function settle() {
  const l = layers[at.layer];
  doc.tokens = l.stack === "encoder" ? doc.source : target;
  doc.keys = l.stack === "cross" ? doc.source : doc.tokens;
  at.block = l.block;
  at.head = Math.min(at.head, l.n_head - 1);
  at.token = Math.min(at.token, doc.tokens.length - 1);
}
const own = () => doc.keys === doc.tokens;
function pick(change) {
  Object.assign(at, change);
  settle();
  drawBar();
  drawn.forEach(d => d());
}

// Layers whose numbers are on the page; if the one looked at is not, a note says how to get it.
function layerOf(list, box, wanted = at.layer) {
  const l = list.find(x => x.layer === wanted);
  if (!l) box.append(h("p", null, `The numbers of ${layerName(wanted)} are not on this page; --layer ${layers[wanted].number} shows them, `
    + `--all keeps every layer. Here: `, list.map(x => h("button", {onclick: () => pick({layer: x.layer})}, layerName(x.layer)))));
  return l;
}

const bar0 = h("nav");
function drawBar() {
  const choose = (name, n) => h("label", null, name + " ", h("select", {
    onchange: e => pick({[name]: +e.target.value})},
    Array.from({length: n}, (_, i) => h("option", {value: i, selected: i === at[name]}, name === "layer" && doc.layers ? layerName(i) : String(i)))));
  bar0.replaceChildren(choose("layer", layers.length), choose("head", layers[at.layer].n_head),
    h("div.tokens", null, doc.tokens.map((t, i) => h("button" + (i === at.token ? ".on" : ""),
      {title: `token ${i}, id ${t.id}`, onclick: () => pick({token: i})}, letters(t.text)))));
}

function begin() {
  const m = doc.model;
  document.body.append(tip, h("h1", null, m.title));
  if (m.n_layer) {
    document.body.append(h("p", null, `${m.architecture}, ${count(m.n_parameter)} parameters: ${m.n_layer} layers, width ${m.d_model}, `
        + `${m.n_head} heads, ${m.n_vocab ? `vocabulary ${m.n_vocab}` : "pictures"}. ${doc.source ? doc.source.length + " and " : ""}${target.length} ${m.n_vocab ? "tokens" : "rows"}, one forward.`),
      h("div", {id: "index"}, doc.views.map(v => h("a", {href: "#" + v.view}, v.number + " " + v.title))), bar0);
    settle();
    drawBar();
  }
  for (const v of doc.views) {
    const box = h("div"), draw = views[v.view];
    document.body.append(h("section", {id: v.view}, h("h2", null, `${v.number} ${v.title}`, h("small", null, v.seed)), box));
    const again = () => { box.replaceChildren(); if (v.why_not) box.append(h("p", null, v.why_not)); else draw(box, v.source && stackOf(at.layer) === "encoder" ? v.source : v); };
    drawn.push(again);
    again();
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn.forEach(d => d()));
}
