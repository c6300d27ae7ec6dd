// Attention: one query by hand, all heads, who sees whom, the scale, shared heads, latents, blocks.

// Columns of one head in a row of several; query heads share the keys of their group.
const part = (row, i, width) => row.subarray(i * width, (i + 1) * width);
const groupOf = (l, head) => Math.floor(head * l.n_head_kv / l.n_head);
const some = (x, n = 6) => "[" + Array.from(x.subarray(0, n), fmt).join(", ") + (x.length > n ? ", …]" : "]");

// What the chosen query of the chosen head reads and gives.
function chosen(l, i = at.token) {
  const head = Math.min(at.head, l.n_head - 1), g = groupOf(l, head), keys = tensor(l.k), values = tensor(l.v);
  return {i, head, s: tensor(l.scores).row(i * l.n_head + head), p: tensor(l.probs).row(i * l.n_head + head),
    q: part(tensor(l.q).row(i), head, l.d_key), k: j => part(keys.row(j), g, l.d_key),
    v: j => values.row(j).subarray(g * l.d_value, g * l.d_value + l.d_value),
    pooled: part(tensor(l.pooled).row(i), head, l.d_value)};
}
const strongest = (p, n) => p.length <= n ? [...p.keys()]
  : [...p.keys()].sort((a, b) => p[b] - p[a]).slice(0, n).sort((a, b) => a - b);

// A product with its first addends.
function addends(x, y, b = 0) {
  const n = Math.min(6, x.length), all = dot(x, y);
  return Array.from(x.subarray(0, n), (v, d) => `${fmt(v)} · ${fmt(y[d])}`).join("  +  ")
    + (n < x.length ? `  +  … (${fmt(all - dot(x.subarray(0, n), y))})` : "") + (b ? `  +  ${fmt(b)}` : "") + `  =  ${fmt(all + b)}`;
}

// Column k of those that p has of y = x Wᵀ + b; y: the model's number. In class i8 it multiplies integers.
const rounded = x => x.map((v, i) => { const s = largest(x.slice(i -= i % 32, i + 32).map(Math.abs)) / 127; return s && Math.round(v / s) * s; });
function byHand(p, row, k, y) {
  const i8 = p.class === "i8", x = tensor(p.x).row(row), w = part(series(p, "w"), k, x.length);
  return h("div.f", null, addends(i8 ? rounded(x) : x, w, p.b && p.b[k]) + `;  in the model ${fmt(y)}`
    + (i8 ? `\n(W is ${p.type}, so x is rounded to 8 bits with a scale for 32 columns; x[0] was ${fmt(x[0])})` : ""));
}

