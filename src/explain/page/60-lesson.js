// Training: what rows predict, the backward pass, and one number's update.

// Rows that a view has for itself, decoded once.
function grid(t) {
  if (typeof t.data === "string") t.data = floats(t.data);
  return i => t.data.subarray(i * t.cols, (i + 1) * t.cols);
}
const digits = x => (x && Math.abs(x) < 1e-4 ? x.toExponential(6) : String(+x.toPrecision(7))).replace(/-/g, "−");

views.objective = (box, v) => {
  const asked = v.rows.filter(r => r.target >= 0), masked = v.kind === "masked", most = largest(asked.map(r => r.loss)), n = asked.length;
  box.append(note(masked ? "Some tokens are masked; each is the target of its own row. Of a run's targets 80 % become the mask, 10 % any token, 10 % stay. Other rows have the target −100 and no loss."
    : v.kind === "spans" ? "Spans of the source are cut out; the decoder writes them, each row predicts the token that follows."
    : v.continued ? "Only the rows that predict the target have a loss; the others have the target −100." : "Every row predicts the token that follows: the targets are the text, shifted by one."));
  if (v.source.length) box.append(h("div.f", null, "source: " + v.source.map(letters).join(" ")));
  box.append(scroll(table(["row", "reads", ...(masked ? ["in the text"] : []), "target", "p of it", "loss, −log p", ""], v.rows.map((r, i) => ({on: i === at.token, pick: i < doc.tokens.length ? () => pick({token: i}) : null,
      cells: [plain(i), letters(r.text), ...(masked ? [letters(r.given || r.text)] : []), ...(r.target < 0 ? ["−100", "", "", ""] : [letters(r.target_text), Math.exp(-r.loss), r.loss, bar(r.loss / most)])]})))),
    h("div.f", null, `L = 1/${n} · (${asked.slice(0, 6).map(r => fmt(r.loss)).join(" + ")}${n > 6 ? " + …" : ""}) = ${digits(v.loss)}      a guess among ${v.n_out} tokens: log ${v.n_out} = ${fmt(Math.log(v.n_out))}`));
  if (n > 2) box.append(h("h3", null, "Loss by position"), plot([{x: v.rows.map((_, i) => i).filter(i => v.rows[i].target >= 0), y: asked.map(r => r.loss)}], {xlabel: "row", zero: true, width: 620}));
  box.append(note(`After ${v.n_step} ${v.n_step === 1 ? "step" : "steps"} on these rows alone the loss is ${digits(v.loss_after)}.`));
};

// ---- backward

// p − y of a row; the slopes of the mean are these by its number of targets.
function drawSlopes(box, v) {
  const s = v.slopes.filter(x => x.row <= at.token).pop() || v.slopes[0], z = series(s, "slope"), n = 1 / v.scale, y = k => k === s.target ? 1 : 0, p = k => y(k) ? Math.exp(-s.loss) : z[k] * n;
  box.append(h("h3", null, `Row ${s.row}: the gradient of its logits is p − y`), note(`Softmax and logarithm together have the slope p − y: of each token its probability, of the target 1 less.${n > 1 ? ` The loss is a mean over ${n} rows, which divides it by ${n}.` : ""}`),
    table(["token", "p", "y", "p − y", ...(n > 1 ? [`/ ${n}`] : []), ""], s.largest.map(t => ({on: t.id === s.target, cells: [letters(t.text), p(t.id), y(t.id), z[t.id] * n, ...(n > 1 ? [z[t.id]] : []), bar(Math.abs(z[t.id] * n))]}))),
    h("div.f", null, `the ${s.largest.length} largest of ${z.length}; all sum to ${fmt(sum(z) * n)}, because p and y both sum to 1`));
}

