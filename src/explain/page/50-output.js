// The cache, the output, beams, and the cost.

views.cache = (box, v) => {
  const n = v.cached, m = doc.model, N = target.length;
  box.append(h("p", null, `Keys and values of a token do not change, so they are computed once and kept: `
    + `${v.streams.map(s => `${s.width} numbers of ${s.name}`).join(", ")} in each of ${m.n_layer} layers. Token t then computes 1 row and reads t rows; `
    + `without a cache all t rows are computed again.`),
    table(["token", "rows computed", "rows read", "without a cache"], [1, 2, 3, N].filter((t, i, a) => t <= N && a.indexOf(t) === i).map(t =>
      [`${t}`, h("span.n", null, "1"), h("span.n", null, String(t)), h("span.n", null, String(t))])),
    table(["type of the cache", "bytes a token", "this text", `context of ${m.n_ctx}`], [["f32", 4], ["f16, bf16", 2], ["q8_0", 34 / 32]].filter(t => t[1] >= 2 || v.streams.every(s => s.width % 32 === 0)).map(([name, b]) =>
      [name, ...[1, N, m.n_ctx].map(t => h("span.n", null, bytes(n * b * t)))])));
  if (stackOf(at.layer) === "encoder") box.append(note("The encoder needs no cache: it reads its text once."));
  else drawRows(box, v);
  if (!v.times.length) return;
  box.append(h("h3", null, "Measured when this page was made"), table(["token", "with a cache, ms", "without, ms", "ratio"],
    v.times.map(p => [`${p.t}`, p.with * 1e3, p.without * 1e3, p.without / p.with])),
    h("p", null, "With a cache a token costs O(t), and that only in attention; without, O(t²) there and t times everything else. "
      + "weft bench --cache on,off --lengths 32,64,128,256 measures it with fitted curves."));
};

// The rows of K and V that one key head has before and after the chosen token.
function drawRows(box, v) {
  const l = layerOf(v.layers, box, at.block), t = at.token;
  if (!l) return;
  const g = groupOf(l, Math.min(at.head, l.n_head - 1)), first = Math.max(0, t - 6);
  const row = (name, j) => { const x = tensor(name); return h("span.f", null, some(part(x.row(j), g, x.cols / l.n_head_kv), 4)); };
  box.append(h("h3", null, `${layerName(l.layer)}, key head ${g}: ${word(t)} is appended`), table(["row", "", l.v ? "k" : "latent and rotary key", ...(l.v ? ["v"] : []), ""],
    Array.from({length: t + 1 - first}, (_, i) => first + i).map(j => ({on: j === t, pick: () => pick({token: j}), cells: [plain(j), word(j), row(l.k, j),
      ...(l.v ? [row(l.v, j)] : []), j < t ? "as before" : "new"]}))),
    note(`${t} ${t === 1 ? "row" : "rows"} before, ${t + 1} after${first ? "; the first are not listed" : ""}. The new query reads ${l.window ? `the last ${l.window}` : "all"} of them.`));
}

// ---- output: the sliders do what the sampler does, temperature, then top-k, then top-p

const draw = {};
views.output = (box, v) => {
  const z = floats0(v.logits), m = doc.model, generates = m.causal;
  if (draw.temperature === undefined) Object.assign(draw, {temperature: v.temperature || 1, k: v.top_k || 40, p: v.top_p || 1});
  box.append(h("p", null, (generates ? `${spelled(target, target.length - 1)} is followed by` : v.labels ? "The head reads its row:" : `At token ${v.row}, ${word(v.row)}:`)
    + ` one logit for each of ${z.length} ${v.labels ? "classes; the softmax makes probabilities of them." : `tokens. They are divided by the temperature τ; the softmax makes probabilities of them; top-k keeps the k `
    + "most probable, top-p the fewest that have p together; one of those is drawn."}`));
  const H = v.head, r = H && Math.min(v.row, tensor(H.x).rows - 1);
  if (H) box.append(h("div.f", null, `h = [${few(tensor(H.x).row(r), 6)}]   ${H.x}, ${generates ? "last row" : `row ${r}`}`), note((v.tied
    ? "The head is tied: its matrix is the table of embeddings" : `The head has a matrix of its own, ${H.weight}`) + `, and a logit is h times a row of it. That of ${letters(v.best[0].text)}:`),
    byHand(H, r, 0, v.before), v.before === v.best[0].z ? "" : note(`Then it is scaled or capped: ${fmt(v.best[0].z)}.`));
  const out = h("div"), again = () => {
    const max = v.best[0].z, all = sum(z.map(x => Math.exp((x - max) / draw.temperature)));
    const p = v.best.map(b => Math.exp((b.z - max) / draw.temperature) / all), kept = p.slice(0, draw.k), of = sum(kept);
    let n = 0, has = 0;
    while (n < kept.length && (n === 0 || has < draw.p * of)) has += kept[n++];
    out.replaceChildren(v.labels ? table(["class", "logit", "softmax", ""], v.best.slice(0, 24).map((b, i) => [b.text, b.z, p[i], bar(p[i])])) : table(["token", "id", "logit", "/ τ", "softmax", "kept and drawn with", ""], v.best.slice(0, Math.min(Math.max(n, 8), 24)).map((b, i) =>
      ({on: i < n, cells: [letters(b.text), h("span.n", null, String(b.id)), b.z, b.z / draw.temperature, p[i], i < n ? p[i] / has : "–", bar(i < n ? p[i] / has : 0)]}))),
      v.labels ? "" : h("p", null, `${n} of ${z.length} remain${draw.k > v.best.length ? `, of the ${v.best.length} listed` : ""}.`));
  };
  const set = name => x => { draw[name] = x; again(); };
  box.append(h("div.row", null, v.labels ? "" : slider("temperature", .1, 2, .05, draw.temperature, set("temperature")),
    v.labels ? "" : slider("top-k", 1, v.best.length, 1, draw.k, set("k")), v.labels ? "" : slider("top-p", .05, 1, .01, draw.p, set("p"))), out);
  again();
  if (v.stages) box.append(h("h3", null, `The sampler's own stages, seed ${v.sampler_seed}`), table(["stage", "remain", "best", "score", "p", "u"],
    v.stages.map(s => { const b = s.drawn || s.best[0];
      return [s.name, h("span.n", null, String(s.remain)), (s.drawn ? "drawn: " : "") + letters(b.text), b.score, b.p, s.u === undefined ? "" : s.u]; })));
  if (v.lens.length) box.append(h("h3", null, "Logit lens: the head applied after each layer"),
    table(["layer", "most probable", "p", "then"], v.lens.map(l => ({on: l.layer === layers[at.layer].number, pick: () => pick({layer: layers.length > m.n_layer ? layers.length - 2 * m.n_layer + l.layer : l.layer}),
      cells: [`${l.layer}`, letters(l.best[0].text), l.best[0].p, l.best.slice(1).map(b => `${letters(b.text)} ${fmt(b.p)}`).join("   ")]}))));
};
const floats0 = t => typeof t.data === "string" ? (t.data = floats(t.data)) : t.data;

