// The model as a whole.

const open = {name: null};

function firstNumbers(t) {
  const row = t.row(Math.max(t.first, Math.min(at.token, t.rows - 1)));
  return Array.from(row.subarray(0, 8), fmt).join("  ") + (row.length > 8 ? "  …" : "");
}

function opened(op) {
  const t = op.tensor && tensor(op.tensor);
  const box = h("div", null, h("div.f", null, `${op.op}:  ${op.formula}\nreads  ${op.inputs.join(", ")}\n`
    + `mean ${fmt(op.mean)}, from ${fmt(op.min)} to ${fmt(op.max)}`));
  if (!t) { box.append(h("p", null, "Its numbers are not on this page.")); return box; }
  if (!t.heads && t.rows === doc.tokens.length)
    box.append(h("div.f", null, `row of ${word(at.token)}:  ${firstNumbers(t)}`));
  if (!t.heads) box.append(wide(heat(t.rows - t.first, t.cols, (i, k) => t.row(i + t.first)[k],
    {signed: true, cell: Math.max(1, Math.min(10, Math.floor(1000 / t.cols)))})));
  return box;
}

views.pipeline = (box, v) => {
  box.append(h("p", null, `Every op of one forward, in the order of computation; of the ${doc.model.n_layer > 1 ? "layers, only the one chosen above" : "one layer"}. A row of a tensor is a token. `
    + "Click an op to see its numbers."));
  const shown = v.ops.filter(o => o.layer < 0 || o.layer === at.block);
  const total = sum(v.ops.map(o => o.flops));
  const rows = shown.map(o => ({on: o.name === open.name, pick: () => { open.name = o.name === open.name ? null : o.name;
      box.replaceChildren(); views.pipeline(box, v); },
    cells: [o.name, o.op, `${o.rows} × ${o.cols}`, h("span", null, o.parameters ? count(o.parameters) : ""),
      h("span", null, count(Math.round(o.flops))), bar(o.flops / total * 5)]}));
  box.append(table(["tensor", "op", "shape", "parameters", "flops", ""], rows));
  const one = v.ops.find(o => o.name === open.name);
  if (one) box.append(opened(one));
};
