"use strict";
const { figures, details, texts } = JSON.parse(document.getElementById("data").textContent);
const said = (places, between = "") => places.map((place) => texts[place]).join(between);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const made = (tag, text = "", attributes = {}) => {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

// Sorting: by the whole number, what is missing last both ways; names by their numbers, too.
const order = DataTable.ext.type.order;
const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
const nothingLast = (compare) => (a, b) =>
  a === null ? (b === null ? 0 : 1) : b === null ? -1 : compare(a, b);
order["whole-pre"] = (text) => (text === "" || Number.isNaN(+text) ? null : +text);
order["whole-asc"] = nothingLast((a, b) => a - b);
order["whole-desc"] = nothingLast((a, b) => b - a);
order["name-pre"] = (html) => {
  const text = plain(html);
  return text === "-" || text === "" ? null : text;
};
order["name-asc"] = nothingLast((a, b) => collator.compare(a, b));
order["name-desc"] = nothingLast((a, b) => collator.compare(b, a));

// Filtering: by what is read. DataTables makes HTML of what has an ampersand, so that each is escaped.
const read = (html) => plain(html).replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`);
Object.assign(DataTable.ext.type.search, { name: read, whole: read });

const boards = all("table.numbers-table").map(enhance);

function enhance(table) {
  const section = table.closest("section");
  const titles = all("thead th", table).map((th) => th.textContent.trim());
  const columnDefs = all("thead th", table).map((th, place) => {
    const isText = th.classList.contains("text");
    const isNumber = th.classList.contains("num");
    return {
      targets: place,
      type: isNumber ? "whole" : "name",
      searchable: isText,
      orderSequence: isNumber && !isText ? ["desc", "asc", ""] : ["asc", "desc", ""],
      className: "",
    };
  });
  const nRows = table.tBodies[0].rows.length;
  const paged = nRows > 40;
  const api = new DataTable(table, {
    columnDefs,
    order: [],
    autoWidth: false,
    paging: paged,
    pageLength: 25,
    lengthMenu: [25, 50, 100, { label: "all", value: -1 }],
    layout: {
      topStart: null,
      topEnd: null,
      bottomStart: paged ? "pageLength" : null,
      bottomEnd: paged ? "paging" : null,
    },
    language: {
      zeroRecords: "No row matches.",
      emptyTable: "No rows.",
      lengthMenu: "_MENU_ rows a page",
      entries: { _: "rows", 1: "row" },
    },
  });
  const scroll = table.closest(".scroll");
  // What scrolls is the table alone: DataTables has put its paging beside it.
  const container = table.closest(".dt-container");
  const inner = table.closest(".dt-layout-table") ?? table.parentElement;
  if (container && container !== scroll) {
    scroll.replaceWith(container);
    inner.prepend(scroll);
    scroll.append(table);
  }
  const hint = () => {
    scroll.classList.toggle("scrolled", scroll.scrollLeft > 2);
    scroll.classList.toggle("more", scroll.scrollLeft + scroll.clientWidth < scroll.scrollWidth - 2);
  };
  scroll.addEventListener("scroll", hint, { passive: true });
  new ResizeObserver(hint).observe(scroll);
  new ResizeObserver(hint).observe(table);
  const count = section.querySelector(".count");
  const tell = () => {
    const n = api.rows({ search: "applied" }).count();
    count.textContent = n === nRows ? `${nRows} ${nRows === 1 ? "row" : "rows"}` : `${n} of ${nRows} rows`;
  };
  api.on("search.dt", tell);
  tell();
  for (const select of all("select[data-choose]", section)) {
    const place = titles.indexOf(select.dataset.choose);
    select.addEventListener("change", () => {
      const wanted = select.value;
      api.column(place).search(wanted === "" ? "" : (text) => text === wanted).draw();
    });
  }
  const panel = section.querySelector(".boxes");
  const expand = section.querySelector("[aria-controls]");
  expand?.addEventListener("click", () => {
    panel.hidden = !panel.hidden;
    expand.setAttribute("aria-expanded", String(!panel.hidden));
  });
  for (const box of all("[data-column]", section)) {
    box.addEventListener("change", () => {
      api.column(+box.dataset.column).visible(box.checked);
      sum(box.closest("fieldset"));
    });
  }
  for (const box of all("[data-group]", section)) {
    box.addEventListener("change", () => {
      const boxes = all("[data-column]", box.closest("fieldset"));
      for (const each of boxes) each.checked = box.checked;
      api.columns(boxes.map((each) => +each.dataset.column)).visible(box.checked);
    });
  }
  if (innerWidth < 640) for (const box of all("[data-little]:checked", section)) box.click();
  const ends = section.querySelector("[data-ends]");
  ends?.addEventListener("change", () => table.classList.toggle("no-ends", !ends.checked));
  table.tBodies[0].addEventListener("pointerover", (event) => {
    const cell = event.target.closest("td.text"); // which may be cut
    if (cell && !cell.title) cell.title = cell.textContent;
  });
  table.tBodies[0].addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (row && !row.querySelector(".dt-empty") && getSelection().isCollapsed) open(api, titles, row);
  });
  table.tBodies[0].addEventListener("keydown", (event) => {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const next = step && event.target.closest("tr")?.[step]?.querySelector("th button");
    if (next) {
      event.preventDefault();
      next.focus();
    }
  });
  return api;
}

function plain(html) {
  const inert = document.createElement("template"); // what it holds neither runs nor loads
  inert.innerHTML = String(html);
  return inert.content.textContent.trim();
}

function sum(fieldset) {
  const group = fieldset.querySelector("[data-group]");
  const on = all("[data-column]", fieldset).map((box) => box.checked);
  group.checked = on.every(Boolean);
  group.indeterminate = !group.checked && on.some(Boolean);
}

const find = document.getElementById("find");
find.addEventListener("input", () => {
  for (const api of boards) api.search(find.value).draw();
});
if (find.value) find.dispatchEvent(new Event("input"));

// A row's detail.
const dialog = document.getElementById("detail");
dialog.querySelector(".close").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

function open(api, titles, row) {
  const body = dialog.querySelector(".body");
  const place = api.row(row).index();
  const cells = titles.map((_, i) => api.cell(place, i).node()); // those of hidden columns, too
  const name = cells.find((cell) => cell.tagName === "TH");
  dialog.querySelector(".kind").textContent = name.querySelector("button").title || "encoder";
  dialog.querySelector("h2").textContent = name.textContent.trim();
  body.replaceChildren();
  const detail = details[row.dataset.key];
  if (detail) {
    const facts = detail.facts.map((pair) => pair.map((place) => texts[place]));
    const [source, line] = [said([detail.source]), said(detail.command, " ")];
    if (source) part(body, "Source", made("p", source));
    if (facts.length) part(body, "How it came about", list(facts));
    if (line) part(body, "To reproduce it", ...command(line));
    if (detail.files.length) part(body, "Files", files(detail.files.map((parts) => said(parts))));
  }
  const values = cells.map((cell, i) => [titles[i], inWords(cell)]);
  part(body, "In this table", list(values.filter((_, i) => cells[i] !== name)));
  dialog.showModal();
  dialog.querySelector(".sheet").scrollTop = 0;
  dialog.scrollTop = 0;
}

function inWords(cell) {
  const copy = cell.cloneNode(true);
  for (const low of all("sub", copy)) low.prepend(" ± ");
  return copy.textContent.trim();
}

function part(body, title, ...content) {
  body.append(made("h3", title), ...content);
}

function list(pairs) {
  const found = made("dl");
  for (const [name, value] of pairs) found.append(made("dt", name), made("dd", value));
  return found;
}

function files(names) {
  const found = made("ul");
  for (const name of names) {
    const item = made("li");
    const path = name.split("/").map(encodeURIComponent).join("/");
    item.append(made("a", name, { href: `./${path}` }));
    found.append(item);
  }
  return found;
}

function command(text) {
  const shown = made("pre");
  shown.append(made("code", text));
  const button = made("button", "Copy", { type: "button", class: "plain copy" });
  const said = made("output", "", { class: "copied" });
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = " Copied.";
    } catch {
      getSelection().selectAllChildren(shown);
      said.textContent = " Selected: copy it by your keyboard.";
    }
  });
  return [shown, button, said];
}

// Light and dark.
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const button = document.getElementById("theme");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
const kept = {
  get: () => { try { return localStorage.getItem("polarity-bench-theme"); } catch { return null; } },
  set: (theme) => { try { localStorage.setItem("polarity-bench-theme", theme); } catch { /* not kept */ } },
};
function themed() {
  button.textContent = isDark() ? "Light" : "Dark";
  button.setAttribute("aria-label", `${button.textContent} colours`);
  draw();
}
if (["light", "dark"].includes(kept.get())) root.dataset.theme = kept.get();
button.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  kept.set(root.dataset.theme);
  themed();
});
prefersDark.addEventListener("change", themed);

// Figures.
const choice = document.getElementById("figure-choice");
let drawing = Promise.resolve();
choice?.addEventListener("change", draw);
let narrow = innerWidth < 640;
addEventListener("resize", () => {
  if (narrow !== innerWidth < 640) draw();
});

function draw() {
  if (!choice) return;
  drawing = drawing.then(drawn);
}

async function drawn() {
  narrow = innerWidth < 640;
  for (const part of all(".of-figure")) part.hidden = part.dataset.figure !== choice.value;
  const plot = document.getElementById("plot");
  plot.vega?.finalize();
  plot.vega = await vegaEmbed(plot, inTheme(figures[+choice.value]), {
    mode: "vega-lite",
    renderer: "svg",
    actions: false,
    ast: true,
    defaultStyle: false,
    config: theme(),
    tooltip: { theme: "custom", disableDefaultStyle: true },
  });
  plot.dataset.drawn = choice.value;
}

function colour(name) {
  const probe = made("span", "", { style: `color: var(${name})` });
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function inTheme(spec) {
  const known = new Map();
  const lookUp = (value) => {
    if (typeof value !== "string" || !/^--[a-z0-9]+$/.test(value)) return value;
    if (!known.has(value)) known.set(value, colour(value));
    return known.get(value);
  };
  const painted = new Set(["range", "color", "fill", "stroke"]);
  const { datasets, ...rest } = spec; // names among the data are no colours
  const changed = JSON.parse(JSON.stringify(rest), (key, value) =>
    !painted.has(key) ? value : Array.isArray(value) ? value.map(lookUp) : lookUp(value),
  );
  if (narrow) squeeze(changed);
  return { ...changed, datasets: structuredClone(datasets) };
}

// On a phone: panels below each other, a legend in place of names at the ends of lines.
function squeeze(figure) {
  figure.columns = 1;
  for (const panel of figure.concat ?? [figure]) {
    panel.width = Math.min(panel.width, document.getElementById("plot").clientWidth - 60);
    panel.layer = panel.layer.filter(({ name }) => !name.includes("label"));
    if (figure.concat) continue;
    for (const { encoding } of panel.layer) {
      if (encoding.color?.legend === null) delete encoding.color.legend;
    }
  }
}

function theme() {
  const [ink, soft, rule] = ["--ink", "--soft", "--rule"].map(colour);
  const font = getComputedStyle(button).fontFamily;
  const text = { labelFont: font, titleFont: font, labelFontSize: 12, titleFontSize: 13, labelColor: soft, titleColor: ink, titleFontWeight: 500 };
  return {
    background: "transparent",
    font,
    view: { stroke: null },
    axis: { ...text, gridColor: rule, domainColor: soft, tickColor: soft, titlePadding: 10, labelFlush: false, titleLimit: narrow ? 250 : 560, tickCount: narrow ? 5 : 8 },
    legend: { ...text, labelColor: ink, labelLimit: narrow ? 260 : 240, symbolSize: 80, rowPadding: 5, ...(narrow ? { orient: "bottom", columns: 2 } : { orient: "right" }) },
  };
}

button.hidden = false;
themed();
