/* What the pages of `polarity-bench explain` share: elements, labels and the theme. */
"use strict";
const SHAPES = [ // one path per label, in a box of 10 × 10
  "M5 0.5A4.5 4.5 0 1 1 4.99 0.5Z",
  "M5 0.5L9.8 9.2H0.2Z",
  "M0.8 0.8H9.2V9.2H0.8Z",
  "M5 0L10 5L5 10L0 5Z",
  "M0.2 0.8H9.8L5 9.5Z",
  "M3.3 0.5H6.7V3.3H9.5V6.7H6.7V9.5H3.3V6.7H0.5V3.3H3.3Z",
  "M2.5 0.7H7.5L10 5L7.5 9.3H2.5L0 5Z",
  "M0 3H10V7H0Z",
];
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function labelled(label, same) {
  const shape = draw("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" },
    draw("path", { d: SHAPES[label % SHAPES.length] }));
  return make("span", { class: `label of${label % 8}${same ? " same" : ""}` }, shape,
    make("bdi", {}, data.labels[label]));
}

const points = (fraction) => (100 * fraction).toFixed(1);

/* Draw a bar per rank, from left to right: up if the label is the query's, otherwise down. The height is the weight. */
function bars(labels, own) {
  const wide = 160, half = 16, most = Math.max(...data.weights);
  const step = wide / labels.length, bar = step * (labels.length > 40 ? 0.9 : 0.72);
  const paths = new Map();
  labels.forEach((label, i) => {
    const height = Math.max(1.2, (half - 1.5) * data.weights[i] / most);
    const top = label === own ? half - 1 - height : half + 1;
    const d = `M${(i * step).toFixed(2)} ${top.toFixed(2)}h${bar.toFixed(2)}v${height.toFixed(2)}h${(-bar).toFixed(2)}z`;
    paths.set(label, (paths.get(label) || "") + d);
  });
  return draw("svg", { viewBox: `0 0 ${wide} ${2 * half}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("line", { x1: 0, x2: wide, y1: half, y2: half }),
    ...[...paths].map(([label, d]) => draw("path", { d, class: `of${label % 8}` })));
}

const theme = byId("theme"), preferred = matchMedia("(prefers-color-scheme: dark)");
function remembered(value) {
  try {
    if (value) localStorage.setItem("polarity-bench-theme", value);
    return localStorage.getItem("polarity-bench-theme");
  } catch { return null; }
}
const isDark = () => (document.documentElement.dataset.theme || (preferred.matches ? "dark" : "light")) === "dark";
function nameTheme() {
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.setAttribute("aria-label", `${theme.textContent} colours`);
}
if (["light", "dark"].includes(remembered())) document.documentElement.dataset.theme = remembered();
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  remembered(document.documentElement.dataset.theme);
  nameTheme();
});
preferred.addEventListener("change", nameTheme);
nameTheme();
theme.hidden = false;
