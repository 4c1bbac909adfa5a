// The person's open modals; the top one is shown. What was typed is kept while the view is updated.

import { blocks } from "./blocks.js";
import { el, post, toast } from "./dom.js";
import { confirmed } from "./messages.js";
import { plain } from "./text.js";

export class Modals {
  constructor(app) {
    this.app = app;
    this.drafts = {};
    this.shown = null;
    this.box = null;
  }

  show(views) {
    const top = views.at(-1);
    const open = new Set(views.map((view) => view.id));
    for (const id of Object.keys(this.drafts)) if (!open.has(id)) delete this.drafts[id];
    if (!top) {
      this.shown = null;
      if (this.box) { const box = this.box; this.box = null; box.close(); box.remove(); this.back?.isConnected && this.back.focus(); }
      return;
    }
    if (this.shown === `${top.id}/${top.hash}`) return;
    this.shown = `${top.id}/${top.hash}`;
    this.#render(top, views.length);
  }

  #render(view, depth) {
    const { app } = this;
    const draft = (this.drafts[view.id] ??= {});
    const focusId = this.box?.querySelector(":focus")?.closest("[data-block]")?.dataset.block;
    const acts = {
      draft: (blockId, part) => draft[blockId]?.[part.action_id],
      changed(blockId, part, value) { (draft[blockId] ??= {})[part.action_id] = value; },
      async press(blockId, part, value, node) {
        if (!(await confirmed(part))) return;
        node?.classList.add("busy");
        const done = await post("/page/press", { user: app.state.me, where: { view: view.id }, block_id: blockId, action_id: part.action_id, value: value ?? null, values: draft });
        node?.classList.remove("busy");
        if (!done.ok) toast(done.error);
      },
      upload: (file) => app.upload(file),
    };
    confirmed.names = () => app.names();
    const trouble = el("p", { class: "error", role: "alert" });
    const submit = view.submit ? el("button", { type: "submit", class: "button primary" }, plain(view.submit)) : null;
    const close = () => post("/page/close", { user: app.state.me, view: view.id }).then((done) => !done.ok && app.reload());
    const form = el("form", { class: "modal-form", noValidate: true, onsubmit: async (event) => {
      event.preventDefault();
      if (submit.disabled) return;
      submit.disabled = true;
      submit.classList.add("busy");
      trouble.textContent = "";
      for (const node of form.querySelectorAll(".b-input > .error")) node.textContent = "";
      const done = await post("/page/submit", { user: app.state.me, view: view.id, values: draft });
      submit.disabled = false;
      submit.classList.remove("busy");
      trouble.textContent = done.error || "";
      let first = null;
      for (const [blockId, text] of Object.entries(done.errors || {})) {
        const field = form.querySelector(`[data-block="${CSS.escape(blockId)}"]`);
        if (!field) { trouble.textContent += ` ${text}`; continue; }
        field.querySelector(":scope > .error").textContent = text;
        first ??= field.querySelector("input,textarea,select");
      }
      first?.focus();
    } },
    el("div", { class: "modal-body" }, blocks(view.blocks, acts, app.names()), trouble),
    el("div", { class: "modal-foot" }, el("button", { type: "button", class: "button", onclick: close }, plain(view.close) || "Cancel"), submit));
    const title = el("h2", { id: "modal-title" }, plain(view.title));
    const box = el("dialog", { class: "modal view", "aria-labelledby": "modal-title", oncancel: (event) => { event.preventDefault(); close(); } },
      el("header", { class: "bar" }, el("img", { class: "modal-icon", src: "/page/static/icon.svg", alt: "" }), title,
        depth > 1 ? el("span", { class: "faint" }, `step ${depth}`) : null,
        el("button", { type: "button", class: "icon", "aria-label": "Close", onclick: close }, "✕")), form);
    if (!this.box) this.back = document.activeElement;
    const old = this.box;
    this.box = box;
    document.body.append(box);
    box.showModal();
    if (old) { old.close(); old.remove(); }
    const target = focusId ? box.querySelector(`[data-block="${CSS.escape(focusId)}"] :is(input,textarea,select,button)`) : null;
    (target || box.querySelector(".modal-body :is(input,textarea,select,button)") || submit || box).focus();
  }
}