views.query = (box, v) => {
  const l = layerOf(v.layers, box);
  if (!l) return;
  const c = chosen(l), max = largest(c.s), e = Array.from(c.s, x => Math.exp(x - max)), shown = strongest(c.p, 32);
  const W = l.project, O = l.output;
  if (W) box.append(h("h3", null, `x W_Q: one number of q`), h("p", null, `Row ${c.head * W.step} of ${W.weight} makes column 0 of head ${c.head}. `
    + `x is the row of ${word(c.i)} in ${W.x}.${W.y === l.q ? "" : ` The q below is ${l.q}, made of ${W.y}.`}`),
    byHand(W, c.i, c.head, tensor(W.y).row(c.i)[c.head * W.step]), h("h3", null, "q with every key"));
  box.append(h("p", null, `Token ${c.i}, ${word(c.i)}, in ${layerName(l.layer)}, head ${c.head}. Its query is multiplied with the key `
    + `of each token that it sees; the products, scaled by ${fmt(l.scale)}${l.scale && Math.abs(l.scale * Math.sqrt(l.d_key) - 1) < 1e-6
      ? ` = 1/√${l.d_key}` : ""}${l.biased ? ", plus the number of their distance (view 4)" : ""}, become shares α by the softmax; the head's output is the sum of the values by these shares.`),
    h("div.f", null, `q = ${some(c.q)}   largest score ${fmt(max)}   Σ exp = ${fmt(sum(e))}`),
    table(["key", "k", "q · k", "score", "− max", "exp", "α", "", "v"], shown.map(j => ({pick: own() && (() => pick({token: j})),
      on: own() && j === c.i, cells: [`${j} ${key(j)}`, h("span.f", null, some(c.k(j), 3)), dot(c.q, c.k(j)), c.s[j], c.s[j] - max,
        e[j], c.p[j], bar(c.p[j]), h("span.f", null, some(c.v(j), 3))]}))));
  if (shown.length < c.p.length) box.append(h("p", null, `The ${shown.length} largest of ${c.p.length} keys.`));
  box.append(h("p", null, `The shares sum to ${sum(c.p).toFixed(6)}${l.sink ? " (a sink takes the rest)" : ""}. `
    + `Their entropy is ${fmt(entropy(c.p))} bits; equal shares would have ${fmt(Math.log2(c.p.length))}.`));
  const j = shown.reduce((a, b) => c.p[b] > c.p[a] ? b : a);
  box.append(h("h3", null, `The product with ${key(j)}, addend by addend`), h("div.f", null, addends(c.q, c.k(j))));
  const mine = new Float64Array(l.d_value);
  c.p.forEach((p, j) => c.v(j).forEach((x, d) => mine[d] += p * x));
  box.append(h("h3", null, "The sum of values"), table(["Σ α v, by hand", "in the model"],
    [...mine.keys()].slice(0, 6).map(d => [mine[d], c.pooled[d]])),
    h("p", null, `All heads side by side go through W_O: ${l.out ? some(tensor(l.out).row(c.i)) : ""} is added to the stream.${O ? ` The first, by row 0 of ${O.weight}:` : ""}`),
    O ? byHand(O, c.i, 0, tensor(O.y).row(c.i)[0]) : "");
};

// ---- heads

views.heads = (box, v) => {
  const H = largest(layers.map(l => l.n_head)), cell = Math.max(16, Math.min(64, Math.floor(980 / H) - 4));
  box.append(h("p", null, "A square is what one head does: its rows are queries, its columns the keys they look at. Choose one to enlarge it."));
  const grid = h("div", {style: `display:grid;gap:3px;grid-template-columns:${doc.layers ? 6 : 2.2}em repeat(${H},${cell}px);align-items:center`});
  const kept = v.layers.filter(x => x.probs);
  if (kept.length < v.layers.length) box.append(note("The maps of other layers would make this page large: --layer shows those of another, --all keeps every layer."));
  for (const l of kept) {
    const t = tensor(l.probs), N = t.rows / l.n_head, K = t.cols;
    grid.append(h("span.f", null, doc.layers ? layerName(l.layer) : String(l.layer)));
    for (let head = 0; head < H; head++) {
      if (head >= l.n_head) { grid.append(h("span")); continue; }
      const c = heat(N, K, (i, j) => t.row(i * l.n_head + head)[j] || 0, {top: 1, cell: cell / Math.max(N, K),
        say: () => `${layerName(l.layer)}, head ${head}`, pick: () => pick({layer: l.layer, head})});
      if (l.layer === at.layer && head === at.head) c.style.cssText += ";outline:2px solid var(--b);outline-offset:-2px";
      grid.append(c);
    }
  }
  box.append(h("div.wide", {style: "max-height:70vh"}, grid));
  const big = v.layers.find(l => l.layer === at.layer);
  if (!big || !big.probs) return;
  const head = Math.min(at.head, big.n_head - 1), t = tensor(big.probs), N = doc.tokens.length, K = t.cols, row = i => t.row(i * big.n_head + head);
  const bits = Array.from({length: N}, (_, i) => entropy(row(i)));
  const cellBig = Math.max(1, Math.min(26, Math.floor(900 / Math.max(N, K))));
  const names = h("div", {style: `font-size:${Math.min(12, cellBig)}px;line-height:${cellBig}px;text-align:right`},
    cellBig >= 10 ? doc.tokens.map((_, i) => h("div", {style: `height:${cellBig}px`}, word(i).slice(0, 12))) : null);
  box.append(h("h3", null, `Rows of ${layerName(at.layer)}, head ${head}: mean entropy ${fmt(sum(bits) / N)} bits`),
    wide(h("div", {style: "display:flex;gap:6px"}, names, heat(N, K, (i, j) => row(i)[j] || 0, {top: 1, cell: cellBig,
      say: (i, j) => j < row(i).length ? `${word(i)} → ${key(j)}: ${full(row(i)[j])}` : `${word(i)} does not see ${key(j)}`,
      pick: i => pick({token: i})}))));
  if (!big.q || !big.k) return;
  // The neuron view: which columns of q and k make the scores.
  const l = big, q = part(tensor(l.q).row(at.token), head, l.d_key), keys = tensor(l.k), g = groupOf(l, head);
  const seen = strongest(row(at.token), 24), products = seen.map(j => part(keys.row(j), g, l.d_key).map((x, d) => x * q[d]));
  box.append(h("h3", null, `q ⊙ k of ${word(at.token)}: rows are keys, columns the ${l.d_key} columns of the head`),
    wide(h("div", {style: "display:flex;gap:6px"}, h("div", {style: "font-size:11px;line-height:14px;text-align:right"},
      seen.map(j => h("div", {style: "height:14px"}, key(j).slice(0, 12)))),
      heat(seen.length, l.d_key, (r, d) => products[r][d], {signed: true, cell: 14,
        say: (r, d) => `${key(seen[r])}, column ${d}: ${fmt(q[d])} · ${fmt(part(keys.row(seen[r]), g, l.d_key)[d])} = ${fmt(products[r][d])}`}))));
};

