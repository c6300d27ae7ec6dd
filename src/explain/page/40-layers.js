// What goes through all layers: the stream with its norms and sums, and the feed forward.

const series = (o, key) => typeof o[key] === "string" ? o[key] = floats(o[key]) : o[key];
const variance = x => { const m = sum(x) / x.length; return sum(Array.from(x, v => (v - m) * (v - m))) / x.length; };

// One norm by hand, for the chosen token.
function normByHand(box, o) {
  const x = tensor(o.x), y = tensor(o.y), i = at.token;
  if (!x || !y) return;
  const X = x.row(i), Y = y.row(i), layer = o.op === "layernorm", mean = layer ? sum(X) / X.length : 0, v = layer ? variance(X) : dot(X, X) / X.length;
  const s = 1 / Math.sqrt(v + o.eps), w = series(o, "gain"), b = series(o, "bias"), k = 0;
  box.append(h("div.f", null, `x = [${few(X, 5)}]   ${layer ? `mean = ${fmt(mean)}   variance = ${fmt(v)}` : `mean of squares = ${fmt(v)}`}   1 / √(${fmt(v)} + ${o.eps.toExponential(0)}) = ${fmt(s)}\n`
    + `y[${k}] = ${layer ? `(${fmt(X[k])} − ${fmt(mean)})` : fmt(X[k])} · ${fmt(s)} · ${fmt(w[k])}${b ? ` + ${fmt(b[k])}` : ""} = ${fmt((X[k] - mean) * s * w[k] + (b ? b[k] : 0))}        in the tensor: ${fmt(Y[k])}`));
}

views.residual = (box, v) => {
  const i = at.token, N = doc.tokens.length, kind = v.norms.length ? v.norms[0].op : "", mine = v.norms.filter(o => o.layer === at.layer);
  box.append(note("Each block reads the stream and adds to it: x + attention, then x + feed forward. The sum is never replaced, so what one layer writes, later ones can read. "
    + (kind === "rmsnorm" ? "A branch reads it through RMSNorm, which brings each row to one scale." : "LayerNorm brings each row to mean 0 and variance 1, then scales and shifts each column.")),
    h("div.f", null, kind === "rmsnorm" ? "y = x / √(mean(x²) + ε) · w" : "y = (x − mean) / √(variance + ε) · w + b"));
  box.append(h("h3", null, `Norms of layer ${at.layer}, row of ${word(i)}`), table(["norm", "of", "mean", "RMS", "mean after", "RMS after"],
    mine.map(o => [o.name, o.of, ...["mean_before", "rms_before", "mean_after", "rms_after"].map(k => series(o, k)[i])])));
  if (mine.length) normByHand(box, mine[0]);
  const names = [...new Set(v.sums.map(s => s.branch))], lines = (f, class_) => names.map((b, k) => { const s = v.sums.filter(x => x.branch === b);
    return {x: s.map(x => x.layer), y: s.map(f), class: "abc"[k % 3], label: b, dots: s.length === 1}; });
  const share = s => series(s, "h")[i] / series(s, "y")[i], ends = v.sums.filter((s, k) => k + 1 === v.sums.length || v.sums[k + 1].layer !== s.layer);
  const legend = h("div.f", null, names.map((b, k) => h("span", {style: `color:var(--${"abc"[k % 3]});margin-right:1em`}, "— " + b)));
  box.append(h("div.row", null,
    h("div", null, h("h3", null, "Share of each branch: |branch| / |sum|"), legend, plot(lines(share).map(l => ({...l, label: null})), {xlabel: "layer", zero: true})),
    h("div", null, h("h3", null, "RMS of the stream after each layer"), plot([{x: ends.map(s => s.layer), y: ends.map(s => series(s, "y")[i])}], {xlabel: "layer", zero: true}))),
    h("h3", null, `Sums of layer ${at.layer}`), table(["branch", "RMS of x", "RMS of the branch", "RMS of the sum", "share", "cos(x, branch)"], v.sums.filter(s => s.layer === at.layer).map(s => {
      const [x, b, y] = ["x", "h", "y"].map(k => series(s, k)[i]); return [s.branch, x, b, y, b / y, (y * y - x * x - b * b) / (2 * x * b)]; })),
    note("A cosine near 0: the branch writes something new. Below 0: it takes away what is there."),
    h("h3", null, "RMS of the stream: layers × tokens"), wide(heat(ends.length, N, (l, t) => series(ends[l], "y")[t], {cell: Math.max(6, Math.min(18, Math.floor(700 / Math.max(N, ends.length)))),
      say: (l, t) => `layer ${ends[l].layer}, ${word(t)}: ${fmt(series(ends[l], "y")[t])}`, pick: (l, t) => pick({layer: ends[l].layer, token: t})})),
    note("In trained decoders the first token often has by far the largest row: other tokens rest their attention there."));
};

// erf by Abramowitz and Stegun 7.1.26, to 1.5e-7.
const erf = x => { const t = 1 / (1 + 0.3275911 * Math.abs(x)), y = 1 - ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t * Math.exp(-x * x); return x < 0 ? -y : y; };
const activations = {silu: x => x / (1 + Math.exp(-x)), relu: x => Math.max(0, x), gelu: x => x / 2 * (1 + erf(x / Math.SQRT2)), tanh: Math.tanh, sigmoid: x => 1 / (1 + Math.exp(-x)),
  gelu_tanh: x => x / 2 * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))};

