// The page: keeps what the person sees, listens for changes, and lays it out.

import { blocks } from "./blocks.js";
import { Composer } from "./composer.js";
import { el, post, toast } from "./dom.js";
import { actsIn, article, dayOf } from "./messages.js";
import { Modals } from "./modal.js";
import { faultsPanel, samplesPanel } from "./panels.js";

const $ = (id) => document.getElementById(id);
const ROLES = { U01OLGA: "responder", U02ANA: "approver", U03OTTO: "no role" };

class App {
  constructor() {
    this.unread = new Set();
    this.tab = "messages";
    this.thread = null;
    this.heard = 0;
    this.modals = new Modals(this);
  }

  async start() {
    const asked = new URLSearchParams(location.search).get("as")?.toUpperCase();
    const wanted = asked ?? localStorage.getItem("as") ?? "U01OLGA";
    await this.#load(wanted) || await this.#load("U01OLGA");
    this.composer = new Composer($("composer"), this, { id: "composer-text", label: "Message" });
    this.threadComposer = new Composer($("thread-composer"), this, { id: "thread-text", label: "Reply" });
    $("who").replaceChildren(...this.state.people.map((one) => el("option", { value: one.id }, `${one.real_name} – ${ROLES[one.id] ?? ""}`)));
    $("who").addEventListener("change", () => this.become($("who").value));
    $("show-rail").addEventListener("click", () => { this.#pane("rail"); $("who").focus(); });
    $("thread-close").addEventListener("click", () => this.closeThread());
    $("thread-back").addEventListener("click", () => this.closeThread());
    $("open-samples").addEventListener("click", () => samplesPanel(this));
    $("open-faults").addEventListener("click", () => faultsPanel(this));
    document.addEventListener("keydown", (event) => { if (event.key === "Escape" && this.thread && !document.querySelector("dialog[open]")) this.closeThread(); });
    const link = /^\/archives\/(\w+)\/p(\d+)$/.exec(location.pathname);
    this.channel = link && this.state.messages[link[1]] ? link[1] : this.state.channels[0].id;
    this.draw();
    this.#listen();
    if (link) this.#follow(link[1], `${link[2].slice(0, -6)}.${link[2].slice(-6)}`);
  }

  async #load(user) {
    const answer = await fetch(`/page/state?user=${encodeURIComponent(user)}`).catch(() => null);
    if (!answer?.ok) return false;
    this.state = await answer.json();
    // A change heard while this was on its way may be missing in it.
    if (this.heard > this.state.mark.count) return this.#load(user);
    localStorage.setItem("as", user);
    return true;
  }

  async reload() {
    if (await this.#load(this.state.me)) this.draw();
  }

  async become(user) {
    if (!(await this.#load(user))) return;
    if (!this.state.messages[this.channel]) { this.channel = this.state.channels[0].id; this.thread = null; this.tab = "messages"; }
    this.unread.clear();
    this.draw();
    this.#listen();
    if (this.tab === "home") this.openHome();
  }

  #listen() {
    this.source?.close();
    this.source = new EventSource(`/page/stream?user=${encodeURIComponent(this.state.me)}`);
    this.heard = 0;
    this.source.onopen = () => this.#status(this.state.status);
    this.source.onerror = () => { $("connection").textContent = "Not connected"; this.#banner("The sandbox does not answer. Start it again; this page comes back by itself."); };
    this.source.onmessage = (event) => this.#hear(JSON.parse(event.data));
  }

  #hear(item) {
    const { state } = this;
    if (item.kind === "hello") {
      const { life, count } = item.mark;
      state.status = item.status;
      this.#status(item.status);
      // What changed between loading and listening, or while the sandbox was away, is loaded anew.
      if (life !== state.mark.life || count !== state.mark.count) { this.heard = 0; this.reload(); }
      return;
    }
    this.heard = item.count;
    if (item.count <= state.mark.count) return;
    switch (item.kind) {
      case "message": {
        const list = (state.messages[item.channel] ??= []);
        const at = list.findIndex((one) => one.ts === item.message.ts);
        if (at >= 0) list[at] = item.message;
        else {
          list.push(item.message);
          if (item.channel !== this.channel && item.message.user !== state.me) { this.unread.add(item.channel); this.#rail(); }
        }
        if (item.channel === this.channel) this.#place(item.message, at < 0);
        // The first answer to one's own message opens its thread where there is room for both.
        if (at >= 0 && item.message.user === state.me && item.message.reply_count === 1 && !this.thread && innerWidth > 980) this.#show(item.channel, item.message.ts);
        break;
      }
      case "message_gone": state.messages[item.channel] = state.messages[item.channel].filter((one) => one.ts !== item.ts); this.#panes(); break;
      case "ephemeral": state.ephemerals.push(item.message); this.#panes(true); break;
      case "ephemeral_gone": state.ephemerals = state.ephemerals.filter((one) => one.ts !== item.ts); this.#panes(); break;
      case "views": state.views = item.views; this.modals.show(item.views); break;
      case "home": state.home = item.view; if (this.tab === "home") this.#home(); break;
      case "faults": state.faults = item.faults; this.#banner(); break;
      case "channel": Object.assign(state.channels.find((one) => one.id === item.channel.id) ?? {}, item.channel); this.draw(); break;
      case "status": state.status = item.status; this.#status(item.status); break;
      case "reload": this.reload(); break;
    }
  }

  names() {
    const { people, channels, groups, app, me } = this.state;
    return {
      bot: app.bot_user,
      tz: people.find((one) => one.id === me)?.tz,
      user: (id) => (id === app.bot_user ? app.name : id === "USLACKBOT" ? "Slackbot" : people.find((one) => one.id === id)?.real_name ?? id),
      channel: (id) => channels.find((one) => one.id === id)?.name ?? id,
      group: (id) => groups.find((one) => one.id === id)?.handle ?? id,
      people: () => people.map((one) => [one.id, one.real_name]),
      channels: () => channels.filter((one) => !one.is_im).map((one) => [one.id, `#${one.name}`]),
    };
  }

  here() { return this.state.channels.find((one) => one.id === this.channel); }

  channelName() { const here = this.here(); return here.is_im ? "the direct message" : `#${here.name}`; }

  draw() {
    $("who").value = this.state.me;
    $("who-role").textContent = this.state.people.find((one) => one.id === this.state.me)?.title ?? "";
    this.#rail();
    this.#panes(true);
    this.#banner();
    this.modals.show(this.state.views);
  }

  #rail() {
    const item = (one, label) => el("li", {}, el("button", { type: "button", class: `${this.unread.has(one.id) ? "unread" : ""}`, "aria-current": one.id === this.channel ? "page" : undefined, onclick: () => this.open(one.id) },
      label, this.unread.has(one.id) ? el("span", { class: "dot" }, el("span", { class: "visually-hidden" }, "unread")) : null));
    $("channels").replaceChildren(...this.state.channels.filter((one) => !one.is_im).map((one) => item(one, `# ${one.name}`)));
    $("apps").replaceChildren(...this.state.channels.filter((one) => one.is_im).map((one) => item(one, "Baseline")));
  }

  open(channel) {
    if (this.channel !== channel) this.thread = null;
    this.channel = channel;
    this.tab = "messages";
    this.unread.delete(channel);
    this.#pane("main");
    this.#rail();
    this.#panes(true);
    this.composer.text.focus();
  }

  openHome() {
    this.tab = "home";
    this.#panes();
    post("/page/home", { user: this.state.me });
  }

  #show(channel, ts) {
    const message = this.state.messages[channel].find((one) => one.ts === ts);
    this.thread = { channel, ts: message?.thread_ts ?? ts };
    this.#pane("thread");
    this.#panes(true);
  }

  openThread(channel, ts, focus = false) {
    this.#show(channel, ts);
    if (focus) this.threadComposer.text.focus();
    else $("thread-close").focus();
  }

  closeThread() {
    const back = this.thread?.ts;
    this.thread = null;
    this.#pane("main");
    this.#panes();
    (document.getElementById(`m-${back}`) ?? this.composer.text).focus();
  }

  #pane(name) { $("app").dataset.pane = name; }

  #panes(bottom = false) {
    const here = this.here();
    const names = this.names();
    $("channel-title").textContent = here.is_im ? "Baseline" : `# ${here.name}`;
    $("channel-topic").textContent = here.is_archived ? "archived" : here.topic?.value ?? "";
    $("tabs").hidden = !here.is_im;
    if (here.is_im) {
      $("tabs").replaceChildren(...[["home", "Home"], ["messages", "Messages"]].map(([name, label]) => el("button", { type: "button", role: "tab", "aria-selected": String(this.tab === name), onclick: () => (name === "home" ? this.openHome() : this.open(this.channel)) }, label)));
    }
    const home = here.is_im && this.tab === "home";
    $("messages").hidden = home;
    $("composer").hidden = home || here.is_archived;
    $("home").hidden = !home;
    if (home) this.#home();
    else this.#fill($("messages"), this.#timeline(), false, bottom);
    this.composer.place({ channel: this.channel }, here.is_im ? "Message Baseline: paste or drop a log" : `Message #${here.name}`);
    $("thread").hidden = !this.thread;
    if (this.thread) {
      $("thread-where").textContent = names.channel(this.thread.channel) ? `#${names.channel(this.thread.channel)}` : "";
      this.#fill($("replies"), this.#replies(), true, bottom);
      this.threadComposer.place({ channel: this.thread.channel, thread_ts: this.thread.ts }, "Reply: @Baseline next, or drop a log");
    }
  }

  #timeline() {
    const shown = (this.state.messages[this.channel] || []).filter((one) => !one.thread_ts || one.thread_ts === one.ts || one.subtype === "thread_broadcast");
    const mine = this.state.ephemerals.filter((one) => one.channel === this.channel && !one.thread_ts);
    return [...shown, ...mine].sort((a, b) => Number(a.ts) - Number(b.ts));
  }