// ---- mask

views.mask = (box, v) => {
  const l = layerOf(v.layers, box);
  if (!l) return;
  const N = doc.tokens.length, sees = (i, j) => !l.causal || (j <= i && (!l.window || j > i - l.window));
  const kinds = [...new Set(v.windows)];
  box.append(h("p", null, (l.causal ? "Causal: a token sees itself and what is before it." : own() ? "Every token sees every token." : "Every token sees every token of the source.")
    + (l.window ? ` A window: at most ${l.window} keys, itself included.` : "")
    + (kinds.length > 1 ? ` Layers with a window: ${v.windows.map((w, i) => w ? i : null).filter(i => i !== null).join(", ")}.` : "")),
    wide(heat(N, doc.keys.length, (i, j) => sees(i, j) ? 1 : 0, {top: 1, say: (i, j) => `${word(i)} ${sees(i, j) ? "sees" : "does not see"} ${key(j)}`,
      pick: i => pick({token: i})})));
  if (!l.causal) return;
  const i = at.token < N - 1 ? at.token : Math.floor(N / 2), c = chosen(l, i), capped = x => l.cap ? l.cap * Math.tanh(x / l.cap) : x,
    all = Array.from({length: N}, (_, j) => sees(i, j) ? c.s[j] : capped(dot(c.q, c.k(j)) * l.scale));
  const added = all.map((x, j) => Math.fround(x + (sees(c.i, j) ? 0 : -1e9))), max = largest(added);
  const e = added.map(x => Math.exp(x - max)), total = sum(e) / sum(c.p), hidden = [...added.keys()].filter(j => !sees(c.i, j)).slice(0, 4);
  const shown = [...strongest(c.p, 4), ...hidden];
  box.append(h("h3", null, `Adding −10⁹ against leaving out, at token ${i}, ${word(i)}`), table(["key", "score", "+ mask", "softmax of that", "by index"],
    shown.map(j => ({on: j === c.i, cells: [`${j} ${word(j)}`, all[j], added[j], e[j] / total, c.p[j] || 0]}))),
    h("p", null, "−10⁹ swallows the score in 32 bits, and its exp is 0: the shares are the same. weft leaves the keys "
      + "out by index, so that they are never computed, and a row without keys is 0 instead of an average."));
};

