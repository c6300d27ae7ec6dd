// An encoder and a decoder beside each other, and Bahdanau's alignment.

const pair = {step: null};

// A map with the tokens of both sides as its edges; mark: a row.
function sideMap(rows, keys, value, o) {
  const cell = Math.max(4, Math.min(22, Math.floor(400 / Math.max(rows.length, keys.length)))), small = `font-size:${Math.min(12, cell)}px;line-height:${cell}px;`;
  const names = (list, style, mark) => list.map((_, i) => h("div", {style: style + (i === mark ? "font-weight:700;color:var(--b)" : "")}, spelled(list, i).slice(0, 12)));
  return wide(h("div", {style: "display:grid;grid-template-columns:auto auto;gap:4px;justify-content:start"},
    cell < 9 ? "" : h("span"), cell < 9 ? "" : h("div", {style: "display:flex;" + small}, names(keys, `width:${cell}px;writing-mode:vertical-rl;transform:rotate(180deg);`)),
    h("div", {style: "text-align:right;" + small}, cell < 9 ? "" : names(rows, `height:${cell}px;`, o.mark)),
    heat(rows.length, keys.length, value, {top: 1, cell, pick: o.pick, say: (i, k) => `${spelled(rows, i)} → ${spelled(keys, k)}: ${full(value(i, k))}`})));
}

views["encoder-decoder"] = (box, v) => {
  const T = target.length, t = Math.min(pair.step === null ? T - 1 : pair.step, T - 1), number = layers[at.layer].number, some = v.maps.length;
  const line = list => h("div.f", null, list.map((_, i) => spelled(list, i)).join(" "));
  const boxes = (n, list, parts) => h("div", null, Array.from({length: n}, (_, i) => h("div.f", null, `${n - 1 - i}  `,
    parts.map(([s, name]) => { const l = layers.findIndex(x => x.stack === s && x.number === n - 1 - i);
      return h("button" + (l === at.layer ? ".on" : ""), {onclick: () => pick({layer: l})}, name); }), v.feed_forward ? " feed forward" : "")), line(list));
  box.append(note("The encoder (left) reads the whole source at once. The decoder (right) makes one token at each step: it sees its own tokens up to there, and asks the encoder's output. "
    + "Here all steps are rows of one forward, as in training."),
    h("div.row", null, boxes(v.n_layer_src, doc.source, [["encoder", some ? "self-attention" : "recurrence"]]),
      boxes(v.n_layer, target, some ? [["decoder", "masked self-attention"], ["cross", "cross-attention"]] : [["decoder", "recurrence with attention"]])),
    slider("step", 0, T - 1, 1, t, n => { pair.step = n; box.replaceChildren(); views["encoder-decoder"](box, v); }));
  const map = (stack, title, rows, keys) => {
    const of = v.maps.filter(m => stackOf(m.layer) === stack), m = of.find(m => layers[m.layer].number === number) || of[of.length - 1];
    if (!m) return "";
    const p = tensor(m.probs), head = Math.min(at.head, m.n_head - 1), steps = stack !== "encoder";
    return h("div", {style: "flex:0 1 auto"}, h("h3", null, `${title}, layer ${layers[m.layer].number}, head ${head}`),
      sideMap(rows, keys, (i, k) => steps && i > t ? NaN : p.row(i * m.n_head + head)[k], {mark: steps ? t : -1,
        pick: i => { if (steps) pair.step = i; pick({layer: m.layer, token: i}); }}));
  };
  box.append(h("div.row", null, map("encoder", "Encoder", doc.source, doc.source), map("decoder", "Decoder", target, target), map("cross", "Cross", target, doc.source)));
  const next = v.steps[t], after = t + 1 < T ? target[t + 1] : null;
  if (next) box.append(h("h3", null, `Step ${t}: what may follow ${spelled(target, t)}`), table(["token", "id", "logit", "p", ""], next.best.map(b =>
    ({on: after && b.id === after.id, cells: [letters(b.text), plain(b.id), b.z, b.p, bar(b.p)]}))),
    note(after ? `Next here: ${spelled(target, t + 1)}.` : "The text ends here."));
};

views.alignment = (box, v) => {
  const [H, S, G, C, K, E, P] = ["memory", "states", "gates", "context", "keys", "scores", "probs"].map(x => tensor(v[x])), W = series(v, "query"), w = series(v, "score");
  const t = stackOf(at.layer) === "encoder" ? target.length - 1 : at.token, D = H.cols, A = K.cols, n = H.rows, s = t ? S.row(t - 1) : H.row(n - 1), p = P.row(t);
  const q = Array.from({length: A}, (_, a) => dot(part(W, a, D), s)), u = j => Array.from(K.row(j), (k, a) => Math.tanh(q[a] + k)), list = [...p.keys()];
  const base = layers.findIndex(x => x.stack === "decoder"), best = list.reduce((a, b) => p[b] > p[a] ? b : a), mine = new Float64Array(D);
  list.forEach(j => H.row(j).forEach((x, d) => mine[d] += p[j] * x));
  box.append(note(`Step ${t}, after ${spelled(target, t)}. The state s before the step asks each state h of the encoder: both are projected and added, bent by tanh, and weighed by w. `
    + "The softmax of the scores is the alignment α; the context c is the sum of the h by it."),
    h("div.f", null, `s${t ? ` = s of step ${t - 1}` : " = the encoder's last state"} = ${some(s)}\nW_q s = ${some(Float64Array.from(q))}\na(s, h) = w · tanh(W_q s + W_k h),  ${A} columns`),
    table(["source", "W_k h", "tanh(W_q s + W_k h)", "w · tanh", "score", "α", ""], list.map(j => ({on: j === best, cells: [`${j} ${spelled(doc.source, j)}`,
      h("span.f", null, some(K.row(j), 3)), h("span.f", null, some(Float64Array.from(u(j)), 3)), dot(u(j), w), E.row(t)[j], p[j], bar(p[j])]}))),
    h("h3", null, `The score of ${spelled(doc.source, best)}, addend by addend`), h("div.f", null, addends(w, u(best))),
    h("div.f", null, `Σ α = ${sum(p).toFixed(6)}`));
  const [r, z, c] = [0, 1, 2].map(k => part(G.row(t), k, D)), first = [...Array(Math.min(8, D)).keys()];
  box.append(h("h3", null, "The context, and the gates of the GRU"), note("r: how much of s the candidate n reads; z: how much of it stays."),
    table(["column", "c = Σ α h", "in the model", "s", "r", "z", "n", "(1 − z) n + z s", "s' in the model"], first.map(d =>
      [plain(d), mine[d], C.row(t)[d], s[d], r[d], z[d], c[d], (1 - z[d]) * c[d] + z[d] * s[d], S.row(t)[d]])),
    h("h3", null, "The alignment: a row for each step"), sideMap(target, doc.source, (i, j) => P.row(i)[j], {mark: t, pick: i => pick({layer: base, token: i})}));
};