function drawCurve(l, pre, act) {
  const f = activations[l.activation], low = Math.min(-4, ...pre), high = Math.max(4, ...pre), xs = Array.from({length: 121}, (_, i) => low + (high - low) * i / 120);
  const step = Math.ceil(pre.length / 300), some = [...pre.keys()].filter(i => i % step === 0);
  return h("div", null, h("h3", null, "The activation, and the real points on it"), plot([...(f ? [{x: xs, y: xs.map(f)}] : []), {x: some.map(i => pre[i]), y: some.map(i => act[i]), dots: true, radius: 2}], {xlabel: l.gate ? "gate" : "up"}),
    h("div.f", null, `${l.activation}:  ${l.formula}`));
}

views.feed_forward = (box, v) => {
  const l = layerOf(v.layers, box), i = at.token;
  if (!l) return;
  if (l.experts) drawExperts(box, l);
  if (!l.up) return;
  const up = tensor(l.up), gate = l.gate && tensor(l.gate), H = tensor(l.hidden).row(i), F = H.length, D = tensor(l.down).cols, length = series(l, "column_length");
  const pre = (gate || up).row(i), act = tensor(l.act).row(i), force = Array.from(H, (x, k) => Math.abs(x) * length[k]), order = [...force.keys()].sort((a, b) => force[b] - force[a]);
  if (l.shared) box.append(h("h3", null, "The shared expert, which every token passes"));
  box.append(note(`Each token alone, without the others: its ${D} numbers become ${F} (${fmt(F / D)} times as many), an activation bends them, and ${D} come out. `
    + (gate ? "A gate decides how much of each of them passes." : "")), h("div.f", null, (gate ? `y = W_down ( ${l.activation}(W_gate x) ⊙ W_up x )` : `y = W_down ${l.activation}(W_up x + b) + b`)
      + `        ${count((gate ? 3 : 2) * F * D)} weights\nx = [${l.input ? few(tensor(l.input).row(i), 5) : "…"}]\ny = [${few(tensor(l.down).row(i), 5)}]   |y| = ${fmt(norm(tensor(l.down).row(i)))}`));
  const squares = order.map(k => force[k] ** 2), all = sum(squares); let half = 0, run = 0;
  while (run < all / 2) run += squares[half++];
  const heads = ["neuron", ...(gate ? ["gate", l.activation, "up", "product"] : ["up", l.activation]), "|column|", "adds", ""];
  box.append(h("div.row", null, h("div", null, h("h3", null, `Strongest neurons of ${word(i)}, layer ${l.layer}`), table(heads, order.slice(0, 12).map(k =>
    [h("span", null, String(k)), ...(gate ? [pre[k], act[k], up.row(i)[k], H[k]] : [pre[k], act[k]]), length[k], force[k], bar(force[k] / force[order[0]])])),
    note(`A neuron adds its product times its column of W_down. Of ${F} neurons, ${half} carry half of the squares; ${H.filter(x => Math.abs(x) < 0.01 * Math.abs(H[order[0]])).length} are nearly silent.`)), drawCurve(l, pre, act)));
  const top = order.slice(0, 64);
  box.append(h("h3", null, "Those neurons on every token"), wide(heat(doc.tokens.length, top.length, (t, k) => tensor(l.hidden).row(t)[top[k]], {signed: true, cell: 10,
    say: (t, k) => `${word(t)}, neuron ${top[k]}: ${fmt(tensor(l.hidden).row(t)[top[k]])}`, pick: t => pick({token: t})})),
    note("Rows are tokens, columns the 64 strongest neurons of the chosen one. A column with one bright square: a neuron that waits for that token."));
};

function drawExperts(box, l) {
  const e = l.experts, [scores, chosen, shares, out] = ["scores", "chosen", "shares", "out"].map(x => tensor(e[x])), i = at.token, k = chosen.cols, n = scores.cols, N = doc.tokens.length;
  const mine = Array.from(chosen.row(i)), used = new Array(n).fill(0);
  for (let t = 0; t < N; t++) for (const x of chosen.row(t)) used[x]++;
  box.append(note(`Layer ${l.layer} has ${n} feed forwards, called experts. A router scores them for each token, and only the best ${k} run: y = Σ share · expert(x). `
    + `So a token costs ${k} of ${n}, while the model has the weights of all.`),
    h("h3", null, `Experts of ${word(i)}`), table(["expert", "score", "share", "|output|", "share · |output|", ""], mine.map((x, j) => { const o = norm(out.row(i * k + j)), s = shares.row(i)[j];
      return [h("span", null, String(x)), scores.row(i)[x], s, o, s * o, bar(s / sum(shares.row(i)))]; })),
    h("div.f", null, `shares sum to ${fmt(sum(shares.row(i)))}   |y| = ${fmt(norm(tensor(e.sum).row(i)))}`),
    h("h3", null, "Scores: tokens × experts"), wide(heat(N, n, (t, x) => scores.row(t)[x], {cell: Math.max(4, Math.min(18, Math.floor(700 / n))),
      say: (t, x) => `${word(t)}, expert ${x}: ${fmt(scores.row(t)[x])}${chosen.row(t).includes(x) ? ", chosen" : ""}`, pick: t => pick({token: t})})),
    h("h3", null, "How often each expert was chosen in this text"), plot([{x: [...used.keys()], y: used, dots: true}], {xlabel: "expert", zero: true, height: 130}),
    note("Scores choose; the shares of the chosen weigh their outputs. Training keeps the load even, so that all of them learn."));
}
