// What goes through all layers: the stream with its norms and sums, and the feed forward.

// One norm by hand, for the chosen token.
function normByHand(o) {
  const X = tensor(o.x).row(at.token), Y = tensor(o.y).row(at.token), layer = o.op === "layernorm", mean = layer ? sum(X) / X.length : 0;
  const v = dot(X, X) / X.length - mean * mean, s = 1 / Math.sqrt(v + o.eps), w = series(o, "gain")[0], b = o.bias ? series(o, "bias")[0] : 0;
  return h("div.f", null, `${o.name}:  x = [${few(X, 5)}]\n${layer ? `mean = ${fmt(mean)}, variance` : "mean of squares"} = ${fmt(v)},  1 / √(${fmt(v)} + ${o.eps.toPrecision(1)}) = ${fmt(s)}\n`
    + `y[0] = ${layer ? `(${fmt(X[0])} − ${fmt(mean)})` : fmt(X[0])} · ${fmt(s)} · ${fmt(w)}${o.bias ? ` + ${fmt(b)}` : ""} = ${fmt((X[0] - mean) * s * w + b)};  in the tensor ${fmt(Y[0])}`);
}

views.residual = (box, v) => {
  const i = at.token, N = doc.tokens.length, rms = v.norms[0] && v.norms[0].op === "rmsnorm", mine = v.norms.filter(o => o.layer === at.block), whole = mine.find(o => tensor(o.x)), block = x => /blk\.\d+/.exec(x)[0],
    after = mine.some(o => /ffn_down\.residual$/.test(o.of) && block(o.of) === block(o.name)), branch = mine.some(o => /(attn_output|ffn_down)$/.test(o.of));
  box.append(note("Each block adds to the stream: x + attention, then x + feed forward. " + (after ? "Here a norm follows each sum. " : branch ? "Here what a branch adds passes a norm first. " : "What one layer writes, later ones can read. ")
    + (rms ? "RMSNorm brings each row to one scale." : "LayerNorm brings each row to mean 0 and variance 1.")),
    h("div.f", null, rms ? "y = x / √(mean(x²) + ε) · w" : "y = (x − mean) / √(variance + ε) · w + b"),
    h("h3", null, `Norms of ${layerName(at.block)}, row of ${word(i)}`), table(["norm", "of", "mean", "RMS", "mean after", "RMS after"],
      mine.map(o => [o.name, o.of, ...["mean_before", "rms_before", "mean_after", "rms_after"].map(k => series(o, k)[i])])), whole ? normByHand(whole) : "");
  const sums = v.sums.filter(s => stackOf(s.layer) === stackOf(at.block)), names = [...new Set(sums.map(s => s.branch))];
  const ends = sums.filter((s, k) => k + 1 === sums.length || sums[k + 1].layer !== s.layer), number = s => layers[s.layer].number;
  const lines = names.map((b, k) => { const s = sums.filter(x => x.branch === b);
    return {x: s.map(number), y: s.map(x => series(x, "h")[i] / series(x, "y")[i]), class: "abcd"[k % 4], dots: s.length === 1}; });
  box.append(h("div.row", null, h("div", null, h("h3", null, "Share of each branch, by layer: |branch| / |sum|"),
      h("div", null, names.map((b, k) => h("span", {style: `color:var(--${"abcd"[k % 4]});margin-right:1em`}, "— " + b))), plot(lines, {xlabel: "layer", zero: true})),
    h("div", null, h("h3", null, "RMS of the stream after each layer"), plot([{x: ends.map(number), y: ends.map(s => series(s, "y")[i])}], {xlabel: "layer", zero: true}))),
    h("h3", null, `Sums of ${layerName(at.block)}`), table(["branch", "RMS of x", "of the branch", "of the sum", "share", "cos(x, branch)"], sums.filter(s => s.layer === at.block).map(s => {
      const [x, b, y] = ["x", "h", "y"].map(k => series(s, k)[i]); return [s.branch, x, b, y, b / y, (y * y - x * x - b * b) / (2 * x * b)]; })),
    note("Cosine near 0: the branch writes something new. Below 0: it takes away what is there."),
    h("h3", null, "RMS of the stream: layers × tokens"), wide(heat(ends.length, N, (l, t) => series(ends[l], "y")[t], {cell: Math.max(6, Math.min(18, Math.floor(700 / Math.max(N, ends.length)))),
      say: (l, t) => `${layerName(ends[l].layer)}, ${word(t)}: ${fmt(series(ends[l], "y")[t])}`, pick: (l, t) => pick({layer: ends[l].layer, token: t})})),
    note("In trained decoders the first token often has by far the largest row."));
};

// erf to 1.5e-7: Abramowitz and Stegun 7.1.26.
const erf = x => { const t = 1 / (1 + 0.3275911 * Math.abs(x));
  return Math.sign(x) * (1 - ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * Math.exp(-x * x)); };
const activations = {silu: x => x / (1 + Math.exp(-x)), relu: x => Math.max(0, x), gelu: x => x / 2 * (1 + erf(x / Math.SQRT2)), tanh: Math.tanh,
  gelu_tanh: x => x / 2 * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))};

