(() => {
  const FIRST = 48; // character of a query's first source, as in dial_page.py
  const { strengths, weights, scores, sources } = data;
  const queries = data.queries.map(([text, label, group, places, cosines, found]) => ({ text, label, group, places, cosines, found }));
  const slider = byId("strength"), select = byId("query"), list = byId("found");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const shown = (number) => (number === null ? "\u2013" : points(number));
  const signed = (number) => String(number).replace("-", "\u2212");
  const items = new Map(); // elements of the list, by source

  /* Return the sources of a query at a stop of the dial, nearest first, with their labels and cosines. */
  function nearest(query, stop) {
    const k = weights.length;
    return [...query.found.slice(stop * k, (stop + 1) * k)].map((letter) => {
      const i = letter.charCodeAt(0) - FIRST, place = query.places[i], [text, label] = sources[place];
      return { place, text, label, cosine: query.cosines[i] / 1e4 };
    });
  }

  /* Return P and S of a query from its ranks. */
  function own(query, ranks) {
    const mean = (value) => ranks.reduce((sum, each, i) => sum + weights[i] * value(each), 0);
    return [mean((each) => Number(each.label === query.label)), mean((each) => each.cosine)];
  }

  // The list of sentences, in which each row moves to its new rank

  function item({ text, label, cosine }, query) {
    const same = label === query.label;
    return make("li", { class: `of${label % 8}${same ? " same" : ""}` },
      make("span", { class: "rank" }), labelled(label, same), make("bdi", { class: "said", dir: "auto" }, text),
      make("span", { class: "number" }, cosine.toFixed(2)));
  }

  function fill(query, ranks, isNew) {
    if (isNew) items.clear();
    const moves = !still.matches && !isNew;
    const before = new Map(moves ? [...list.children].map((row) => [row, row.offsetTop]) : []);
    const rows = ranks.map((each) => {
      if (!items.has(each.place)) items.set(each.place, item(each, query));
      return items.get(each.place);
    });
    rows.forEach((row, i) => { row.firstChild.textContent = String(i + 1); });
    list.replaceChildren(...rows);
    if (!moves) return;
    rows.forEach((row) => {
      const from = before.has(row) ? before.get(row) - row.offsetTop : null;
      const frames = from === null ? [{ opacity: 0 }, { opacity: 1 }] : [{ transform: `translateY(${from}px)` }, { transform: "none" }];
      if (from !== 0) row.animate(frames, { duration: 220, easing: "ease-out" });
    });
  }

  // The chart of P and S over the strengths

  const WIDE = 320, HIGH = 170, LEFT = 26, RIGHT = 18, TOP = 10, BOTTOM = 22;
  const [low, high] = [strengths[0], strengths[strengths.length - 1]];
  const x = (strength) => LEFT + (strength - low) / (high - low || 1) * (WIDE - LEFT - RIGHT);
  const y = (fraction) => TOP + (1 - fraction) * (HIGH - TOP - BOTTOM);
  const path = (values) => values.map(([at, value], i) => `${i ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const needle = draw("line", { class: "needle", y1: TOP, y2: HIGH - BOTTOM });
  const dots = ["P", "S"].map((name) => ({
    all: draw("circle", { class: `dot ${name}`, r: 3.5 }), own: draw("circle", { class: `ring ${name}`, r: 3.5 }),
  }));

  function drawChart() {
    const picture = draw("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": "P and S by strength" });
    for (const level of [0, 0.5, 1]) {
      picture.append(draw("line", { class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: y(level), y2: y(level) }),
        draw("text", { x: LEFT - 5, y: y(level) + 3.5, class: "end" }, String(100 * level)));
    }
    for (const at of [low, 0, high].filter((each) => each >= low && each <= high)) {
      picture.append(draw("text", { x: x(at), y: HIGH - 7, class: "middle" }, signed(at)));
    }
    ["P", "S"].forEach((name, i) => {
      const line = strengths.map((at, stop) => [at, scores[stop][i][0]]).filter(([, mean]) => mean !== null);
      const ends = [1, 2].map((end) => strengths.map((at, stop) => [at, scores[stop][i][end]]).filter(([, value]) => value !== null));
      if (ends[0].length) picture.append(draw("path", { class: `band ${name}`, d: `${path(ends[0])}${path(ends[1].reverse()).replace("M", "L")}Z` }));
      if (!line.length) return;
      picture.append(draw("path", { class: `line ${name}`, d: path(line) }),
        draw("text", { x: WIDE - RIGHT + 5, y: y(line[line.length - 1][1]) + 4, class: `name ${name}` }, name));
    });
    picture.append(needle, ...dots.flatMap((each) => [each.own, each.all]));
    byId("chart").append(picture);
  }

  function point(dot, strength, value) {
    dot.setAttribute("cx", x(strength));
    dot.setAttribute("cy", y(Math.min(1, Math.max(0, value ?? 0))));
    dot.setAttribute("visibility", value === null ? "hidden" : "visible");
  }

  // The page at a query and a strength

  let current = null;

  function show() {
    const stop = Number(slider.value), strength = strengths[stop], query = queries[select.value];
    const isNew = current !== query;
    const ranks = nearest(query, stop), n = ranks.filter((each) => each.label === query.label).length;
    const values = own(query, ranks);
    if (isNew) byId("asked").replaceChildren(make("bdi", { dir: "auto" }, query.text), " ", labelled(query.label, true));
    slider.setAttribute("aria-valuetext", `strength ${strength}`);
    byId("value").textContent = signed(strength);
    byId("status").textContent = `${n} of ${ranks.length} share the query\u2019s label, ${data.labels[query.label]}.`;
    byId("strip").replaceChildren(bars(ranks.map((each) => each.label), query.label));
    ["p", "s"].forEach((name, i) => {
      byId(`own-${name}`).textContent = points(values[i]);
      byId(`all-${name}`).textContent = shown(scores[stop][i][0]);
      point(dots[i].all, strength, scores[stop][i][0]);
      point(dots[i].own, strength, values[i]);
    });
    needle.setAttribute("x1", x(strength));
    needle.setAttribute("x2", x(strength));
    fill(query, ranks, isNew);
    current = query;
    try {
      history.replaceState(null, "", `#query-${Number(select.value) + 1}@${strength}`);
    } catch { /* some browsers refuse to change the address of a local file or a frame */ }
  }

  /* Set the query and the strength of the page's address, if it has any. */
  function follow() {
    const [, number, strength] = /^#query-(\d+)@(-?[\d.]+)$/.exec(location.hash) ?? [];
    if (queries[number - 1]) select.value = String(number - 1);
    const stop = strengths.indexOf(Number(strength));
    if (stop >= 0) slider.value = String(stop);
    show();
  }

  const groups = new Map();
  queries.forEach(({ text, group }, i) => {
    if (!groups.has(group)) groups.set(group, make("optgroup", { label: group }));
    groups.get(group).append(make("option", { value: String(i) }, text));
  });
  select.append(...[...groups].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, group]) => group));
  select.value = String(data.query);
  slider.value = String(data.start);
  byId("least").textContent = signed(low);
  byId("most").textContent = signed(high);
  drawChart();
  slider.addEventListener("input", show);
  select.addEventListener("change", show);
  byId("another").addEventListener("click", () => {
    select.value = String(Math.floor(Math.random() * queries.length));
    show();
  });
  byId("tools").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", follow);
  byId("tools").hidden = false;
  byId("board").hidden = false;
  follow();
})();
