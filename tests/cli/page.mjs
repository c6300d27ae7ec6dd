// page.mjs PAGE.html... - runs the scripts of pages as a browser would, in Node with the few parts of the DOM that they use: draws
// each view, then looks at every layer, head and token, and moves each slider to its ends. Prints what a script throws, and text
// such as "NaN" or "undefined" on the page, and numbers made by hand that differ from the model's; then the exit status is 1.
import { readFileSync } from "node:fs";
import { runInNewContext } from "node:vm";

class Element {
  constructor(name) { this.name = name; this.attributes = {}; this.children = []; this.on = {}; this.style = {}; this.parts = []; }
  setAttribute(k, v) { this.attributes[k] = String(v); }
  get className() { return this.attributes.class || ""; }
  addEventListener(event, f) { this.on[event] = f; }
  append(...x) {
    for (const c of x) if (typeof c === "object" && !(c instanceof Element)) throw Error(`appended ${c}`);
    this.children.push(...x);
  }
  replaceChildren(...x) { this.children = []; this.append(...x); }
  set textContent(text) { this.children = [text]; }
  get textContent() { return this.children.map(c => typeof c === "object" ? c.textContent : String(c)).join(" "); }
  querySelector(name) { return this.all().find(e => e.name === name); }
  getBoundingClientRect() { return { left: 0, top: 0 }; }
  getContext() {
    return { createImageData: (w, h) => ({ data: new Uint8ClampedArray(4 * w * h) }), putImageData() {} };
  }
  all(list = []) { list.push(this); this.children.forEach(c => c instanceof Element && c.all(list)); return list; }
}

// Columns of one table that have the same numbers, and lines that end with both.
const same = [["softmax of that", "by index"], ["by hand", "on the tape"], ["Σ α v, by hand", "in the model"], ["c = Σ α h", "in the model"],
  ["(1 − z) n + z s", "s' in the model"], ["qᶜ·kᶜ + qᴿ·kᴿ", "(W_UKᵀ qᶜ)·c + qᴿ·kᴿ"], ["w · tanh", "score"]];
const both = [/=\s+(\S+);\s+in the (?:model|tensor) (\S+)/, /: {2}(\S+) by this formula, (\S+) from/];
const real = text => Number(text.trim().replace(/−/g, "-").replace("–", "0"));
const differ = (a, b) => Math.abs(real(a) - real(b)) > 2e-3 * Math.max(1e-3, Math.abs(real(a)), Math.abs(real(b)));

function contradictions(body) {
  const found = [], say = (what, a, b) => { if (differ(a, b)) found.push(`${what}: ${a.trim()} and ${b.trim()}`); };
  for (const e of body.all()) {
    if (e.name === "table" && e.children[0] instanceof Element) {
      const [head, rows] = e.children.map(x => x.all().filter(y => y.name === "tr")), names = head[0].children.map(c => c.textContent);
      for (const [a, b] of same) if (names.includes(a) && names.includes(b))
        for (const r of rows) say(a, ...[a, b].map(n => r.children[names.indexOf(n)].textContent));
    }
    const text = e.children.filter(c => typeof c !== "object").join("");
    for (const r of both) { const m = r.exec(text); if (m) say(text.slice(-60), m[1], m[2]); }
  }
  return found;
}

function draw(file) {
  const html = readFileSync(file, "utf8"), wrong = [];
  const between = (a, b, from = 0) => { const i = html.indexOf(a, from) + a.length; return html.slice(i, html.indexOf(b, i)); };
  const json = between('<script type="application/json" id="weft">', "</script>");
  const script = between("<script>", "</script>", html.indexOf('id="weft"'));
  const body = new Element("body"), root = new Element("html");
  const document = { body, documentElement: root, createElement: n => new Element(n), createElementNS: (_, n) => new Element(n),
    getElementById: () => ({ textContent: json }) };
  const context = { document, HTMLElement: Element, innerWidth: 1280, innerHeight: 900, atob, TextEncoder, console,
    getComputedStyle: () => ({ getPropertyValue: () => "#336699" }), matchMedia: () => ({ addEventListener() {} }) };
  const attempt = (what, f) => { try { f(); } catch (e) { wrong.push(`${what}: ${e.message}`); } };
  const look = what => {
    for (const c of contradictions(body)) wrong.push(`${what}: ${c}`);
    for (const e of body.all()) {
      const values = e.children.filter(c => typeof c !== "object").concat(Object.values(e.attributes)).map(String);
      for (const v of values) if (/NaN|undefined|\[object/.test(v)) wrong.push(`${what}: <${e.name}> ${v.slice(0, 120)}`);
    }
  };
  attempt("begin", () => runInNewContext(script, context, { filename: file }));
  look("begin");
  const of = name => body.all().filter(e => e.name === name);
  // What is on the page now; elements that a step removed are not asked.
  for (const n of of("select").map((_, i) => i))
    for (let v = 0; v < Math.min(of("select")[n].children.length, 8); v++) {
      attempt(`choice ${n}, ${v}`, () => of("select")[n].on.change({ target: { value: v } }));
      look(`choice ${n}, ${v}`);
    }
  const tokens = () => body.all().filter(e => e.name === "button" && /^token /.test(e.attributes.title || ""));
  for (let i = 0; i < tokens().length; i += Math.max(1, Math.floor(tokens().length / 6))) {
    attempt(`token ${i}`, () => tokens()[i].on.click({}));
    look(`token ${i}`);
  }
  for (let i = 0; i < of("input").length; i++)
    for (const end of ["min", "max"]) {
      const e = of("input")[i];
      attempt(`slider ${i}, ${end}`, () => e.on.input({ target: { value: e.attributes[end] } }));
      look(`slider ${i}, ${end}`);
    }
  return [...new Set(wrong)].slice(0, 12);
}

let failed = false;
for (const file of process.argv.slice(2)) {
  const wrong = draw(file);
  for (const w of wrong) console.log(`${file}: ${w}`);
  failed = failed || wrong.length > 0;
}
process.exit(failed ? 1 : 0);
