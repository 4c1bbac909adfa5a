// The message field: Enter sends, a slash runs a command, long pastes and drops become files.

import { bytes, el, post, toast } from "./dom.js";

export class Composer {
  constructor(form, app, { id, label }) {
    this.app = app;
    this.files = [];
    this.form = form;
    this.hints = el("ul", { class: "hints", hidden: true, "aria-label": "Commands" });
    this.chips = el("div", { class: "chips" });
    this.text = el("textarea", { id, rows: 1, "aria-label": label, oninput: () => this.#typed(), onkeydown: (event) => this.#key(event), onpaste: (event) => this.#paste(event) });
    const picker = el("input", { type: "file", multiple: true, hidden: true, onchange: () => { this.add([...picker.files]); picker.value = ""; } });
    this.sendButton = el("button", { type: "submit", class: "button primary send", "aria-label": "Send" }, "➤");
    form.append(this.hints, el("div", { class: "field" }, this.chips, this.text, el("div", { class: "field-tools" },
      el("button", { type: "button", class: "icon", title: "Attach a file", "aria-label": "Attach a file", onclick: () => picker.click() }, "＋"), picker,
      el("button", { type: "button", class: "icon", title: "Mention Baseline", "aria-label": "Mention Baseline", onclick: () => this.insert("@Baseline ") }, "@"),
      el("button", { type: "button", class: "icon slash", title: "Run a command", "aria-label": "Run a command", onclick: () => { this.text.value = ""; this.insert("/baseline "); } }, "/"),
      el("span", { class: "faint grow", "aria-hidden": "true" }, ""), this.sendButton)));
    form.addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    const pane = form.parentElement;
    pane.addEventListener("dragover", (event) => { event.preventDefault(); pane.classList.add("dropping"); });
    pane.addEventListener("dragleave", (event) => { if (!pane.contains(event.relatedTarget)) pane.classList.remove("dropping"); });
    pane.addEventListener("drop", (event) => { event.preventDefault(); pane.classList.remove("dropping"); this.#dropped(event.dataTransfer); });
  }

  place(target, placeholder) {
    this.target = target;
    this.text.placeholder = placeholder;
    this.form.querySelector(".slash").hidden = Boolean(target?.thread_ts);
  }

  insert(words) {
    this.text.setRangeText(words, this.text.selectionStart, this.text.selectionEnd, "end");
    this.text.focus();
    this.#typed();
  }

  add(files) {
    for (const file of files) {
      if (file.size > this.app.state.limits.file_bytes) { toast(`${file.name} is ${bytes(file.size)}; at most ${bytes(this.app.state.limits.file_bytes)} can be sent.`); continue; }
      this.files.push(file);
    }
    this.#draw();
    this.text.focus();
  }

  #draw() {
    this.chips.replaceChildren(...this.files.map((file) => el("span", { class: "chip" }, `${file.name} · ${bytes(file.size)}`,
      el("button", { type: "button", class: "icon", "aria-label": `Remove ${file.name}`, onclick: () => { this.files = this.files.filter((one) => one !== file); this.#draw(); } }, "✕"))));
  }

  #typed() {
    this.text.style.height = "auto";
    this.text.style.height = `${Math.min(this.text.scrollHeight, 180)}px`;
    const value = this.text.value;
    const commands = this.app.state.commands.filter((one) => value.startsWith("/") && (one.command.startsWith(value) || value.startsWith(`${one.command} `) || value === one.command));
    this.hints.hidden = !commands.length || Boolean(this.target?.thread_ts);
    if (this.hints.hidden) return;
    const words = commands.flatMap((one) => (one.usage_hint || "").split("|").map((word) => [one, word.trim()]).filter(([, word]) => `${one.command} ${word}`.startsWith(value.trimEnd())));
    this.hints.hidden = !words.length;
    this.hints.replaceChildren(...words.map(([one, word]) => el("li", {}, el("button", { type: "button", onclick: () => { this.text.value = `${one.command} ${word}`; this.hints.hidden = true; this.text.focus(); } },
      el("strong", {}, `${one.command} ${word}`)))));
  }

  #key(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); this.send(); }
    if (event.key === "Escape") this.hints.hidden = true;
  }

  #paste(event) {
    const files = [...(event.clipboardData?.files || [])];
    if (files.length) { event.preventDefault(); this.add(files); return; }
    const text = event.clipboardData?.getData("text/plain") || "";
    if (text.length > this.app.state.limits.paste_chars) {
      event.preventDefault();
      this.add([new File([text], "pasted.log", { type: "text/plain" })]);
    }
  }

  async #dropped(transfer) {
    const sample = transfer.getData("text/x-baseline-sample");
    if (sample) await this.app.drop(sample, this.target);
    else this.add([...transfer.files]);
  }

  async send() {
    const text = this.text.value.trim();
    const files = this.files;
    if ((!text && !files.length) || this.sendButton.disabled) return;
    this.sendButton.disabled = true;
    const ids = [];
    for (const file of files) ids.push(await this.app.upload(file));
    const done = ids.includes(null) ? { ok: false } : await post("/page/say", { user: this.app.state.me, ...this.target, text, files: ids });
    this.sendButton.disabled = false;
    if (done.ok || ["invalid_command", "command_in_thread", "operation_timeout", "dispatch_failed"].includes(done.error)) {
      this.text.value = "";
      this.files = [];
      this.#draw();
      this.#typed();
    } else toast(done.error);
  }
}
