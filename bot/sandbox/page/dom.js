// Small ways to make elements. Text always becomes text nodes: nothing here parses HTML.

export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name in node && name !== "list" && name !== "role" && !name.startsWith("aria")) node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export async function post(path, body) {
  try {
    const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    return await answer.json();
  } catch {
    return { ok: false, error: "The sandbox does not answer. Is it still running?" };
  }
}

export function toast(text) {
  if (!text) return;
  const note = el("div", { class: "toast" }, el("span", {}, text), el("button", { type: "button", class: "icon", "aria-label": "Dismiss", onclick: () => note.remove() }, "✕"));
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), 9000);
}

export function dialog({ title, body, className = "", onclose, label }) {
  const close = el("button", { type: "button", class: "icon", "aria-label": "Close", onclick: () => box.requestClose ? box.requestClose() : box.close() }, "✕");
  const box = el("dialog", { class: `modal ${className}`, "aria-label": label || title },
    el("header", { class: "bar" }, el("h2", {}, title), close), body);
  box.addEventListener("close", () => { box.remove(); if (onclose) onclose(); });
  document.body.append(box);
  box.showModal();
  return box;
}

export function bytes(count) {
  return count < 1024 ? `${count} B` : count < 1048576 ? `${Math.round(count / 1024)} KB` : `${(count / 1048576).toFixed(1)} MB`;
}