// ---- why the root of d

views.root = (box, v) => {
  const l = layerOf(v.layers, box);
  if (!l) return;
  const c = chosen(l), N = doc.tokens.length, raw = [], q = tensor(l.q), keys = tensor(l.k), g = groupOf(l, c.head);
  for (let i = 0; i < N; i++) for (let j = 0; j <= (l.causal ? i : keys.rows - 1); j++)
    raw.push(dot(part(q.row(i), c.head, l.d_key), part(keys.row(j), g, l.d_key)));
  const spread = x => { const m = sum(x) / x.length; return sum(x.map(a => (a - m) ** 2)) / x.length; };
  const soft = x => { const m = largest(x), e = x.map(a => Math.exp(a - m)), t = sum(e); return e.map(a => a / t); };
  const scaled = raw.map(x => x * l.scale);
  const mine = Array.from(c.p, (_, j) => dot(c.q, c.k(j)));
  box.append(h("p", null, `If the ${l.d_key} columns of q and k were independent with variance 1, q · k would have variance ${l.d_key}, `
    + `and the softmax would give nearly everything to one key. Times ${fmt(l.scale)} the variance is divided by ${fmt(1 / l.scale ** 2)}.`),
    table(["", "variance", "entropy of the row, bits", "largest share"], [
      ["q · k", spread(raw), entropy(soft(mine)), largest(soft(mine))],
      [`times ${fmt(l.scale)}`, spread(scaled), entropy(c.p), largest(c.p)]]),
    h("h3", null, `All ${raw.length} products of ${layerName(l.layer)}, head ${c.head}`),
    histogram(raw, 24, {xlabel: "q · k"}));
};

// ---- shared heads

views.shared = (box, v) => {
  const E = v.d_head, pair = E + v.d_value, L = doc.model.n_layer, H = v.n_head;
  box.append(h("p", null, v.latent ? `All ${H} query heads read the same cached row of a latent and a rotary key.`
    : v.n_head_kv === H ? `Every query head has keys of its own (multi-head attention).`
    : `Query head h reads key head ⌊h / ${H / v.n_head_kv}⌋: ${H} query heads share ${v.n_head_kv}. Nothing is repeated in memory.`));
  if (!v.latent) box.append(wide(heat(v.n_head_kv, H, (k, q) => groupOf(v, q) === k ? 1 : 0, {top: 1, cell: 14,
    say: (k, q) => groupOf(v, q) === k ? `query head ${q} reads key head ${k}` : ""})));
  // A number of groups between one and all: the model's, or some quarter of its heads.
  const shared = v.n_head_kv > 1 && v.n_head_kv < H ? v.n_head_kv : [...Array(H).keys()].find(n => n > 1 && n >= Math.floor(H / 4) && H % n === 0);
  const kinds = [["MHA, each head its own", H * pair * L], ...(shared ? [[`GQA, ${shared} key heads`, shared * pair * L]] : []), ["MQA, one for all", pair * L],
    [v.latent ? "MLA, this model" : "MLA, a latent of 4 d and d/2 rotary", v.latent ? v.cached : 4.5 * E * L]];
  box.append(h("h3", null, "Cached for a token, all layers"), table(["", "numbers", "f16", "for this model's context"],
    kinds.map(([name, n]) => ({on: n === v.cached, cells: [name, h("span.n", null, count(n)), h("span.n", null, bytes(2 * n)),
      h("span.n", null, bytes(2 * n * doc.model.n_ctx))]}))),
    note(v.cached ? kinds.some(k => k[1] === v.cached) ? "The marked row is this model's cache." : "" : "This model keeps no cache, because it sees the whole text at once; a decoder of its shape would."));
};

// ---- latents

