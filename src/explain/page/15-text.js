// From text to what enters the first block: tokens, embeddings.

const few = (x, n = 8) => Array.from(x.subarray(0, n), fmt).join("  ") + (x.length > n ? "  …" : "");
const scroll = x => h("div.scroll", null, x);
const note = text => h("p", null, text);
const plain = x => h("span", null, String(x));
const cosine = (x, y) => dot(x, y) / (norm(x) * norm(y) || 1);

// Every pair of the first 128 rows as a square; name(i) is a row's.
function cosines(t, name) {
  const n = Math.min(t.rows, 128), x = (i, j) => cosine(t.row(i), t.row(j));
  return wide(heat(n, n, x, {signed: true, top: 1, cell: Math.max(3, Math.min(18, Math.floor(420 / n))), pick: i => pick({token: i}),
    say: (i, j) => `${name(i)}, ${name(j)}: ${fmt(x(i, j))}`}));
}

views.tokens = (box, v) => {
  const T = v.tokenizer, n = doc.tokens.length;
  box.append(note("A model reads numbers. " + (T ? `The tokenizer (${T.model}) cuts the text into pieces of a vocabulary of ${T.n_vocab}; `
    + "the number of a piece is its place there." + (T.byte_level ? " The smallest pieces are bytes, so any text can be cut." : "")
    : "Here they were given, without a tokenizer.")),
    h("div.pieces", null, doc.tokens.map((t, i) => h("button" + (i === at.token ? ".on" : ""), {onclick: () => pick({token: i})},
      letters(t.text), h("small", null, t.id)))));
  if (!T) return;
  const text = v.text || doc.text;
  if (text !== undefined) {
    const size = new TextEncoder().encode(text).length;
    box.append(h("div.f", null, `${[...text].length} characters, ${size} bytes → ${n} tokens: ${fmt(size / n)} bytes for each`));
  }
  box.append(scroll(table(["", "piece", "in the vocabulary", "id", "bytes of the text", "in hexadecimal"], v.pieces.map((p, i) => ({
    on: i === at.token, pick: () => pick({token: i}), cells: [plain(i), word(i), p.spelled || "–", plain(doc.tokens[i].id),
      !v.spans ? "–" : p.from === p.to ? "none" : `${p.from} to ${p.to - 1}`, v.spans ? p.bytes.replace(/../g, "$& ") : "–"]})))),
    note("Notice blanks (·): mostly they belong to the word that follows, which has another number without one."));
  if (v.steps) box.append(h("h3", null, "Step by step"), scroll(steps(v.steps)));
};

// A word is a line: its symbols, then what each merge makes of them; or the best path; or the matches.
function steps(list) {
  const lines = [], cut = s => s.pieces.map(p => letters(p.text || "")).join(" | ");
  for (const s of list)
    if (s.kind === "normalized") lines.push(["normalised", letters(s.text), ""]);
    else if (s.kind === "word" || s.kind === "added") lines.push([s.kind, letters(s.text), ""]);
    else if (lines.length) {
      const line = lines[lines.length - 1], extra = s.kind === "merge" ? ` (merge ${s.rank})` : s.kind === "path" ? ` (log p ${fmt(s.score)})` : "";
      if (s.kind !== "pieces" && s.pieces.length) line[2] += (line[2] ? "  →  " : "") + cut(s) + extra;
      else if (s.kind === "pieces") line[2] += `  ⇒  ${s.pieces.map(p => p.id).join(", ")}`;
    }
  return table(["", "", ""], lines);
}

// What a step before the first block is called in a formula.
const stepLabel = (s, i) => s.op === "residual" ? "sum" : s.name === "patch_embd" ? "W x + b" : s.op !== "embed" ? s.op
  : s.name.includes("position") ? `PE[${i}]` : s.name.includes("type") ? "type[0]" : `E[${doc.tokens[i].id}]`;

views.embeddings = (box, v) => {
  const i = at.token, id = doc.tokens[i].id, w = v.table, added = v.steps.filter(s => s.op === "embed" || s.op === "linear").map(s => stepLabel(s, i));
  if (w) box.append(note(`The id selects a row of the table E, ${w.name}: ${w.rows} rows of ${w.cols} learned numbers, stored as ${w.type}. `
    + `Token ${i} (${word(i)}) has id ${id}, so it becomes row ${id}.`));
  box.append(h("div.f", null, `X[${i}] = ${added.join(" + ")}${added.length > 1 ? "" : "   (nothing is added)"}`),
    table(["", "tensor", "first numbers", "length"], v.steps.map((s, k) => { const x = tensor(s.tensor).row(i);
      return {on: k === v.steps.length - 1, cells: [stepLabel(s, i), s.name, few(x), norm(x)]}; })));
  if (!w) return;
  const near = (v.nearest || []).find(x => x.id === id), left = h("div", null, h("h3", null, `Nearest to ${word(i)} in the table`));
  left.append(...(near ? [table(["cosine", "token", "id", ""], near.tokens.map(t => [t.cosine, letters(t.text), plain(t.id), bar(t.cosine)])),
    note(`a · b / (|a| |b|), over all ${w.rows} rows. In a trained model: other forms of the word, or words like it.`)]
    : [note("Only the first 32 different tokens of a text are compared.")]));
  box.append(h("div.row", null, left, h("div", null, h("h3", null, "The text's tokens with each other"), cosines(tensor(v.steps[0].tensor), word),
    note("Blue: the same direction; orange: the opposite. Equal tokens have cosine 1: order is not in E."))));
};
