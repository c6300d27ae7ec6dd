// A picture: its patches, what the model makes of one, where a row looks, and the classes.

// The picture with light on each patch: shade(i) from 0 to 1. Columns of a patch are its channels, each row by row.
function picture(v, shade, size, mark) {
  const P = v.patch, across = Math.floor(v.width / P), down = Math.floor(v.height / P), W = across * P, t = tensor(v.features), scale = Math.max(1, Math.round(size / W));
  const c = h("canvas", {width: W, height: down * P, style: `width:${W * scale}px;height:${down * P * scale}px`}), paint = c.getContext("2d"), image = paint.createImageData(W, down * P);
  let low = Infinity, high = -Infinity;
  for (let i = v.n_lead; i < t.rows; i++) for (const x of t.row(i)) { low = Math.min(low, x); high = Math.max(high, x); }
  for (let y = 0; y < down * P; y++) for (let x = 0; x < W; x++) {
    const i = Math.floor(y / P) * across + Math.floor(x / P), row = t.row(i + v.n_lead), a = 4 * (y * W + x), edge = i + v.n_lead === mark && (x % P === 0 || y % P === 0 || x % P === P - 1 || y % P === P - 1);
    for (let k = 0; k < 3; k++) image.data[a + k] = edge ? [217, 96, 26][k] : 255 * shade(i) * (row[(v.channels > 1 ? k : 0) * P * P + y % P * P + x % P] - low) / (high - low || 1);
    image.data[a + 3] = 255;
  }
  paint.putImageData(image, 0, 0);
  c.addEventListener("click", e => { const r = c.getBoundingClientRect();
    pick({token: v.n_lead + Math.floor((e.clientY - r.top) / scale / P) * across + Math.floor((e.clientX - r.left) / scale / P)}); });
  return c;
}

views.picture = (box, v) => {
  const i = at.token, lead = i < v.n_lead, n = target.length - v.n_lead, P = v.patch, [X, Y, E, S] = ["features", "patches", "positions", "stream"].map(x => tensor(v[x]));
  box.append(note(`${v.height} × ${v.width} pixels, ${v.channels} ${v.channels > 1 ? "channels" : "channel"}, make ${n} patches of ${P} × ${P}: rows of ${X.cols} numbers, of which a matrix makes ${Y.cols}. `
    + `Before them ${v.n_lead > 1 ? "are learned rows" : "is a learned row"}; each row gets a learned position. Click a patch.`),
    h("div.row", null, wide(picture(v, () => 1, 280, i)), h("div", null, h("h3", null, lead ? `${word(i)}: a learned row` : `Patch ${word(i)}, row ${i}`),
      lead ? "" : h("div.f", null, `x = [${few(X.row(i))}]`), lead || !v.project ? "" : [note(`Row 0 of ${v.project.weight} makes its first number:`), byHand(v.project, i, 0, Y.row(i)[0])],
      table(["", "first numbers"], [[lead ? "learned" : "W x + b", h("span.f", null, few((lead ? tensor(v.class) : Y).row(i), 6))], ["position", h("span.f", null, few(E.row(i), 6))],
        ["sum", h("span.f", null, few(S.row(i), 6))]]))));
  const m = v.maps[at.layer], p = m.probs && tensor(m.probs), row = head => p.row(i * m.n_head + head);
  const light = x => { const top = largest(x.subarray(v.n_lead)); return j => .12 + .88 * x[j + v.n_lead] / top; };
  if (p) box.append(h("h3", null, `Where ${word(i)} looks in layer ${at.layer}, head ${at.head}, and in all heads: light is attention`),
    h("div.row", null, wide(picture(v, light(row(at.head)), 280, -1)), wide(h("div", {style: "display:flex;flex-wrap:wrap;gap:6px"}, Array.from({length: m.n_head}, (_, k) =>
      h("div", null, h("button" + (k === at.head ? ".on" : ""), {onclick: () => pick({head: k})}, `head ${k}`), picture(v, light(row(k)), 110, -1)))))),
    note(`${fmt(100 * sum(row(at.head).subarray(v.n_lead)))} % of this head's attention is on patches.`));
  if (v.classes) box.append(h("h3", null, `Classes, from the last state of ${spelled(target, 0)}`), table(["class", "logit", "p", ""], v.classes.map(c => [c.text, c.z, c.p, bar(c.p)])));
};