// dV, dP, dS, dQ and dK of one query and head.
function drawAttentionBack(box, v) {
  const l = layerOf(v.layers, box);
  if (!l) return;
  const head = Math.min(at.head, l.n_head - 1), g = groupOf(l, head), rows = l.q.rows, i = Math.min(at.token, rows - 1), E = l.d_key, F = l.d_value;
  const own = (t, r, k, w) => part(grid(t)(r), k, w), map = (t, r, a = head) => { const one = grid(t), from = (l.n_head * r / 2 + a) * (r + 1);
    return l.causal ? t.data.subarray(from, from + r + 1) : one(r * l.n_head + a); };
  const p = map(l.p, i), dp = map(l.dp, i), ds = map(l.ds, i), delta = dot(p, dp), dy = own(l.dy, i, head, F), name = j => j < doc.tokens.length ? `${j} ${word(j)}` : String(j);
  const shown = strongest(Array.from(ds, Math.abs), 16), j = shown.reduce((a, b) => Math.abs(ds[b]) > Math.abs(ds[a]) ? b : a), hand = new Float64Array(E);
  ds.forEach((x, k) => own(l.k, k, g, E).forEach((y, e) => hand[e] += l.scale * x * y));
  // Every query that sees key j, of every head that reads it.
  const all = (weigh, t, w) => { const sums = new Float64Array(w);
    for (let r = 0; r < rows; r++) for (let a = 0; a < l.n_head; a++) if (groupOf(l, a) === g) {
      const x = weigh(r, a); own(t, r, a, w).forEach((y, e) => sums[e] += x * y); }
    return sums; };
  const at_j = (t, by) => (r, a) => by * (map(t, r, a)[j] || 0), six = (title, x, y) => h("div", {style: "flex:0 1 auto"}, h("h3", null, title), table(["by hand", "on the tape"], [...x.keys()].slice(0, 6).map(e => [x[e], y[e]])));
  box.append(h("h3", null, `Attention of layer ${l.layer}, head ${head}, query ${name(i)}`),
    h("div.f", null, `O = P V    dV = Pᵀ dO    dP = dO Vᵀ    dS = P ⊙ (dP − Σ P dP)    dQ = ${fmt(l.scale)} · dS K    dK = ${fmt(l.scale)} · dSᵀ Q${l.cap ? `    dS also · 1 − (s/${l.cap})²` : ""}\ndO = ${some(dy)}   Σ P dP = ${digits(delta)}`),
    table(["key", "P", "dP = dO · v", "dP − Σ P dP", "dS", ""], shown.map(k => ({on: k === j, cells: [name(k), p[k], dp[k], dp[k] - delta, ds[k], bar(Math.abs(ds[k] / (ds[j] || 1)))]}))),
    l.v ? h("div.f", null, `dP of ${name(j)}:  ${addends(dy, own(l.v, j, g, F))}`) : "", h("div.f", null, `dS of ${name(j)}:  ${fmt(p[j])} · (${fmt(dp[j])} − ${fmt(delta)}) = ${fmt(p[j] * (dp[j] - delta))};  all dS of a row sum to ${fmt(sum(ds))}`),
    h("div.row", null, six("dQ of this query", hand, own(l.dq, i, head, E)), six(`dK of key ${name(j)}`, all(at_j(l.ds, l.scale), l.q, E), own(l.dk, j, g, E)),
      l.dv ? six(`dV of key ${name(j)}`, all(at_j(l.p, 1), l.dy, F), own(l.dv, j, g, F)) : ""),
    h("h3", null, "dS: queries × keys"), wide(heat(rows, rows, (r, k) => map(l.ds, r)[k], {signed: true, say: (r, k) => `${name(r)} → ${name(k)}: ${fmt(map(l.ds, r)[k] || 0)}`, pick: r => r < doc.tokens.length && pick({token: r})})),
    note("Blue: more weight on this key would raise the loss; orange: it would lower it. A key is read by every query that sees it and every head of its group, so its dK and dV are sums over them. "
      + `P, dP and dS are in no tensor: training makes them tile by tile. They were opened here, by the same code; their dQ is ${v.as_tape ? "that of the tape, bit by bit" : "not that of the tape"}.`));
}

views.backward = (box, v) => {
  const layer = w => { const m = /blk\.(\d+)\./.exec(w.name); return m ? +m[1] : -1; }, L = doc.model.n_layer, length = x => Math.sqrt(sum(x.map(w => w.norm * w.norm)));
  drawSlopes(box, v);
  drawAttentionBack(box, v);
  const stream = Array.from({length: L}, (_, l) => v.gradients.find(x => x.layer === l)), byLayer = Array.from({length: L}, (_, l) => length(v.weights.filter(w => layer(w) === l)));
  const rows = [...stream.keys()].reverse(), most = largest(stream.map(x => x.norm)), top = largest(v.weights.map(w => w.norm)), mine = v.gradients.filter(x => x.layer === at.layer), peak = largest(mine.map(x => x.norm));
  box.append(h("h3", null, "From the last layer to the first: norms of gradients"), table(["layer", "of what leaves the block", "", "of its weights"], rows.map(l => ({on: l === at.layer, pick: () => pick({layer: l}), cells: [plain(l), stream[l].norm, bar(stream[l].norm / most), byLayer[l]]}))),
    h("div.row", null, h("div", null, h("h3", null, `Layer ${at.layer}, backwards`), scroll(table(["gradient of", "op", "norm", ""], mine.map(x => [x.name, x.op, x.norm, bar(x.norm / peak)])))),
      h("div", null, h("h3", null, "By weight"), scroll(table(["weight", "shape", "norm", ""], v.weights.map(w => ({on: layer(w) === at.layer, cells: [w.name, w.shape.join(" × "), w.norm, bar(w.norm / top)]})))))),
    h("div.f", null, `√ of all squares = ${digits(length(v.weights))}, the norm that clipping looks at`));
};

