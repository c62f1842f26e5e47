"use strict";
const { figures, details, texts } = JSON.parse(document.getElementById("data").textContent);
const textAt = (places, between = "") => places.map((place) => texts[place]).join(between);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const makeElement = (tag, text = "", attributes = {}) => {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

// Sorting: unrounded numbers; names with digits in numeric order. Missing values are always last.
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

// Filtering: by the visible text. DataTables decodes text with an ampersand as HTML, so ampersands are escaped.
const read = (html) => plain(html).replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`);
Object.assign(DataTable.ext.type.search, { name: read, whole: read });

if (new URLSearchParams(location.search).has("embed")) document.documentElement.classList.add("embed");
const find = document.getElementById("find");

// The view of a table in the address: #t-all?find=mini&sort=P,desc&hide=S|k&only.k=16
class View {
  static isQuiet = true; // while the page is set up

  constructor(api, titles, section) {
    Object.assign(this, { api, titles, section, isReading: false });
  }

  write() {
    if (this.isReading || View.isQuiet) return;
    const params = new URLSearchParams();
    if (find.value) params.set("find", find.value);
    const [first] = this.api.order();
    if (first?.[1]) params.set("sort", `${this.titles[first[0]]},${first[1]}`);
    const hidden = this.titles.filter((_, place) => !this.api.column(place).visible());
    if (hidden.length) params.set("hide", hidden.join("|"));
    for (const select of all("select[data-choose]", this.section)) {
      if (select.value) params.set(`only.${select.dataset.choose}`, select.value);
    }
    const ending = params.size ? `?${params}` : "";
    if (ending || location.hash.includes("?")) history.replaceState(null, "", `#${this.section.id}${ending}`);
  }

  read(params) {
    this.isReading = true;
    const hidden = new Set((params.get("hide") ?? "").split("|"));
    for (const box of all("[data-column]", this.section)) {
      if (box.checked === hidden.has(this.titles[+box.dataset.column])) box.click();
    }
    for (const select of all("select[data-choose]", this.section)) {
      const value = params.get(`only.${select.dataset.choose}`) ?? "";
      if (select.value === value || ![...select.options].some((option) => option.value === value || (!value && !option.value))) continue;
      select.value = value;
      select.dispatchEvent(new Event("change"));
    }
    const [, title, direction] = /^(.*),(asc|desc)$/.exec(params.get("sort") ?? "") ?? [];
    const place = this.titles.indexOf(title);
    if (place >= 0) this.api.order([[place, direction]]).draw();
    this.isReading = false;
  }
}

const boards = all("table.numbers-table").map(enhance);
View.isQuiet = false;

