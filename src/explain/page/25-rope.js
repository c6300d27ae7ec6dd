// Rotary positions.

const turning = {pair: 0, key: 0, position: null};

// Columns of pair j in the part of a head that turns.
const columnsOf = (t, j) => t.pairing === "adjacent" ? [t.skip + 2 * j, t.skip + 2 * j + 1] : [t.skip + j, t.skip + j + t.n_rot / 2];
const pairOf = (t, row, head, j) => columnsOf(t, j).map(c => row[head * t.d_head + c]);
// Cosines and sines may have a factor (YaRN), which may grow with the position.
const magnitude = (t, m) => t.magnitude * (t.warmth ? 1 + t.warmth * Math.log(1 + Math.floor(m / t.warm_ctx)) : 1);
const turn = ([a, b], angle, by) => [by * (a * Math.cos(angle) - b * Math.sin(angle)), by * (a * Math.sin(angle) + b * Math.cos(angle))];

function scalingText(t) {
  const s = fmt(t.stretch), old = t.old_ctx;
  return {plain: "The frequencies are not scaled.", linear: `Linear scaling: every frequency is divided by ${s}, so a position counts 1/${s}.`,
    llama3: `Llama 3's scaling, from ${old} positions to more: wavelength λ below ${old} / ${fmt(t.high_freq)} = ${fmt(old / t.high_freq)}: kept; above ${old} / ${fmt(t.low_freq)} = `
      + `${fmt(old / t.low_freq)}: divided by ${s}; between: (1 − t) f / ${s} + t f, t = (${old} / λ − ${fmt(t.low_freq)}) / ${fmt(t.high_freq - t.low_freq)}.`,
    yarn: `YaRN, from ${old} positions to more: pairs that turn more than ${fmt(t.beta_fast)} times within ${old} positions are kept, those below ${fmt(t.beta_slow)} are divided by ${s}, `
      + `a ramp lies between; cosines and sines are multiplied by ${fmt(t.magnitude)}.`,
    longrope: "The file has a divisor for every frequency.", divisors: `The file has a divisor for every frequency, up to ${s}.`}[t.scaling];
}

// A pair before and after, as arrows.
function dial(q, k, size = 220) {
  const c = size / 2, arrow = ([x, y], name, r, faint) => { const l = Math.hypot(x, y) || 1;
    return h("path." + name, {d: `M${c} ${c}L${c + x / l * r} ${c - y / l * r}`, "stroke-width": faint ? 1.5 : 3, "stroke-dasharray": faint ? "4 4" : null}); };
  return h("svg", {viewBox: `0 0 ${size} ${size}`, width: size, height: size}, [[q, "a", c - 8], [k, "b", c - 40]].map(([p, name, r]) => [h("circle.axis", {cx: c, cy: c, r}),
    arrow(p[0], name, r, true), arrow(p[1], name, r)]).flat());
}

views.rope = (box, v) => {
  const here = v.layers.find(l => l.layer === at.layer);
  if (!here) { box.append(note(`Layer ${at.layer} does not turn its queries and keys; these do: ${v.layers.map(l => l.layer).join(", ")}.`)); return; }
  const tq = v.tables[here.q_table], tk = v.tables[here.k_table], P = tq.pairs, n = P.length, ctx = doc.model.n_ctx, again = () => { box.replaceChildren(); views.rope(box, v); };
  turning.pair = Math.min(turning.pair, n - 1);
  const whole = tq.n_rot === tq.d_head ? "" : ` Only ${tq.n_rot} of the ${tq.d_head} columns turn${tq.skip ? `, those from ${tq.skip} on` : ""}.`;
  box.append(note(`Nothing is added to the embeddings. In each head of q and k, two columns are a pair (a, b): a point in a plane. At position m, pair j is turned by the angle m f.${whole}`),
    h("div.f", null, `f = θ^(−2j/${tq.n_rot}),  θ = ${fmt(tq.theta)},  j = 0 … ${n - 1}          a' = a cos(m f) − b sin(m f)    b' = a sin(m f) + b cos(m f)\n`
      + `pairs: ${tq.pairing === "adjacent" ? "neighbours" : "halves"}, ${[0, 1].filter(j => j < n).map(j => `(${columnsOf(tq, j).join(", ")})`).join(" ")} …`),
    note(scalingText(tq) + (v.tables.length > 1 && v.layers.some(l => l.q_table !== here.q_table) ? " Other layers turn by other frequencies." : "")));
  const wave = P.map(p => 2 * Math.PI / p.frequency), js = P.map((_, j) => j);
  box.append(h("div.row", null, h("div", null, h("h3", null, "Pairs: from fast to slow"), scroll(table(["pair", "columns", "f", "turns once in", `turns in ${ctx}`, ...(tq.scaling === "plain" ? [] : ["scaling"])],
    P.map((p, j) => ({on: j === turning.pair, pick: () => { turning.pair = j; again(); }, cells: [h("span", null, String(j)), columnsOf(tq, j).join(", "), p.frequency,
      h("span.n", null, fmt(wave[j]) + " tokens"), ctx / wave[j], ...(tq.scaling === "plain" ? [] : [p.branch])]}))))),
    h("div", null, h("h3", null, "Wavelength by pair, log₁₀ tokens"), plot([{x: js, y: wave.map(Math.log10)}, {x: [0, n - 1], y: [Math.log10(ctx), Math.log10(ctx)], class: "b", label: `context ${ctx}`},
      ...(P.some(p => p.branch !== "kept") ? [{x: js, y: P.map(p => Math.log10(2 * Math.PI / p.plain)), class: "c", label: "before scaling"}] : [])], {xlabel: "pair"}),
      note("Fast pairs tell neighbours apart. Pairs above the line do not even turn once in the whole context: they carry almost no position."))));
  const l = here.q ? here : layerOf(v.layers.filter(x => x.q), box);
  if (l) drawTurn(box, l, tq, tk, again);
  drawDecay(box, P);
};

