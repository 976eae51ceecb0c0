// The frame of the site: one HTML page with a URL per view. Each view is a module whose default export returns its elements.

import { combobox } from "./combobox.js";
import { announce, errorBox, h } from "./dom.js";
import { get } from "./api.js";
import { count, entityHref } from "./format.js";

const VIEWS = {
  "/": () => import("./home.js"),
  "/entity": () => import("./entity.js"),
  "/ask": () => import("./ask.js"),
  "/map": () => import("./map.js"),
  "/group": () => import("./group.js"),
  "/duplicates": () => import("./duplicates.js"),
  "/new": () => import("./new_entity.js"),
  "/model": () => import("./model.js"),
};

const main = document.getElementById("main");
let model = get("model");
let leaving = new AbortController();

/** Show the view of the current URL. */
async function show({ focus = true } = {}) {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  model = model.catch(() => get("model")); // the first request may have failed
  model.catch(() => {}); // the view reports the error; until its module is loaded, nothing else handles it
  const path = location.pathname;
  const parameters = Object.fromEntries(new URLSearchParams(location.search));
  for (const link of document.querySelectorAll("nav a")) {
    if (link.pathname === path) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.body.dataset.page = path.slice(1) || "home";
  try {
    const view = VIEWS[path] ? await VIEWS[path]() : null;
    if (signal.aborted) return;
    const { title, content } = view ? view.default(parameters, { signal, model, go }) : missing(path);
    document.title = title ? `${title} · relatent` : "relatent";
    main.replaceChildren(...content.filter(Boolean));
    if (focus) {
      scrollTo(0, 0);
      (main.querySelector("[autofocus]") ?? main).focus({ preventScroll: true });
      announce(title || "Home");
    } else {
      main.querySelector("[autofocus]")?.focus();
    }
  } catch (error) {
    if (!signal.aborted) main.replaceChildren(errorBox(error));
  }
}

function missing(path) {
  const remedy = "use the search or the links at the top";
  return { title: "Page not found", content: [h("h1", {}, "Page not found"), errorBox({ message: `there is no page ${path}`, remedy })] };
}

/** Go to a URL of this site. */
function go(href) {
  history.pushState(null, "", href);
  show();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  const modified = event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
  if (!link || modified || link.origin !== location.origin || link.dataset.reload !== undefined || event.defaultPrevented) return;
  if (link.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(link.href);
});
addEventListener("popstate", () => show({ focus: false }));

const search = combobox({
  placeholder: "Search  ( / )", label: "Search for an entity", id: "q",
  pick(name, bestMatch) {
    search.value = "";
    search.input.blur();
    go(entityHref(bestMatch ?? name));
  },
});
document.getElementById("search").append(search.box);
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  event.preventDefault();
  (document.querySelector("main [data-search]") ?? search.input).focus();
});

// Light or dark: the system's choice, until the button overrides it.
const root = document.documentElement;
const savedTheme = localStorage.getItem("theme");
if (savedTheme) root.dataset.theme = savedTheme;
document.getElementById("theme").addEventListener("click", () => {
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
  dispatchEvent(new Event("theme"));
});

model.then(({ name, kind, sizes: { entities, relations, rank } }) => {
  document.getElementById("summary").textContent =
    `${name}: ${kind}, ${count(entities, "entity", "entities")}, ${count(relations, "relation")}, rank ${rank}`;
}, () => {});
show({ focus: false });
