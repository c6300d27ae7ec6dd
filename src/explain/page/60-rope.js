// Rotary positions.

const turning = {pair: 0, key: 0};

// Columns of pair j in a head, and its two numbers in a row of heads.
const columnsOf = (t, j) => t.pairing === "adjacent" ? [t.skip + 2 * j, t.skip + 2 * j + 1] : [t.skip + j, t.skip + j + t.n_rot / 2];
const pairOf = (t, row, head, j) => columnsOf(t, j).map(c => row[head * t.d_head + c]);
// Cosines and sines may have a factor, which may grow with the position.
const magnitude = (t, m) => t.magnitude * (t.warmth ? 1 + t.warmth * Math.log(1 + Math.floor(m / t.warm_ctx)) : 1);

function scalingText(t) {
  const s = fmt(t.stretch), old = t.old_ctx, [low, high] = [t.low_freq, t.high_freq];
  return {plain: "The frequencies are not scaled.", linear: `Every frequency is divided by ${s}.`,
    llama3: `From a context of ${old}, by wavelength λ. Below ${old} / ${high} = ${fmt(old / high)}: kept. Above ${old} / ${low} = ${fmt(old / low)}: `
      + `divided by ${s}. Between: (1 − t) f / ${s} + t f, t = (${old} / λ − ${low}) / ${fmt(high - low)}.`,
    yarn: `YaRN, from a context of ${old}: pairs that rotate more than ${t.beta_fast} times in it are kept, those below ${t.beta_slow} are divided by ${s}, `
      + `with a ramp between.${t.magnitude === 1 ? "" : ` Cosines and sines are multiplied by ${fmt(t.magnitude)}.`}`,
    longrope: "The file has a divisor for every frequency.", divisors: `The file has a divisor for every frequency, up to ${s}.`}[t.scaling];
}

// Directions of a pair before (dashed) and after.
function dial(pairs, size = 200) {
  const c = size / 2, line = ([x, y], name, r, faint) => { const l = Math.hypot(x, y) || 1; return h("path." + name,
    {d: `M${c} ${c}L${c + x / l * r} ${c - y / l * r}`, "stroke-width": faint ? 1.5 : 3, "stroke-dasharray": faint ? "4 4" : null}); };
  return h("svg", {viewBox: `0 0 ${size} ${size}`, width: size, height: size}, pairs.map(([p, name], i) => { const r = c - 8 - 32 * i;
    return [h("circle.axis", {cx: c, cy: c, r}), line(p[0], name, r, true), line(p[1], name, r)]; }).flat());
}

views.rope = (box, v) => {
  const here = v.layers.find(l => l.layer === at.layer), again = () => { box.replaceChildren(); views.rope(box, v); };
  if (!here) { box.append(note(`Layer ${at.layer} does not rotate; these do: ${v.layers.map(l => l.layer).join(", ")}.`)); return; }
  const t = v.tables[here.q_table], P = t.pairs, n = P.length, ctx = doc.model.n_ctx, scaled = t.scaling !== "plain";
  turning.pair = Math.min(turning.pair, n - 1);
  box.append(note("In each head of q and k, two columns are a pair (a, b): a point in a plane. At position m, pair j is rotated by the angle m f."
    + (t.n_rot < t.d_head ? ` Only ${t.n_rot} of the ${t.d_head} columns rotate${t.skip ? `, from column ${t.skip} on` : ""}.` : "")),
    h("div.f", null, `f = θ^(−2j/${t.n_rot}),  θ = ${t.theta},  j = 0 … ${n - 1}\na' = a cos(m f) − b sin(m f),  b' = a sin(m f) + b cos(m f)\n`
      + `pairs are ${t.pairing === "adjacent" ? "neighbours" : "halves"}: ${P.slice(0, 3).map((_, j) => `(${columnsOf(t, j).join(", ")})`).join(" ")}${n > 3 ? " …" : ""}`),
    note(scalingText(t) + (v.layers.some(l => l.q_table !== here.q_table) ? " Other layers rotate at other frequencies." : "")));
  const wave = f => 2 * Math.PI / f, js = [...P.keys()], log = f => Math.log10(wave(f));
  box.append(h("div.row", null, h("div", null, h("h3", null, "Pairs: from fast to slow"), scroll(table(["pair", "columns", "f", "wavelength", `rotations in ${ctx}`, ...(scaled ? ["scaling"] : [])],
    P.map((p, j) => ({on: j === turning.pair, pick: () => { turning.pair = j; again(); },
      cells: [plain(j), columnsOf(t, j).join(", "), p.frequency, wave(p.frequency), ctx / wave(p.frequency), ...(scaled ? [p.branch] : [])]}))))),
    h("div", null, h("h3", null, "Wavelength 2π / f in tokens, log₁₀, by pair"), plot([{x: js, y: P.map(p => log(p.frequency))}, {x: [0, n - 1], y: [Math.log10(ctx), Math.log10(ctx)], class: "b"},
      ...(scaled ? [{x: js, y: P.map(p => log(p.plain)), class: "c"}] : [])], {xlabel: "pair"}),
    note(`Orange: the context, ${ctx}.${scaled ? " Green: before scaling." : ""} Fast pairs tell neighbours apart; pairs above the line never complete a rotation.`))));
  const l = here.q ? here : layerOf(v.layers.filter(x => x.q), box);
  if (l) drawTurn(box, l, t, v.tables[here.k_table], again);
  drawDecay(box, P);
};

