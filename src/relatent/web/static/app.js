// The shell: one page, real addresses. A link is followed here, a page is a function that gives its elements.

import { combobox } from "./combobox.js";
import { fault, h, say } from "./dom.js";
import { get } from "./server.js";
import { count, entityHref } from "./words.js";

const PAGES = {
  "/": () => import("./home.js"),
  "/entity": () => import("./entity.js"),
  "/ask": () => import("./ask.js"),
  "/map": () => import("./map.js"),
  "/group": () => import("./group.js"),
  "/new": () => import("./new.js"),
  "/model": () => import("./model.js"),
};

const main = document.getElementById("main");
let model = get("model");
let leaving = new AbortController();

/** Show what the address says. */
async function show({ focus = true } = {}) {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  model = model.catch(() => get("model")); // it may have failed while the server was away
  model.catch(() => {}); // a page that needs it tells; until that page is fetched, nobody listens
  const path = location.pathname;
  const values = Object.fromEntries(new URLSearchParams(location.search));
  for (const link of document.querySelectorAll("nav a")) {
    link.toggleAttribute("aria-current", link.pathname === path);
    if (link.pathname === path) link.setAttribute("aria-current", "page");
  }
  document.body.dataset.page = path.slice(1) || "home";
  try {
    const page = PAGES[path] ? await PAGES[path]() : null;
    if (signal.aborted) return;
    const { title, content } = page ? page.default(values, { signal, model, go }) : missing(path);
    document.title = title ? `${title} · relatent` : "relatent";
    main.replaceChildren(...content.filter(Boolean));
    if (focus) {
      scrollTo(0, 0);
      (main.querySelector("[autofocus]") ?? main).focus({ preventScroll: true });
      say(title || "Home");
    } else {
      main.querySelector("[autofocus]")?.focus();
    }
  } catch (error) {
    if (!signal.aborted) main.replaceChildren(fault(error));
  }
}

function missing(path) {
  const remedy = "use the search above, or the links beside it";
  return { title: "No such page", content: [h("h1", {}, "No such page"), fault({ message: `there is no ${path}`, remedy })] };
}

/** Go to an address of this site. */
function go(href, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  show();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  const plain = event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey;
  if (!link || plain || link.origin !== location.origin || link.dataset.plain !== undefined || event.defaultPrevented) return;
  if (link.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(link.href);
});
addEventListener("popstate", () => show({ focus: false }));

const search = combobox({
  placeholder: "Search  ( / )", label: "Search an entity", id: "q",
  pick(name, first) {
    search.value = "";
    search.input.blur();
    go(entityHref(first ?? name));
  },
});
document.getElementById("search").append(search.box);
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  event.preventDefault();
  (document.querySelector("main [data-search]") ?? search.input).focus();
});

// Light or dark: as the system has it, until one says otherwise.
const root = document.documentElement;
const kept = localStorage.getItem("theme");
if (kept) root.dataset.theme = kept;
document.getElementById("theme").addEventListener("click", () => {
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
  dispatchEvent(new Event("theme"));
});

model.then((found) => {
  const { entities, relations, rank } = found.sizes;
  document.getElementById("served").textContent =
    `${found.name}: ${found.kind}, ${count(entities, "entity", "entities")}, ${count(relations, "relation")}, rank ${rank}`;
}, () => {});
show({ focus: false });