// ---- beams

views.beams = (box, v) => {
  const steps = largest(v.nodes.map(n => n.step)) + 1, W = 150, R = 34, slots = [];
  for (let s = 0; s < steps; s++) slots.push(v.nodes.filter(n => n.step === s).sort((a, b) => b.sum - a.sum));
  const rows = largest(slots.map(s => s.length)), where = n => [10 + n.step * W, 24 + slots[n.step].indexOf(n) * R];
  const parent = n => n.step ? slots[n.step - 1].find(p => p.beam === n.parent) : null;
  const best = v.nodes.filter(n => n.beam < 0 || n.step === steps - 1).reduce((a, b) => b.score > a.score ? b : a), path = new Set();
  for (let n = best; n; n = parent(n)) path.add(n);
  const s = h("svg", {viewBox: `0 0 ${steps * W + 10} ${rows * R + 20}`, width: steps * W + 10, height: rows * R + 20, style: "max-width:none"});
  for (const n of v.nodes) {
    const [x, y] = where(n), p = parent(n);
    if (p) { const [a, b] = where(p);
      s.append(h("path." + (path.has(n) ? "b" : "axis"), {d: `M${a + 8 + 6.8 * Math.min(11, letters(p.text).length)} ${b - 4}C${a + W - 20} ${b - 4} ${x - 26} ${y - 4} ${x - 4} ${y - 4}`})); }
    s.append(h("text", {x, y, style: path.has(n) ? "font-weight:700;fill:var(--b)" : ""}, letters(n.text).slice(0, 11) + (n.ended ? " ▪" : "")),
      h("text", {x, y: y + 12, style: "opacity:.7"}, fmt(n.sum)));
  }
  box.append(h("p", null, "A search with 4 beams: at every step the 4 best continuations of all live beams stay. Below a token is the sum of "
    + "log-probabilities of its text; the best text is marked."), wide(s));
};

// ---- cost

const flop = n => count(n) + (n < 1e4 ? " " : "") + "FLOP";

views.cost = (box, v) => {
  const m = doc.model, D = m.d_model, F = m.d_ff, L = m.n_layer, N = v.n_token, p = v.parts, qkv = (m.n_head + 2 * m.n_head_kv) * m.d_head;
  const names = {embedding: "embedding", attention: "attention", feed_forward: v.d_key ? "feed forward" : "recurrence, with attention", head: "head"};
  box.append(table(["part", "parameters", "stored", "FLOPs of the last token"], Object.entries(p).map(([k, x]) =>
    [names[k], h("span.n", null, count(x.parameters)), h("span.n", null, bytes(x.bytes)), h("span.n", null, count(Math.round(x.flops)))])),
    h("p", null, `This forward over ${N} tokens: ${flop(Math.round(v.forward_flops))}.`));
  const w = m.n_head * (v.d_key + v.d_value), KV = 2 * L * m.n_head_kv * m.d_head, lines = [], S = doc.source ? doc.source.length : 0;
  // Keys that all queries of a text see together: each sees those before it, itself, and the source.
  const seen = m.causal ? N * (N + 1) / 2 + N * S : N * N, said = m.causal ? `${N} · ${N + 1} / 2` + (S ? ` + ${N} · ${S}` : "") : `${N}²`;
  if (v.d_key) lines.push([`scores and sums of a ${S ? "decoder's " : ""}layer`, `2 · (${said}) · ${m.n_head} heads · (${v.d_key} + ${v.d_value}) = ${flop(2 * seen * w)}`]);
  if (v.cached) lines.push(v.cached === KV ? ["cache, 2 L K E a token", `2 · ${L} · ${m.n_head_kv} · ${m.d_head} = ${count(KV)} numbers`]
    : ["cache of a token", `${L} · ${v.cached / L} = ${count(v.cached)} numbers`]);
  if (!S && !m.n_expert && F && v.cached === (m.causal ? KV : 0)) lines.unshift(["projections of a layer", `${D} · ${qkv} + ${m.n_head * m.d_head} · ${D} = ${count(D * qkv + m.n_head * m.d_head * D)} parameters`],
    ["feed forward of a layer", `${v.gated ? 3 : 2} · ${D} · ${F} = ${count((v.gated ? 3 : 2) * D * F)} parameters`]);
  if (lines.length) box.append(h("h3", null, "The formulas, with this model's numbers"), table(null, lines));
};