function enhance(table) {
  const section = table.closest("section");
  const titles = all("thead th", table).map(titleOf);
  const front = addFront(table, titles);
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
      lengthMenu: "_MENU_ rows per page",
      entries: { _: "rows", 1: "row" },
    },
  });
  const scroll = table.closest(".scroll");
  // DataTables has added its paging to the container. Only the table scrolls.
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
  const showCount = () => {
    const n = api.rows({ search: "applied" }).count();
    count.textContent = n === nRows ? `${nRows} ${nRows === 1 ? "row" : "rows"}` : `${n} of ${nRows} rows`;
  };
  const refresh = () => {
    showCount();
    front?.(api);
  };
  api.on("search.dt", refresh);
  refresh();
  section.querySelector(".tools").append(downloadButton(api, titles, section.id));
  const view = new View(api, titles, section);
  api.on("order.dt column-visibility.dt search.dt", () => view.write());
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
      updateGroup(box.closest("fieldset"));
    });
  }
  for (const box of all("[data-group]", section)) {
    box.addEventListener("change", () => {
      const boxes = all("[data-column]", box.closest("fieldset"));
      for (const each of boxes) each.checked = box.checked;
      api.columns(boxes.map((each) => +each.dataset.column)).visible(box.checked);
    });
  }
  // If the table is too wide, hide the columns in which nearly all rows have the same text.
  if (scroll.scrollWidth > scroll.clientWidth) for (const box of all("[data-little]:checked", section)) box.click();
  const ends = section.querySelector("[data-ends]");
  ends?.addEventListener("change", () => table.classList.toggle("no-ends", !ends.checked));
  table.tBodies[0].addEventListener("pointerover", (event) => {
    const cell = event.target.closest("td.text"); // whose text may be cut off
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
  return { api, view };
}

function titleOf(th) {
  const copy = th.cloneNode(true);
  for (const about of all("small", copy)) about.remove();
  return copy.textContent.trim();
}

// The front: "yes" unless another visible row with the same reference and k is better in P or S and worse in neither.
function addFront(table, titles) {
  const [p, s, reference, k] = ["P", "S", "reference", "k"].map((title) => titles.indexOf(title));
  if (Math.min(p, s, reference, k) < 0) return null;
  // Rows are comparable if they have the same reference and k. A reference encoder is its own reference.
  const groupOf = (row) => {
    const by = row.cells[reference].textContent;
    const isBound = /oracle|random/.test(row.className);
    const isMeasured = [p, s].every((column) => row.cells[column].dataset.order) && by !== "-" && !isBound;
    return isMeasured ? `${by === "itself" ? row.querySelector("th").textContent : by}@${row.cells[k].textContent}` : "";
  };
  const groups = new Map([...table.tBodies[0].rows].map((row) => [row, groupOf(row)]));
  const known = [...groups.values()].filter(Boolean);
  if (new Set(known).size === known.length) return null;
  titles.push("on the front");
  table.tHead.rows[0].append(makeElement("th", "on the front", { scope: "col", class: "text" }));
  for (const row of table.tBodies[0].rows) row.append(makeElement("td", "", { class: "text" }));
  const place = titles.length - 1;
  return (api) => {
    const measured = [];
    for (const row of api.rows({ search: "applied" }).indexes().toArray()) {
      const by = groups.get(api.row(row).node());
      const [atP, atS] = [p, s].map((column) => +api.cell(row, column).node().dataset.order);
      if (by) measured.push({ row, p: atP, s: atS, by });
      else api.cell(row, place).data("not measured");
    }
    for (const own of measured) {
      const isBeaten = measured.some(
        (other) => other.by === own.by && other.p >= own.p && other.s >= own.s && (other.p > own.p || other.s > own.s),
      );
      api.cell(own.row, place).data(isBeaten ? "no" : "yes");
    }
  };
}

// Download of the visible cells as a CSV file, with the ends of intervals in separate columns.
function downloadButton(api, titles, name) {
  const button = makeElement("button", "Download CSV", { type: "button", class: "plain csv" });
  button.addEventListener("click", () => {
    const link = makeElement("a", "", { download: `${name.replace(/^t-/, "")}.csv` });
    link.href = URL.createObjectURL(new Blob([csvOf(api, titles)], { type: "text/csv" }));
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  return button;
}

function csvOf(api, titles) {
  const rows = api.rows({ search: "applied", order: "applied" }).indexes().toArray();
  const columns = titles.flatMap((title, place) => {
    if (!api.column(place).visible()) return [];
    const parts = rows.map((row) => partsOf(api.cell(row, place).node()));
    const of = (field, ending) => [[title + ending, ...parts.map((part) => part[field])]];
    const ends = parts.some((part) => part.low) ? [...of("low", " low"), ...of("high", " high")] : [];
    return [...of("value", ""), ...ends];
  });
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = [...Array(rows.length + 1).keys()].map((line) => columns.map((column) => quoted(column[line])).join(","));
  return `${lines.join("\n")}\n`;
}

function partsOf(cell) {
  const copy = cell.cloneNode(true);
  const [, low = "", high = ""] = /\[(.*), (.*)\]/.exec(copy.querySelector("small")?.textContent ?? "") ?? [];
  for (const aside of all("small, sub, span", copy)) aside.remove();
  const text = copy.textContent.trim();
  const value = text === "-" ? "" : /^[=+@\t]|^-(?![\d.])/.test(text) ? `'${text}` : text; // prevents spreadsheets from reading a formula
  return { value, low: low.trim(), high: high.trim() };
}

function readAddress() {
  const [id, query] = location.hash.slice(1).split(/\?(.*)/s);
  const shown = boards.find(({ view }) => view.section.id === id);
  if (!shown || !query) return;
  const params = new URLSearchParams(query);
  find.value = params.get("find") ?? "";
  search();
  shown.view.read(params);
  shown.view.section.scrollIntoView();
}

function plain(html) {
  const inert = document.createElement("template"); // its content neither runs scripts nor loads resources
  inert.innerHTML = String(html);
  return inert.content.textContent.trim();
}

function updateGroup(fieldset) {
  const group = fieldset.querySelector("[data-group]");
  const on = all("[data-column]", fieldset).map((box) => box.checked);
  group.checked = on.every(Boolean);
  group.indeterminate = !group.checked && on.some(Boolean);
}

function search() {
  View.isQuiet = true;
  for (const { api } of boards) api.search(find.value).draw();
  View.isQuiet = false;
}
find.addEventListener("input", () => {
  search();
  const id = location.hash.slice(1).split("?")[0];
  (boards.find(({ view }) => view.section.id === id) ?? boards[0])?.view.write();
});
if (find.value) search();
addEventListener("hashchange", readAddress);
readAddress();

// Details of a row.
const dialog = document.getElementById("detail");
dialog.querySelector(".close").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

function open(api, titles, row) {
  const body = dialog.querySelector(".body");
  const place = api.row(row).index();
  const cells = titles.map((_, i) => api.cell(place, i).node()); // including cells of hidden columns
  const name = cells.find((cell) => cell.tagName === "TH");
  dialog.querySelector(".kind").textContent = name.querySelector("button").title || "encoder";
  dialog.querySelector("h2").textContent = name.textContent.trim();
  body.replaceChildren();
  const detail = details[row.dataset.key];
  if (detail) {
    const facts = detail.facts.map((pair) => pair.map((place) => texts[place]));
    const [source, line] = [textAt([detail.source]), textAt(detail.command, " ")];
    if (source) part(body, "Source", makeElement("p", source));
    if (facts.length) part(body, "Provenance", list(facts));
    if (line) part(body, "Command to reproduce it", ...command(line));
    if (detail.files.length) part(body, "Files", files(detail.files.map((parts) => textAt(parts))));
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
  body.append(makeElement("h3", title), ...content);
}

function list(pairs) {
  const element = makeElement("dl");
  for (const [name, value] of pairs) element.append(makeElement("dt", name), makeElement("dd", value));
  return element;
}

function files(names) {
  const element = makeElement("ul");
  for (const name of names) {
    const item = makeElement("li");
    const path = name.split("/").map(encodeURIComponent).join("/");
    item.append(makeElement("a", name, { href: `./${path}` }));
    element.append(item);
  }
  return element;
}

function command(text) {
  const block = makeElement("pre");
  block.append(makeElement("code", text));
  const button = makeElement("button", "Copy", { type: "button", class: "plain copy" });
  const status = makeElement("output", "", { class: "copied" });
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      status.textContent = " Copied.";
    } catch {
      getSelection().selectAllChildren(block);
      status.textContent = " Selected; press Ctrl+C or Cmd+C to copy.";
    }
  });
  return [block, button, status];
}

for (const code of all("pre")) {
  if (code.scrollWidth > code.clientWidth) code.tabIndex = 0; // allows scrolling by keyboard
}

// Light and dark.
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const button = document.getElementById("theme");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
const kept = {
  get: () => { try { return localStorage.getItem("polarity-bench-theme"); } catch { return null; } },
  set: (theme) => { try { localStorage.setItem("polarity-bench-theme", theme); } catch { /* storage is not available */ } },
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
  const probe = makeElement("span", "", { style: `color: var(${name})` });
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
  const { datasets, ...rest } = spec; // data may contain the names of colours, so it is not changed
  const changed = JSON.parse(JSON.stringify(rest), (key, value) =>
    !painted.has(key) ? value : Array.isArray(value) ? value.map(lookUp) : lookUp(value),
  );
  if (narrow) squeeze(changed);
  return { ...changed, datasets: structuredClone(datasets) };
}

// On a phone, panels are below each other, and a legend replaces the names at the ends of lines.
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
    legend: { ...text, labelColor: ink, labelLimit: narrow ? 260 : 400, symbolSize: 80, rowPadding: 5, ...(narrow ? { orient: "bottom", columns: 1 } : { orient: "right" }) },
  };
}

button.hidden = false;
themed();
