// Positions: a table that is added to the embeddings, or numbers that are added to scores.

const column = {at: 0};
views.positions = (box, v) => {
  if (v.numbers) drawTable(box, v);
  if (v.relative) drawRelative(box, v.relative);
};

function drawTable(box, v) {
  const all = series(v, "numbers"), n = v.columns.length, T = v.positions.length, w = v.table, x = (i, k) => all[i * n + k];
  const R = v.sines.residual, sines = R[0] < 1e-3, curve = h("div"), draw = k => { column.at = k;
    curve.replaceChildren(plot([{x: v.positions, y: v.positions.map((_, i) => x(i, k))}], {xlabel: "position", height: 170}), slider("column", 0, n - 1, 1, k, draw)); };
  draw(Math.min(column.at, n - 1));
  box.append(note(`Attention does not see order, so a row for its position is added to each token: ${w.name}, ${w.rows} rows of ${w.cols} `
    + (sines ? "sines and cosines." : "learned numbers.") + (T < w.rows || n < w.cols ? ` Drawn: ${T} rows, ${n} columns, evenly spread.` : "")),
    h("div.row", null, h("div", null, h("h3", null, "The table: a row for each position"), wide(heat(T, n, x, {signed: true,
      cell: Math.max(3, Math.min(10, Math.floor(420 / Math.max(n, T)))), pick: (_, k) => draw(k),
      say: (i, k) => `position ${v.positions[i]}, column ${v.columns[k]}: ${full(x(i, k))}`}))), h("div", null, h("h3", null, "One column"), curve)));
  if (v.text) box.append(h("h3", null, "Cosines of this text's positions"), cosines(tensor(v.text), i => "position " + i),
    note("Where bands run along the diagonal, neighbours are alike: the table knows distances."));
  box.append(h("h3", null, "Is position i + k a rotation of position i?"),
    h("div.f", null, "PE(i + k) = R PE(i),  R rotates each pair (sin, cos) of frequency f by k f\n"
      + `|PE(i + k) − R PE(i)| / |PE(i + k)| = ${R.map(fmt).join(", ")}   for k = 1, 2, 4, 8`),
    note(sines ? `Yes: these are sines (${v.sines.layout}), and one matrix moves every position by k.`
      : "No, this is a learned table. 0 would be sines, about 1.4 is noise."));
}

// T5: a number for each distance of key and query, in each head.
function drawRelative(box, r) {
  const all = series(r, "numbers"), H = r.n_head, n = all.length / H, head = Math.min(at.head, H - 1), xs = Array.from({length: n}, (_, i) => i + r.first), last = r.first + n - 1;
  const ends = xs.filter((x, i) => i === 0 || r.bucket[i] !== r.bucket[i - 1]), of = x => all[(x - r.first) * H + head];
  box.append(note(`Attention does not see order, so each score gets a learned number for the distance of key j and query i: ${r.name}, ${r.n_bucket} buckets for ${H} heads. `
    + `Near distances have a bucket of their own, far ones share; from ${r.max_distance} on all share the last.`), h("div.f", null, "score = scale · q · k + b[bucket(j − i), head]"),
    h("div.row", null, h("div", null, h("h3", null, `Head ${head}: b by j − i`), plot([{x: xs, y: xs.map(of)}], {xlabel: "j − i"})),
      h("div", null, h("h3", null, "Buckets"), scroll(table(["bucket", "from j − i", "to", "b"], ends.map((x, k) =>
        [plain(r.bucket[x - r.first]), plain(String(x).replace("-", "−")), plain(String(k + 1 < ends.length ? ends[k + 1] - 1 : last).replace("-", "−")), of(x)]))))),
    h("h3", null, "Heads × distances"), wide(heat(H, n, (k, i) => all[i * H + k], {signed: true, cell: Math.max(3, Math.min(14, Math.floor(900 / n))), pick: k => pick({head: k}),
      say: (k, i) => `head ${k}, j − i = ${xs[i]}: ${full(all[i * H + k])}`})));
}