// ---- update

const follow = {weight: 0, step: 0};
views.update = (box, v) => {
  const out = h("div"), n = v.steps.length, again = () => {
    const w = v.weights[follow.weight], s = v.steps[follow.step], x = w.steps[follow.step], t = follow.step + 1, old = w.steps[t - 2] || {m: 0, v: 0, weight: w.weight};
    const g = x.grad * s.clip, m = v.beta1 * old.m + (1 - v.beta1) * g, q = v.beta2 * old.v + (1 - v.beta2) * g * g, a = m / (1 - v.beta1 ** t), b = q / (1 - v.beta2 ** t), decay = w.decays ? v.decay : 0, delta = -s.lr * (a / (Math.sqrt(b) + v.eps) + decay * old.weight);
    const width = w.shape[w.shape.length - 1], place = w.shape.length > 1 ? `[${Math.floor(w.at / width)}, ${w.at % width}]` : `[${w.at}]`, b1 = digits(1 - v.beta1), b2 = digits(1 - v.beta2), show = (l, y, has) => [l, y, digits(has)];
    out.replaceChildren(h("h3", null, `${w.name}${place}, step ${t}`), h("div.f", null, `the number of this weight with the largest gradient in step 1;  norm of all gradients ${digits(s.norm)},  clip = ${v.largest_norm ? `min(1, ${v.largest_norm} / (${digits(s.norm)} + 10⁻⁶))` : "none"} = ${digits(s.clip)}`),
      table(["", "by hand", "in the optimiser"], [["g, clipped", `${digits(x.grad)} · ${digits(s.clip)} = ${digits(g)}`, ""],
        show("m", `${v.beta1} · ${digits(old.m)} + ${b1} · ${digits(g)} = ${digits(m)}`, x.m), show("v", `${v.beta2} · ${digits(old.v)} + ${b2} · ${digits(g)}² = ${digits(q)}`, x.v),
        ["m̂", `${digits(m)} / (1 − ${v.beta1}^${t}) = ${digits(a)}`, ""], ["v̂", `${digits(q)} / (1 − ${v.beta2}^${t}) = ${digits(b)}`, ""],
        show("Δθ", `−${digits(s.lr)} · (${digits(a)} / (√${digits(b)} + ${v.eps}) + ${decay} · ${digits(old.weight)}) = ${digits(delta)}`, x.weight - old.weight),
        show("θ", `${digits(old.weight)} ${delta < 0 ? "−" : "+"} ${digits(Math.abs(delta))} = ${digits(old.weight + delta)}`, x.weight)]),
      scroll(table(["weight", "number", "gradient", "θ before", "Δθ of all steps"], v.weights.map((o, i) => ({on: i === follow.weight, pick: () => { follow.weight = i; again(); }, cells: [o.name, plain(o.at), o.steps[0].grad, o.weight, o.steps[n - 1].weight - o.weight]})))));
  };
  box.append(note("AdamW: m remembers the gradient, v its square, both from 0 on; dividing by 1 − βᵗ makes up for that start. m̂ / √v̂ is near ±1, so a step moves every number by about the rate. "
    + `Matrices also shrink by rate · ${v.decay}; gains and biases do not. θ has 7 digits, so its own difference is coarse.`),
    table(["step", "loss", "norm", "clip", "rate"], v.steps.map((s, i) => [plain(i + 1), s.loss, s.norm, s.clip, s.lr]).concat([["after", v.loss_after, "", "", ""]])), slider("step", 1, n, 1, follow.step + 1, x => { follow.step = x - 1; again(); }), out);
  again();
  box.append(h("h3", null, "The learning rate of a run with these settings"), plot([{x: v.rate_steps, y: v.rates}, {x: v.steps.map((_, i) => i + 1), y: v.steps.map(s => s.lr), dots: true}], {xlabel: "step", zero: true, width: 620}),
    h("div.f", null, `warm-up: ${v.peak} · step / ${v.warm_up};  then ${v.lowest} + (${v.peak} − ${v.lowest}) · (1 + cos(π · (step − ${v.warm_up}) / ${v.schedule - v.warm_up})) / 2`));
};
