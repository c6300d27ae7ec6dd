// Kernel regression: the curve, the kernels, the weights of every point for every other, and the width.

const kernelOf = {gaussian: u => Math.exp(-u * u / 2), boxcar: u => +(u * u <= 1), epanechnikov: u => Math.max(0, 1 - u * u), constant: () => 1};

views.kernels = (box, v) => {
  const x = series(v, "x"), y = series(v, "y"), places = series(v, "at"), n = x.length, range = x[n - 1] - x[0];
  const look = {kernel: 0, width: 0, point: n >> 1}, pick = h("p"), main = h("div"), text = s => h("p", null, s);
  const drag = slider("log₂ w / range", -8, 2, 0.05, 0, t => draw({width: 2 ** t * range}));
  function draw(change) {
    Object.assign(look, change);
    const k = v.kernels[look.kernel], K = kernelOf[k.name], w = look.width || k.width, found = !look.width, i = look.point, flat = k.name === "constant";
    const near = q => { const p = Array.from(x, t => K((q - t) / w)), all = sum(p) || 1; return p.map(t => t / all); };
    const A = found ? series(k, "weights") : Float32Array.from(Array.from(x, near).flat()), alpha = (r, j) => A[r * n + j];
    const steps = k.path && Array.from(series(k, "path").keys());
    pick.replaceChildren(...v.kernels.map((o, to) => h("button" + (o === k ? ".on" : ""), {onclick: () => draw({kernel: to, width: 0})}, o.name)),
      flat ? "" : ` w = ${fmt(w)} `, flat ? "" : found ? (k.learns ? "(learned)" : "(the best tried)") : h("button", {onclick: () => draw({width: 0})}, "back to the one found"));
    drag.style.display = flat ? "none" : "";
    drag.querySelector("input").value = drag.querySelector("span").textContent = Math.log2(w / range).toFixed(2);
    main.replaceChildren(h("div.row", null, h("div", null, h("h3", null, `The curve, and ${n} points`),
        plot([{x, y, dots: true, radius: 2.5}, {x: places, y: found ? series(k, "curve") : places.map(q => dot(near(q), y))}], {xlabel: v.x_name}),
        text(flat ? "Every place gets the mean of all y." : "A narrow width follows the noise; a wide one flattens the curve.")),
      h("div", null, h("h3", null, "The kernels, by u = distance / w"), plot(v.kernels.map(o => { const u = Array.from({length: 241}, (_, t) => t / 40 - 3);
        return {x: u, y: u.map(kernelOf[o.name]), class: o === k ? "b" : "a"}; }), {zero: true, xlabel: "u"}), h("div.f", null, k.formula))),
      h("div.row", null, h("div", null, h("h3", null, "Attention: a row for each point, a column for each key"),
        wide(heat(n, n, alpha, {cell: Math.max(2, Math.min(14, Math.floor(420 / n))), say: (r, j) => `${fmt(x[r])} to ${fmt(x[j])}: α ${fmt(alpha(r, j))}`, pick: r => draw({point: r})})),
        text("In the order of x. Nothing is learned but w, so a point attends to what is near; click on a row.")),
      h("div", null, h("h3", null, `f(${fmt(x[i])}) by hand`), table(["x_j", "u", "K(u)", "α_j", "y_j", "α_j y_j"],
        [...x.keys()].sort((a, b) => alpha(i, b) - alpha(i, a)).slice(0, 8).map(j => { const u = (x[i] - x[j]) / w, a = alpha(i, j); return [x[j], u, K(u), a, y[j], a * y[j]]; })),
        h("div.f", null, `Σ over all ${n} points: ${fmt(dot(A.subarray(i * n, i * n + n), y))}`))),
      h("h3", null, "The width that was found"), table(["kernel", "w", "rms error", "how"], v.kernels.map(o => ({on: o === k, cells: [o.name,
        o.name === "constant" ? null : o.width, o.rms_error, o.learns ? "slope of the error" : o.name === "constant" ? "none to find" : `no slope: the best of ${series(o, "path").length}`]}))),
      text("The rms error is the root mean square of what each point differs by from its prediction, which the other points make. If a point took part in its own prediction, the best width would be 0."),
      steps.length ? h("div.row", null, h("div", null, h("h3", null, k.learns ? "w by step" : "w that were tried"), plot([{x: steps, y: k.path}], {zero: true, xlabel: "step"})),
        h("div", null, h("h3", null, "Its rms error"), plot([{x: steps, y: series(k, "rms_errors"), class: "b"}], {xlabel: "step"}))) : "");
  }
  box.append(text("Attention of 1964: queries are places q, keys the x of points, values their y. A kernel K turns distance into weight, and weights are divided by their sum."),
    h("div.f", null, "f(q) = Σ α_j y_j      α_j = K((q − x_j) / w) / Σ K((q − x_i) / w)"), pick, h("p", null, drag), main);
  draw();
};
