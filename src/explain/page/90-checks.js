// Identities on this model's own numbers.

views.checks = (box, v) => {
  box.append(h("p", null, `What must be equal, computed a second time from the numbers of this page; ${layerName(doc.layer)} `
    + "where one layer is meant. An error of 0 means equal bit by bit."),
    table(["", "identity", "largest error", "allowed", "compared"], v.identities.map(i => i.why_not
      ? ["–", i.says, h("td.f.t", {colSpan: 3}, i.why_not)]
      : [h(i.holds ? "span.good" : "span.bad", null, i.holds ? "holds" : "fails"), i.says, i.error, i.tolerance,
         h("span.n", null, count(i.compared))])));
};