function drawCurve(l, pre, act) {
  const f = activations[l.activation], low = Math.min(-4, smallest(pre)), high = Math.max(4, largest(pre)), xs = Array.from({length: 121}, (_, i) => low + (high - low) * i / 120);
  const some = [...pre.keys()].filter(i => i % Math.ceil(pre.length / 300) === 0);
  return h("div", null, h("h3", null, "The activation, and real points on it"), plot([...(f ? [{x: xs, y: xs.map(f)}] : []),
    {x: some.map(i => pre[i]), y: some.map(i => act[i]), dots: true, radius: 2}], {xlabel: l.gate ? "gate" : "up"}), h("div.f", null, `${l.activation}:  ${l.formula}`));
}

views.feed_forward = (box, v) => {
  const l = layerOf(v.layers, box, at.block), i = at.token;
  if (!l) return;
  if (l.experts) drawExperts(box, l);
  if (!l.up) return;
  const [up, act, hidden, down] = ["up", "act", "hidden", "down"].map(x => tensor(l[x])), gate = l.gate && tensor(l.gate), a = l.activation;
  const H = hidden.row(i), y = down.row(i), F = H.length, D = y.length, pre = (gate || up).row(i), length = series(l, "column_length");
  const force = Array.from(H, (x, k) => Math.abs(x) * length[k]), order = [...force.keys()].sort((x, z) => force[z] - force[x]), total = dot(force, force);
  let half = 0;
  for (let s = 0; s < total / 2; half++) s += force[order[half]] ** 2;
  box.append(l.shared ? h("h3", null, "The shared expert, which every token passes") : "",
    note(`Each token alone: ${D} numbers become ${F} neurons (${fmt(F / D)} times), an activation bends them, ${D} come out.` + (gate ? " A gate says how much of each passes." : "")),
    h("div.f", null, (gate ? `y = W_down (${a}(W_gate x) ⊙ W_up x)` : `y = W_down ${a}(W_up x + b) + b`) + `    ${count((gate ? 3 : 2) * F * D)} weights\n`
      + (l.input ? `x = [${few(tensor(l.input).row(i), 5)}]\n` : "") + `y = [${few(y, 5)}]   |y| = ${fmt(norm(y))}`));
  box.append(h("div.row", null, h("div", null, h("h3", null, `Strongest neurons of ${word(i)}, ${layerName(l.layer)}`),
    table(["neuron", ...(gate ? ["gate", a, "up", "product"] : ["up", a]), "|column|", "adds"], order.slice(0, 12).map(k =>
      [plain(k), pre[k], act.row(i)[k], ...(gate ? [up.row(i)[k], H[k]] : []), length[k], force[k]])),
    note(`A neuron adds its ${gate ? "product" : a} times its column of W_down. Half of all squares comes from ${half} of ${F} neurons.`)), drawCurve(l, pre, act.row(i))));
  const top = order.slice(0, 64), x = (t, k) => hidden.row(t)[top[k]], N = doc.tokens.length;
  box.append(h("h3", null, "Those neurons on every token"), wide(heat(N, top.length, x, {signed: true, cell: Math.max(5, Math.min(12, Math.floor(360 / N))),
    say: (t, k) => `${word(t)}, neuron ${top[k]}: ${fmt(x(t, k))}`, pick: t => pick({token: t})})),
    note(`Rows are tokens, columns the ${top.length} strongest neurons of ${word(i)}.`));
};

function drawExperts(box, l) {
  const [scores, chosen, shares, out, y] = ["scores", "chosen", "shares", "out", "sum"].map(x => tensor(l.experts[x])), i = at.token, k = chosen.cols, n = scores.cols;
  const N = doc.tokens.length, share = shares.row(i), used = new Array(n).fill(0);
  for (let t = 0; t < N; t++) for (const x of chosen.row(t)) used[x]++;
  box.append(note(`${n} feed forwards, called experts. A router scores them for each token; only the best ${k} run: y = Σ share · expert(x). A token costs ${k} of ${n}.`),
    h("h3", null, `Experts of ${word(i)}, layer ${l.layer}`), table(["expert", "score", "share", "|output|", "share · |output|", ""], Array.from(chosen.row(i), (x, j) => { const o = norm(out.row(i * k + j));
      return [plain(x), scores.row(i)[x], share[j], o, share[j] * o, bar(share[j] / sum(share))]; })),
    h("div.f", null, `shares sum to ${fmt(sum(share))}   |y| = ${fmt(norm(y.row(i)))}`),
    h("div.row", null, h("div", null, h("h3", null, "Scores: tokens × experts"), wide(heat(N, n, (t, x) => scores.row(t)[x], {cell: Math.max(4, Math.min(18, Math.floor(420 / Math.max(n, N)))),
      say: (t, x) => `${word(t)}, expert ${x}: ${fmt(scores.row(t)[x])}${chosen.row(t).includes(x) ? ", chosen" : ""}`, pick: t => pick({token: t})}))),
    h("div", null, h("h3", null, "How often each was chosen in this text"), plot([{x: [...used.keys()], y: used, dots: true}], {xlabel: "expert", zero: true, height: 130}))),
    note("Scores choose; the shares of the chosen weigh their outputs."));
}
