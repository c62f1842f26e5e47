(() => {
  const PAGE = 25; // number of queries per page
  const NAMES = ["A", "B"];

  const sources = data.sources.map(([text, label]) => ({ text, label, folded: text.toLowerCase() }));
  const queries = data.queries.map(([text, label, about, p, moved, outcome, ...sides], number) => ({
    number, text, label, about, p, moved, outcome,
    found: sides.map(([ids, similarities]) => ({
      ids, similarities, rank: new Map(ids.map((id, i) => [id, i + 1])),
    })),
    folded: text.toLowerCase(),
  }));
  const orders = {
    size: (a, b) => Math.abs(b.moved) - Math.abs(a.moved),
    rose: (a, b) => b.moved - a.moved,
    fell: (a, b) => a.moved - b.moved,
    order: () => 0,
  };
  const state = { outcome: -1, term: "", deep: false, sort: "size", label: -1, about: [], page: 0, open: null };
  let shown = [];

  // Elements

  /* Return an element with the text, in the text's own direction, and with the search term marked. */
  function words(text, className) {
    const element = make("bdi", { class: className || null, dir: "auto" });
    const folded = text.toLowerCase();
    let from = 0;
    if (state.term && folded.length === text.length) {
      for (let at = folded.indexOf(state.term); at >= 0; at = folded.indexOf(state.term, from)) {
        element.append(text.slice(from, at), make("mark", {}, text.slice(at, at + state.term.length)));
        from = at + state.term.length;
      }
    }
    element.append(text.slice(from));
    return element;
  }

  function signed(fraction) {
    const text = points(Math.abs(fraction));
    if (Number(text) === 0) return "0.0";
    return (fraction > 0 ? "+" : "\u2212") + text;
  }

  function strip(query, side) {
    const { ids } = query.found[side], labels = ids.map((id) => sources[id].label);
    const n = labels.filter((label) => label === query.label).length;
    const p = make("span", { class: "p" }, make("span", {}, `${NAMES[side]} `, make("span", { class: "unseen" }, "P ")),
      make("b", {}, points(query.p[side])));
    return make("span", { class: "strip", title: `${NAMES[side]}: ${n} of ${ids.length} share the label` },
      bars(labels, query.label), p);
  }

  function row(query) {
    const isOpen = state.open === query.number;
    const about = make("span", { class: "about" }, labelled(query.label, true));
    query.about.forEach((value) => about.append(" ", make("bdi", {}, value)));
    about.append(" ", make("span", {}, `#${query.number + 1}`));
    const turned = query.outcome < 2 ? " turned" : "";
    const button = make("button", {
      type: "button", class: "query", id: `query-${query.number + 1}`,
      "aria-expanded": String(isOpen), "aria-controls": isOpen ? `found-${query.number + 1}` : null,
    },
    make("span", { class: "words" }, words(query.text, "said"), " ", about), " ",
    strip(query, 0), " ", strip(query, 1), " ",
    make("span", { class: "moved" }, make("span", { class: "unseen" }, "change in P "), signed(query.moved)), " ",
    make("span", { class: `became${turned}` },
      make("span", { "aria-hidden": "true" }, ["\u25b2 ", "\u25bc ", "", ""][query.outcome]), data.outcomes[query.outcome]));
    button.addEventListener("click", () => toggle(query.number));
    const item = make("li", { class: isOpen ? "open" : null }, make("h2", {}, button));
    if (isOpen) item.append(answer(query));
    return item;
  }

  function answer(query) {
    const panel = make("div", { class: "found", id: `found-${query.number + 1}` }, ...[0, 1].map((side) => column(query, side)));
    const twins = (id) => panel.querySelectorAll(`tr[data-source="${id}"]`);
    panel.addEventListener("mouseover", (event) => {
      panel.querySelectorAll(".twin").forEach((line) => line.classList.remove("twin"));
      const line = event.target.closest("tr[data-source]");
      const both = line ? twins(line.dataset.source) : [];
      if (both.length === 2) both.forEach((each) => each.classList.add("twin"));
    });
    panel.addEventListener("mouseleave", () => panel.querySelectorAll(".twin").forEach((line) => line.classList.remove("twin")));
    return panel;
  }

  function column(query, side) {
    const { ids, similarities } = query.found[side], other = query.found[1 - side].rank;
    const n = ids.filter((id) => sources[id].label === query.label).length;
    const isRight = side === 0 ? query.outcome === 1 || query.outcome === 2 : query.outcome === 0 || query.outcome === 2;
    const head = make("thead", {}, make("tr", {},
      make("th", { scope: "col" }, make("span", { class: "unseen" }, "rank")),
      make("th", { scope: "col" }, "label and sentence"),
      make("th", { scope: "col" }, "similarity"),
      make("th", { scope: "col" }, `rank in ${NAMES[1 - side]}`)));
    const body = make("tbody", {}, ...ids.map((id, i) => {
      const source = sources[id], rank = other.get(id);
      return make("tr", { "data-source": id },
        make("td", { class: "number" }, String(i + 1)),
        make("td", { class: "text" }, make("div", {}, labelled(source.label, source.label === query.label), " ", words(source.text))),
        make("td", { class: "number" }, similarities[i].toFixed(3)),
        make("td", { class: `number${rank ? " kept" : ""}` }, rank ? String(rank) : ["lost", "new"][side]));
    }));
    return make("section", { "aria-label": `Nearest under ${NAMES[side]}` },
      make("h3", {}, make("bdi", {}, `${NAMES[side]}  ${data.encoders[side]}`),
        make("span", {}, `${n} of ${ids.length} share the label, vote ${isRight ? "right" : "wrong"}`)),
      make("table", {}, head, body));
  }

  // List of queries

  function choose() {
    const { term } = state;
    const holding = new Set();
    if (term && state.deep) sources.forEach((source, id) => { if (source.folded.includes(term)) holding.add(id); });
    const hits = (query) => query.folded.includes(term)
      || (holding.size > 0 && query.found.some(({ ids }) => ids.some((id) => holding.has(id))));
    shown = queries.filter((query) => (state.outcome < 0 || query.outcome === state.outcome)
      && (state.label < 0 || query.label === state.label)
      && state.about.every((value, i) => value === null || query.about[i] === value)
      && (!term || hits(query))).sort(orders[state.sort]);
    state.page = 0;
    show();
  }

  function show() {
    const n = Math.max(1, Math.ceil(shown.length / PAGE));
    state.page = Math.min(state.page, n - 1);
    const first = state.page * PAGE, part = shown.slice(first, first + PAGE);
    const list = byId("queries");
    list.replaceChildren(...part.map(row));
    list.start = first + 1;
    if (!part.length) list.append(make("li", { class: "none" }, "No query matches. Change the search or the filters."));
    const count = (value) => value.toLocaleString("en");
    byId("status").textContent = shown.length === queries.length
      ? `${count(queries.length)} queries` : `${count(shown.length)} of ${count(queries.length)} queries`;
    byId("place").textContent = `${state.page + 1} of ${n}`;
    byId("previous").disabled = state.page === 0;
    byId("next").disabled = state.page === n - 1;
    document.querySelector(".pages").hidden = n === 1;
  }

  function toggle(number) {
    open(state.open === number ? null : number, number);
  }

  /* Open a query, or close the open one, and scroll to the query. */
  function open(number, meant) {
    state.open = number;
    show();
    const button = byId(`query-${meant + 1}`);
    if (!button) return;
    button.focus({ preventScroll: true });
    const item = button.closest("li");
    const tall = item.getBoundingClientRect().height > innerHeight * 0.7;
    item.scrollIntoView({ block: tall ? "start" : "nearest" });
    try {
      history.replaceState(null, "", number === null ? location.pathname + location.search : `#query-${number + 1}`);
    } catch { /* some browsers refuse to change the address of a local file */ }
  }

  function step(by) {
    if (!shown.length) return;
    const focused = document.activeElement.closest(".query");
    const current = focused ? Number(focused.id.slice(6)) - 1 : state.open;
    const at = shown.findIndex((query) => query.number === current);
    const next = at < 0 ? state.page * PAGE : Math.min(shown.length - 1, Math.max(0, at + by));
    state.page = Math.floor(next / PAGE);
    open(shown[next].number, shown[next].number);
  }

  function turn(by) {
    state.page += by;
    show();
    byId("queries").focus({ preventScroll: true });
    byId("queries").scrollIntoView({ block: "start" });
  }

  // Controls

  function offer(title, values, choice) {
    const select = make("select", {}, make("option", { value: "" }, `any ${title}`),
      ...values.map((value, i) => make("option", { value: String(i) }, value)));
    select.setAttribute("aria-label", title);
    select.addEventListener("change", () => { choice(select.value === "" ? null : Number(select.value)); choose(); });
    byId("choices").append(select);
  }

  offer("label", data.labels, (i) => { state.label = i === null ? -1 : i; });
  data.columns.forEach((title, i) => {
    const values = [...new Set(queries.map((query) => query.about[i]))].sort();
    state.about[i] = null;
    if (values.length > 1 && values.length <= 40) {
      offer(title, values, (chosen) => { state.about[i] = chosen === null ? null : values[chosen]; });
    }
  });

  byId("tools").addEventListener("submit", (event) => {
    event.preventDefault();
    if (shown.length) byId(`query-${shown[0].number + 1}`).focus();
  });
  document.querySelectorAll("input[name=outcome]").forEach((input) => input.addEventListener("change", () => {
    state.outcome = Number(input.value);
    choose();
  }));
  byId("search").addEventListener("input", (event) => {
    state.term = event.target.value.trim().toLowerCase();
    choose();
  });
  byId("deep").addEventListener("change", (event) => { state.deep = event.target.checked; choose(); });
  byId("sort").addEventListener("change", (event) => { state.sort = event.target.value; choose(); });
  byId("previous").addEventListener("click", () => turn(-1));
  byId("next").addEventListener("click", () => turn(1));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const { target } = event, search = byId("search");
    if (event.key === "Escape" && target === search) {
      search.value = "";
      state.term = "";
      search.blur();
      choose();
      return;
    }
    if (target.matches("input[type=search], select")) return;
    const arrows = target === document.body || target.closest("#queries");
    if (event.key === "/") search.focus();
    else if (event.key === "j" || (event.key === "ArrowDown" && arrows)) step(1);
    else if (event.key === "k" || (event.key === "ArrowUp" && arrows)) step(-1);
    else return;
    event.preventDefault();
  });

  byId("tools").hidden = false;

  byId("key").append("Each bar is a rank: up if the label is the query\u2019s, as high as its weight:",
    ...data.labels.slice(0, 8).map((_, label) => labelled(label, true)));

  /* Open the query in the page's address; return whether the address contains a query. */
  function follow() {
    const named = queries[(/^#query-(\d+)$/.exec(location.hash)?.[1] ?? 0) - 1];
    if (!named) return false;
    if (!shown.includes(named)) { // the filters hide the query
      byId("tools").reset();
      Object.assign(state, { outcome: -1, term: "", deep: false, sort: "size", label: -1 });
      state.about.fill(null);
      choose();
    }
    state.page = Math.floor(shown.indexOf(named) / PAGE);
    open(named.number, named.number);
    return true;
  }

  addEventListener("hashchange", follow);
  choose();
  if (!follow() && shown.length) {
    state.open = shown[0].number;
    show();
  }
})();