  #replies() {
    const { channel, ts } = this.thread;
    const shown = this.state.messages[channel].filter((one) => one.ts === ts || one.thread_ts === ts);
    const mine = this.state.ephemerals.filter((one) => one.channel === channel && one.thread_ts === ts);
    return [...shown, ...mine].sort((a, b) => Number(a.ts) - Number(b.ts));
  }

  #fill(pane, list, inThread, bottom) {
    const stays = pane.scrollTop;
    const low = bottom || pane.scrollHeight - pane.scrollTop - pane.clientHeight < 60;
    const nodes = [];
    let day = "";
    for (const message of list) {
      const date = dayOf(message.ts, this.names().tz);
      if (date !== day && !inThread) nodes.push(el("div", { class: "day", role: "separator", "aria-label": date }, el("span", {}, date)));
      day = date;
      nodes.push(article(message, inThread ? this.thread.channel : this.channel, this, { inThread }));
    }
    if (!list.length) nodes.push(this.#welcome());
    pane.replaceChildren(...nodes);
    // A new message that is taller than the pane is read from its beginning.
    const last = pane.lastElementChild;
    pane.scrollTop = low ? Math.min(pane.scrollHeight - pane.clientHeight, last.offsetTop - pane.offsetTop - 8) : stays;
  }

  // A changed message is replaced where it stands, so that focus and scroll stay with the reader.
  #place(message, isNew) {
    if (isNew) { this.#panes(); return; }
    for (const [prefix, inThread] of [["m", false], ["t", true]]) {
      const old = document.getElementById(`${prefix}-${message.ts}`);
      if (!old) continue;
      const pane = old.parentElement;
      const low = pane.scrollHeight - pane.scrollTop - pane.clientHeight < 60;
      const fresh = article(message, this.channel, this, { inThread });
      const held = old.contains(document.activeElement) ? [...old.querySelectorAll("button,select,input,a")].indexOf(document.activeElement) : -1;
      old.replaceWith(fresh);
      if (held >= 0) ([...fresh.querySelectorAll("button,select,input,a")][held] ?? fresh).focus();
      if (low) pane.scrollTop = pane.scrollHeight;
    }
  }

  #welcome() {
    const here = this.here();
    if (!here.is_im && !here.members.includes(this.state.app.bot_user)) {
      return el("div", { class: "welcome" }, el("h2", {}, `#${here.name}`), el("p", {}, "Baseline is not a member of this channel. Its answers go elsewhere or are refused: that is how Slack does it."));
    }
    return el("div", { class: "welcome" }, el("h2", {}, here.is_im ? "Help before process" : "A launch fails. Start here."),
      el("p", {}, here.is_im ? "Paste or drop a log here: the first failure, why, and the next step, without a case."
        : "Drop the log of a failing launch and read the first failure, why, and the next step. Or open a case and be led to a decision."),
      el("div", { class: "welcome-actions" },
        el("button", { type: "button", class: "button primary", onclick: () => this.drop("driver-too-old", { channel: this.channel }, { mention: true }) }, "Drop a recorded log: driver too old"),
        el("button", { type: "button", class: "button", onclick: () => samplesPanel(this) }, "Choose another log"),
        here.is_im ? null : el("button", { type: "button", class: "button", onclick: () => post("/page/say", { user: this.state.me, channel: this.channel, text: "/baseline open" }) }, "/baseline open")));
  }

  #home() {
    const view = this.state.home;
    $("home").replaceChildren(...(view ? blocks(view.blocks, actsIn({ view: view.id }, this), this.names()) : [el("p", { class: "faint" }, "Baseline has not filled this page yet.")]));
  }

  #status(status) {
    $("connection").textContent = status?.ready === false ? "Starting…" : "Ready";
    this.#banner();
  }

  #banner(text) {
    const { faults, status } = this.state;
    const on = Object.entries(faults).filter(([name, value]) => name !== "rates" && value && value !== "normal").map(([name, value]) => (value === true ? name.replaceAll("_", " ") : `${name.replaceAll("_", " ")}: ${value}`));
    const words = text ?? (status?.ready === false ? status.detail || "Baseline is starting…" : on.length ? `Faults on: ${on.join(", ")}` : "");
    $("banner").textContent = words;
    $("banner").hidden = !words;
  }

  #follow(channel, ts) {
    const message = this.state.messages[channel]?.find((one) => one.ts === ts);
    if (!message) return;
    if (message.thread_ts && message.thread_ts !== ts) this.openThread(channel, ts);
    const node = document.getElementById(`t-${ts}`) ?? document.getElementById(`m-${ts}`);
    node?.scrollIntoView({ block: "center" });
    node?.classList.add("linked");
  }

  dismiss(ts) {
    this.state.ephemerals = this.state.ephemerals.filter((one) => one.ts !== ts);
    this.#panes();
  }

  async upload(file) {
    try {
      const answer = await fetch(`/page/upload?user=${this.state.me}&name=${encodeURIComponent(file.name)}`, { method: "POST", headers: { "content-type": "application/octet-stream" }, body: file });
      const done = await answer.json();
      if (done.ok) return done.data.file;
      toast(done.error);
    } catch {
      toast(`${file.name} could not be sent.`);
    }
    return null;
  }

  async drop(sample, target, { mention = false } = {}) {
    const direct = this.state.channels.find((one) => one.id === target.channel)?.is_im;
    const text = mention && !direct ? "@Baseline what failed first?" : "";
    const done = await post("/page/drop", { user: this.state.me, sample, text, ...target });
    if (!done.ok) toast(done.error);
  }
}

const app = new App();
globalThis.baselinePage = app;
app.start();