function drawTurn(box, l, tq, tk, again) {
  const [q0, q, k0, k] = ["q_before", "q", "k_before", "k"].map(x => tensor(l[x])), m = at.token, last = doc.model.causal ? m : q.rows - 1;
  const n = Math.min(turning.key, last), j = turning.pair, head = at.head, kv = Math.floor(head * (k.cols / tk.d_head) / (q.cols / tq.d_head)), P = tq.pairs;
  const Q = [q0, q].map(x => pairOf(tq, x.row(m), head, j)), K = [k0, k].map(x => pairOf(tk, x.row(n), kv, j));
  const line = (name, pos, [x, y]) => [name, plain(pos), ...x, plain(fmt(pos * P[j].frequency * 180 / Math.PI % 360) + "°"), ...y, Math.hypot(...x), Math.hypot(...y)];
  box.append(h("h3", null, `Pair ${j} of head ${head}, layer ${l.layer}: the query of ${word(m)}, the key of ${word(n)}`),
    h("div.row", null, dial([[Q, "a"], [K, "b"]]), h("div", null, table(["", "position", "a", "b", "angle", "a'", "b'", "length", "after"], [line("q", m, Q), line("k", n, K)]),
      note("Dashed before, solid after; blue the query, orange the key." + (tq.magnitude === 1 ? " A rotation keeps the length." : ` Lengths are multiplied by ${fmt(tq.magnitude)}.`)),
      slider("key", 0, last, 1, n, x => { turning.key = x; again(); }))));
  // q · k pair by pair: what is multiplied by cos and by sin of (m − n) f.
  const parts = P.map((p, i) => { const [a, b] = pairOf(tq, q0.row(m), head, i), [c, d] = pairOf(tk, k0.row(n), kv, i); return [a * c + b * d, b * c - a * d, p.frequency]; });
  const by = magnitude(tq, m) * magnitude(tk, n), score = d => by * sum(parts.map(([x, y, f]) => x * Math.cos(d * f) - y * Math.sin(d * f)));
  const real = sum(P.map((_, i) => dot(pairOf(tq, q.row(m), head, i), pairOf(tk, k.row(n), kv, i)))), xs = [...Array(Math.min(doc.model.n_ctx, 256)).keys()];
  box.append(h("h3", null, "This q · k at other distances"), h("div.row", null, plot([{x: xs, y: xs.map(score)}, {x: [m - n], y: [real], dots: true, radius: 5}], {xlabel: "m − n"}),
    h("div", null, h("div.f", null, `q · k = ${by === 1 ? "" : fmt(by) + " "}Σ (ac + bd) cos((m − n) f) − (bc − ad) sin((m − n) f)\nm − n = ${m - n}:  ${fmt(score(m - n))} by this formula, ${fmt(real)} from the rotated rows`),
      note("Positions are in it only as m − n." + (tq.n_rot < tq.d_head ? " This is the part of the columns that rotate; the others add a constant." : "")))));
}

// The RoFormer paper's bound, as a share of distance 0: the mean over i of |Σ_{j<i} e^(i d f_j)|.
function drawDecay(box, P) {
  const xs = [...Array(Math.min(doc.model.n_ctx, 256)).keys()], bound = d => { let x = 0, y = 0, s = 0;
    for (const p of P) { x += Math.cos(d * p.frequency); y += Math.sin(d * p.frequency); s += Math.hypot(x, y); }
    return s / (P.length * (P.length + 1) / 2); };
  box.append(h("h3", null, "Long-term decay"), h("div.row", null, plot([{x: xs, y: xs.map(bound)}], {xlabel: "m − n", zero: true, height: 160}),
    note("A bound on q · k, as a share of distance 0: the more the pairs have rotated apart, the more they cancel.")));
}
