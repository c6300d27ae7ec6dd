// From text to what enters the first block: tokens, embeddings, positions.

const few = (x, n = 8) => Array.from(x.subarray(0, n), fmt).join("  ") + (x.length > n ? "  …" : "");
const scroll = x => h("div.scroll", null, x);
const note = text => h("p", null, text);
const cosine = (x, y) => dot(x, y) / (norm(x) * norm(y) || 1);

// Every pair of rows as a square; say(i, j) names it.
const cosines = (t, say) => wide(heat(t.rows, t.rows, (i, j) => cosine(t.row(i), t.row(j)), {signed: true, top: 1,
  cell: Math.max(3, Math.min(18, Math.floor(420 / t.rows))), say: (i, j) => `${say(i)}, ${say(j)}: ${fmt(cosine(t.row(i), t.row(j)))}`,
  pick: i => pick({token: i})}));

views.tokens = (box, v) => {
  const n = doc.tokens.length, T = v.tokenizer;
  box.append(note("A model reads numbers. " + (T ? `The tokenizer (${T.model}, ${T.n_vocab} entries) cuts the text into pieces that its `
    + "vocabulary has, and the number of a piece is its place in that vocabulary." + (T.byte_level ? " Its smallest pieces are bytes, so any text can be cut." : "")
    : "Here the numbers were given, without a tokenizer.")));
  box.append(h("div.pieces", null, doc.tokens.map((t, i) => h("button" + (i === at.token ? ".on" : ""), {onclick: () => pick({token: i})},
    letters(t.text), h("small", null, String(t.id))))));
  if (doc.text !== undefined) {
    const size = new TextEncoder().encode(doc.text).length;
    box.append(h("div.f", null, `${[...doc.text].length} characters, ${size} bytes → ${n} tokens: ${fmt(size / n)} bytes for each.`));
  }
  if (!T) return;
  box.append(scroll(table(["", "piece", "in the vocabulary", "id", "bytes of the text", "in hexadecimal"], v.pieces.map((p, i) => ({
    on: i === at.token, pick: () => pick({token: i}), cells: [h("span", null, String(i)), word(i), p.spelled === undefined ? "–" : p.spelled,
      h("span", null, String(doc.tokens[i].id)), !v.spans ? "–" : p.from === p.to ? (p.special ? "none: added" : "none") : `${p.from} to ${p.to - 1}`,
      v.spans ? p.bytes.replace(/../g, "$& ") : "–"]})))),
    note("Notice blanks: in most vocabularies they belong to the word that follows, so a word has one number after a blank and another at the start."));
};

// What a step before the first block is called in a formula.
function stepLabel(s, i) {
  if (s.op === "embed") return s.name.includes("position") ? `PE[${i}]` : s.name.includes("type") ? "type[0]" : `E[${doc.tokens[i].id}]`;
  return s.op === "residual" ? "sum" : s.op === "scale" ? "scaled" : s.op.endsWith("norm") ? "normalised" : s.op;
}

views.embeddings = (box, v) => {
  const i = at.token, E = tensor(v.steps[0].tensor), id = doc.tokens[i].id, w = v.table;
  if (w) box.append(note(`The id selects one row of the table E, ${w.name}: ${w.rows} rows of ${w.cols} numbers, stored as ${w.type}. `
    + `Token ${i}, ${word(i)}, has id ${id}, so it becomes row ${id}. These numbers were learned.`));
  const added = v.steps.filter(s => s.op === "embed").map(s => stepLabel(s, i));
  box.append(h("div.f", null, `X[${i}] = ${added.join(" + ")}${added.length === 1 ? "   nothing is added" : ""}`),
    table(["", "tensor", "first numbers", "length"], v.steps.map(s => { const t = tensor(s.tensor), x = t && t.row(i);
      return {on: s === v.steps[v.steps.length - 1], cells: [stepLabel(s, i), s.name, x ? few(x) : "–", x ? norm(x) : "–"]}; })));
  const near = v.nearest && v.nearest.find(x => x.id === id);
  const left = h("div", null, h("h3", null, `Nearest to ${word(i)} in the table`));
  if (near) left.append(table(["cosine", "token", "id", ""], near.tokens.map(t => [t.cosine, letters(t.text), h("span", null, String(t.id)), bar(t.cosine)])),
    note(`cos(a, b) = a · b / (|a| |b|), over all ${w.rows} rows. In a trained model, neighbours are other forms of the word, and words used like it.`));
  else left.append(note("Only the first 32 different tokens of a text are compared."));
  box.append(h("div.row", null, left, h("div", null, h("h3", null, "The text's tokens with each other"), cosines(E, word),
    note("Blue: the same direction; orange: the opposite one. Equal tokens have cosine 1, wherever they stand: order is not in E."))));
};

const chosenColumn = {at: 0};
views.positions = (box, v) => {
  const all = typeof v.numbers === "string" ? v.numbers = floats(v.numbers) : v.numbers, n = v.columns.length, T = v.positions.length;
  const w = v.table, at_ = (i, k) => all[i * n + k], text = tensor(v.text), R = v.sines.residual, sines = R[0] < 1e-3;
  box.append(note(`Attention does not see order. So a row for the position is added to each token: ${w.name}, ${w.rows} rows of ${w.cols} numbers`
    + (sines ? ", made of sines and cosines." : ", learned like any other weight.") + (T < w.rows || n < w.cols ? ` Drawn: ${T} rows and ${n} columns, evenly spread.` : "")));
  const cell = Math.max(2, Math.min(10, Math.floor(420 / Math.max(n, T)))), curves = h("div");
  const draw = k => { chosenColumn.at = k; curves.replaceChildren(plot([{x: v.positions, y: v.positions.map((_, i) => at_(i, k)), label: `column ${v.columns[k]}`}],
    {xlabel: "position", height: 170}), slider("column", 0, n - 1, 1, k, draw)); };
  draw(Math.min(chosenColumn.at, n - 1));
  box.append(h("div.row", null, h("div", null, h("h3", null, "The table: a row for each position"), wide(heat(T, n, at_, {signed: true, cell,
    say: (i, k) => `position ${v.positions[i]}, column ${v.columns[k]}: ${full(at_(i, k))}`, pick: (_, k) => draw(k)}))),
    h("div", null, h("h3", null, "One column"), curves)));
  if (text) box.append(h("h3", null, "Cosines of this text's positions"), cosines(text, i => "position " + i),
    note("Neighbours alike and far positions different: bands along the diagonal. A table without bands knows no distances."));
  box.append(h("h3", null, "Is position i + k a rotation of position i?"),
    h("div.f", null, "PE(i + k) = R PE(i),  R turns each pair (sin, cos) of frequency f by k f\n"
      + `k = 1, 2, 4, 8:  |PE(i + k) − R PE(i)| / |PE(i + k)| = ${R.map(fmt).join(", ")}`),
    note(sines ? `Yes: these are sines (${v.sines.layout}), and one matrix moves every position by k.`
      : "No: a learned table does not keep this law; 0 would be sines, 1.4 is noise."));
};