function drawTurn(box, l, tq, tk, again) {
  const [q0, q1, k0, k1] = ["q_before", "q", "k_before", "k"].map(x => tensor(l[x])), m = at.token, key = Math.min(turning.key, m), j = turning.pair;
  const H = q1.cols / tq.d_head, K = k1.cols / tk.d_head, kh = Math.floor(at.head * K / H), f = tq.pairs[j].frequency;
  const Q = [q0, q1].map(t => pairOf(tq, t.row(m), at.head, j)), k = [k0, k1].map(t => pairOf(tk, t.row(key), kh, j)), row = (name, pos, [x, y]) => {
    const angle = pos * f, full = angle * 180 / Math.PI; return [name, h("span", null, String(pos)), x[0], x[1], h("span.n", null, fmt(full % 360) + "°"), y[0], y[1], Math.hypot(...x), Math.hypot(...y)]; };
  box.append(h("h3", null, `Pair ${j} of head ${at.head}, layer ${l.layer}: query ${word(m)}, key ${word(key)}`),
    h("div.row", null, dial(Q, k), h("div", null, table(["", "position", "a", "b", "angle", "a'", "b'", "length", "after"], [row("q", m, Q), row("k", key, k)]),
      note(`Dashed: before; solid: after. Blue is the query, orange the key; the circles are not their lengths.${tq.magnitude === 1 ? " A turn keeps the length." : ` Lengths are multiplied by ${fmt(tq.magnitude)}.`} Position 0 is not turned.`),
      slider("key", 0, Math.max(m, 1), 1, key, x => { turning.key = Math.min(x, m); again(); }))));
  // cos and sin parts of q · k, pair by pair: the sum depends on m − n alone.
  const parts = tq.pairs.map((p, i) => { const [a, b] = pairOf(tq, q0.row(m), at.head, i), [c, d] = pairOf(tk, k0.row(key), kh, i); return [a * c + b * d, b * c - a * d, p.frequency]; });
  const by = magnitude(tq, m) * magnitude(tk, key), score = d => by * sum(parts.map(([x, y, w]) => x * Math.cos(d * w) - y * Math.sin(d * w)));
  const real = sum(tq.pairs.map((_, i) => dot(pairOf(tq, q1.row(m), at.head, i), pairOf(tk, k1.row(key), kh, i))));
  const far = Math.min(doc.model.n_ctx, 256), xs = Array.from({length: far}, (_, d) => d);
  box.append(h("h3", null, "This q · k if the two were another distance apart"), h("div.row", null, plot([{x: xs, y: xs.map(score)}, {x: [m - key], y: [real], dots: true, radius: 5}], {xlabel: "m − n"}),
    h("div", null, h("div.f", null, `q · k = Σ (ac + bd) cos((m − n) f) − (bc − ad) sin((m − n) f)\n\nm − n = ${m - key}\nby this formula      ${fmt(score(m - key))}\nfrom the turned rows ${fmt(real)}`),
      note("Positions m and n are in it only as m − n: the same words at the same distance give the same score anywhere in a text." + (tq.n_rot < tq.d_head ? " The columns that do not turn add a constant." : "")))));
}

// The bound of the RoFormer paper: mean over i of |Σ_{j<i} e^(i d f_j)|, 1 at distance 0.
function drawDecay(box, P) {
  const far = Math.min(doc.model.n_ctx, 256), bound = d => { let x = 0, y = 0, s = 0;
    for (const p of P) { x += Math.cos(d * p.frequency); y += Math.sin(d * p.frequency); s += Math.hypot(x, y); }
    return s / (P.length * (P.length + 1) / 2); };
  const xs = Array.from({length: far}, (_, d) => d);
  box.append(h("h3", null, "Long-term decay"), h("div.row", null, plot([{x: xs, y: xs.map(bound)}], {xlabel: "distance m − n", zero: true, height: 160}),
    note("The more pairs turn apart, the more they cancel: a bound on how much q · k can gain at a distance, as a share of distance 0. It follows from the frequencies alone; a head may use them otherwise.")));
}