views.latent = (box, v) => {
  const l = layerOf(v.layers, box);
  if (!l) return;
  const i = at.token, H = l.n_head, head = Math.min(at.head, H - 1), t = n => tensor(l[n]), S = l.n_rot;
  const c = t("attn_kv_a_norm"), k = t("attn_k.join"), q = t("q"), E = k.cols / H, R = c.cols;
  const qh = part(q.row(i), head, E), ql = part(t("attn_q.latent").row(i), head, R), s = t("attention.scores").row(i * H + head);
  box.append(h("p", null, `A token is cached as a latent c of ${R} numbers and one rotary key of ${S}; keys and values of all ${H} heads are `
    + `made of c. Inference never makes them: W_UK is multiplied into the query instead, which then meets c itself.`),
    table(null, [["c", h("span.f", null, some(c.row(i)))], ["kᴿ, turned", h("span.f", null, some(t("k_rope.rope").row(i)))],
      ["kᶜ = W_UK c", h("span.f", null, some(part(t("attn_k").row(i), head, E - S)))],
      ["vᶜ = W_UV c", h("span.f", null, some(part(t("attn_v").row(i), head, t("attn_v").cols / H)))],
      ["qᶜ", h("span.f", null, some(qh.subarray(0, E - S)))], ["qᴿ, turned", h("span.f", null, some(qh.subarray(E - S)))],
      ["W_UKᵀ qᶜ", h("span.f", null, some(ql))]]),
    h("h3", null, "Naive against absorbed"), table(["key", "qᶜ·kᶜ + qᴿ·kᴿ", "(W_UKᵀ qᶜ)·c + qᴿ·kᴿ", "scaled, in the model"],
      strongest(t("attention.probs") ? t("attention.probs").row(i * H + head) : s, 12).map(j => {
        const naive = dot(qh, part(k.row(j), head, E)), rot = dot(qh.subarray(E - S), t("k_rope.rope").row(j));
        return {on: j === i, cells: [`${j} ${word(j)}`, naive, dot(ql, c.row(j)) + rot, s[j]]}; })),
    h("p", null, `The cache holds ${v.cached} numbers a token, ${R + S} a layer; as keys and values it would hold ${count((E + t("attn_v").cols / H) * H)} a layer.`));
};

// ---- blocks

const flash = {block: 0};
views.flash = (box, v) => {
  const l = layerOf(v.layers, box);
  if (!l) return;
  const c = chosen(l), o = new Float64Array(l.d_value), rows = [], block = flash.block || Math.max(1, Math.min(4, Math.ceil(c.s.length / 2)));
  let m = -Infinity, sumOf = 0;
  for (let j = 0; j < c.s.length; j += block) {
    const s = Array.from(c.s.subarray(j, j + block)), old = m;
    m = Math.max(m, largest(s));
    const keep = isFinite(old) ? Math.exp(old - m) : 0;
    sumOf *= keep;
    o.forEach((x, d) => o[d] = x * keep);
    s.forEach((x, k) => { const e = Math.exp(x - m); if (!(e > 0)) return;
      sumOf += e; c.v(j + k).forEach((y, d) => o[d] += e * y); });
    rows.push([`${j} to ${Math.min(j + block, c.s.length) - 1}`, largest(s), keep, m, sumOf, o[0] / sumOf]);
  }
  box.append(h("p", null, "The softmax needs no whole row of scores: for each block of keys, keep the largest score m so far, the sum ℓ of "
    + "exp(s − m), and the sum o of values; if m grows, what was summed is scaled by exp(m before − m). So no n × n matrix is ever stored. "
    + `weft's blocks have ${v.block} keys.`),
    slider("keys in a block", 1, Math.max(2, Math.min(16, c.s.length)), 1, block, n => { flash.block = n; box.replaceChildren(); views.flash(box, v); }),
    table(["keys", "largest", "scaled by", "m", "ℓ", "o₀ / ℓ"], rows),
    h("p", null, `In the model: ${fmt(c.pooled[0])}; the largest difference of all ${l.d_value} columns is `
      + `${fmt(largest(Array.from(o, (x, d) => Math.abs(x / sumOf - c.pooled[d]))))}${l.sink ? " (a sink adds to ℓ)" : ""}.`));
};
