// Attention: one query by hand, and the heads of all layers.

// Columns of a head in a row of several; query heads share the head of a group of keys.
const part = (row, i, width) => row.subarray(i * width, (i + 1) * width);

views.query = (box, v) => {
  const l = layerOf(v.layers, box);
  if (!l) return;
  const [q, k, val, scores, probs, mixed, out] = ["q", "k", "v", "scores", "probs", "mixed", "out"].map(n => tensor(l[n]));
  const i = at.token, head = at.head, kv = Math.floor(head * l.n_head_kv / l.n_head);
  const s = scores.row(i * l.n_head + head), p = probs.row(i * l.n_head + head), Q = part(q.row(i), head, l.d_key);
  const max = largest(s), e = Array.from(s, x => Math.exp(x - max)), total = sum(e);
  box.append(h("p", null, `Token ${i}, ${word(i)}, in layer ${l.layer}, head ${head}: its query meets the key of every token that it sees.`),
    h("div.f", null, `q = [${Array.from(Q.subarray(0, 6), fmt).join(", ")}${Q.length > 6 ? ", …" : ""}]   `
      + `scale = ${fmt(l.scale)}   max = ${fmt(max)}   Σ exp = ${fmt(total)}`));
  const shown = p.length > 40 ? [...p.keys()].sort((a, b) => p[b] - p[a]).slice(0, 40).sort((a, b) => a - b) : [...p.keys()];
  box.append(table(["key", "q · k", "scaled", "− max", "exp", "α", ""], shown.map(j => ({pick: () => pick({token: j}), on: j === i,
    cells: [`${j} ${word(j)}`, dot(Q, part(k.row(j), kv, l.d_key)), s[j], s[j] - max, e[j], p[j], bar(p[j])]}))));
  if (shown.length < p.length) box.append(h("p", null, `The ${shown.length} largest of ${p.length}.`));
  box.append(h("p", null, `The row sums to ${sum(p).toFixed(7)}; its entropy is ${fmt(entropy(p))} bits of ${fmt(Math.log2(p.length))}.`));
};

views.heads = (box, v) => {
  const N = doc.tokens.length, H = doc.model.n_head, cell = Math.max(18, Math.min(64, Math.floor(1000 / H) - 4));
  box.append(h("p", null, "A square is what one head does: rows are queries, columns the keys they look at. Click one to enlarge it."));
  const big = v.layers.find(l => l.layer === at.layer);
  const grid = h("div", {style: `display:grid;gap:4px;grid-template-columns:2.6em repeat(${H},${cell}px);align-items:center`});
  for (const l of v.layers) {
    if (!l.probs) continue;
    const t = tensor(l.probs);
    grid.append(h("span.f", null, String(l.layer)));
    for (let head = 0; head < l.n_head; head++) {
      const c = heat(N, N, (i, j) => t.row(i * l.n_head + head)[j] || 0, {top: 1, cell: cell / N,
        say: () => `layer ${l.layer}, head ${head}`, pick: () => pick({layer: l.layer, head})});
      if (l.layer === at.layer && head === at.head) c.style.outline = "2px solid " + color("b");
      grid.append(c);
    }
  }
  box.append(wide(grid));
  if (!big || !big.probs) return;
  const t = tensor(big.probs), row = i => t.row(i * big.n_head + at.head);
  box.append(h("h3", null, `Layer ${at.layer}, head ${at.head}`), wide(heat(N, N, (i, j) => row(i)[j] || 0, {top: 1,
    say: (i, j) => j < row(i).length ? `${word(i)} → ${word(j)}: ${full(row(i)[j])}` : `${word(i)} does not see ${word(j)}`,
    pick: i => pick({token: i})})));
};
