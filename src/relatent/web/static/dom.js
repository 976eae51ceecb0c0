// DOM elements without a framework: h("a", { href: "/" }, "text"). Strings become text nodes, never markup.

export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

let nAnnouncements = 0;

/** Announce a text to users of screen readers. */
export function announce(text) {
  nAnnouncements += 1;
  const padding = nAnnouncements % 2 ? "" : "\u00a0"; // a repeated text must differ to be read again
  document.getElementById("announcer").textContent = text + padding;
}

/** Fill a container: "Loading…" until the promise settles, then its rendered result or the error. */
export async function load(container, promise, render) {
  container.setAttribute("aria-busy", "true");
  container.replaceChildren(h("p", { class: "loading" }, "Loading…"));
  try {
    const result = await promise;
    container.replaceChildren(...[render(result)].flat());
  } catch (error) {
    if (error.name === "AbortError") return;
    container.replaceChildren(errorBox(error));
  } finally {
    container.removeAttribute("aria-busy");
  }
}

/** An error message with its remedy, or with links to similar names. */
export function errorBox(error) {
  const isRelation = error.code === "unknown_relation";
  const close = error.close ?? [];
  announce(error.message);
  return h("div", { class: "error" },
    h("p", {}, h("b", {}, sentence(error.message))),
    close.length
      ? h("p", { class: "muted" }, "Did you mean one of these?")
      : h("p", { class: "muted" }, sentence(error.remedy ?? "try again")),
    close.length > 0 && h("p", { class: "chips" }, close.map((name) =>
      isRelation ? h("span", { class: "chip" }, name) : h("a", { class: "chip", href: `/entity?name=${encodeURIComponent(name)}` }, name))));
}

function sentence(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1) + (/[.?]$/.test(text) ? "" : ".");
}
