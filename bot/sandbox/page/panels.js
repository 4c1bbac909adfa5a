// Two panels: recorded logs to drop in, and faults to switch on.

import { dialog, el, post, toast } from "./dom.js";

export function samplesPanel(app) {
  const thread = app.thread;
  const box = dialog({ title: "Drop a recorded log", className: "wide", body: el("div", { class: "modal-body" },
    el("p", { class: "faint" }, "Real material to work on. Drop one and Baseline answers within seconds; nothing else is needed."),
    el("ul", { class: "samples" }, app.state.samples.map((one) => el("li", { draggable: true, ondragstart: (event) => event.dataTransfer.setData("text/x-baseline-sample", one.id) },
      el("div", {}, el("strong", {}, one.title), el("div", { class: "faint" }, one.what)),
      el("div", { class: "sample-actions" },
        thread ? el("button", { type: "button", class: "button primary", "aria-label": `Drop into the thread: ${one.title}`, onclick: () => { box.close(); app.drop(one.id, { channel: thread.channel, thread_ts: thread.ts }); } }, "Into the thread") : null,
        el("button", { type: "button", class: `button ${thread ? "" : "primary"}`, "aria-label": `Drop into ${app.channelName()}: ${one.title}`, onclick: () => { box.close(); app.drop(one.id, { channel: app.channel }, { mention: true }); } },
          thread ? "Into the channel" : `Drop into ${app.channelName()}`),
        el("a", { class: "button", href: `/page/sample/${one.id}`, target: "_blank", "aria-label": `Read: ${one.title}` }, "Read")))))) });
}

const SWITCHES = [
  ["rate_limited", "Rate limited", "Every call is answered 429 with Retry-After 3 s."],
  ["slow", "Slow", "Every call takes 2.5 s longer."],
  ["lost_answer", "Answers get lost", "A post is done, but the app gets HTTP 500."],
  ["duplicate_events", "Duplicate events", "Each event is delivered three times."],
  ["token_revoked", "Token revoked", "Every call is answered token_revoked."],
];

export function faultsPanel(app) {
  const { faults, scopes, channels } = app.state;
  const set = async (change) => { const done = await post("/page/faults", change); if (!done.ok) toast(done.error); };
  const channel = channels.find((one) => one.name === "gpu-incidents");
  const bot = app.state.app.bot_user;
  const place = async (change) => { const done = await post("/page/channel", { channel: channel.id, ...change }); if (!done.ok) toast(done.error); };
  const row = (control, title, what) => el("label", { class: "fault" }, control, el("span", {}, el("strong", {}, title), el("small", { class: "faint" }, what)));
  dialog({ title: "Faults", body: el("div", { class: "modal-body" },
    el("p", { class: "faint" }, "Break something and go on working: nothing should be lost."),
    SWITCHES.map(([name, title, what]) => row(el("input", { type: "checkbox", checked: faults[name], onchange: (event) => set({ [name]: event.target.checked }) }), title, what)),
    row(el("input", { type: "checkbox", checked: faults.rates, onchange: (event) => set({ rates: event.target.checked }) }), "Rate limits hold", "Slack's limits per method; switch off for a quick tour."),
    row(el("input", { type: "checkbox", checked: !channel.members.includes(bot), onchange: (event) => place({ bot_member: !event.target.checked }) }), "App removed from #gpu-incidents", "Posts are answered not_in_channel."),
    row(el("input", { type: "checkbox", checked: channel.is_archived, onchange: (event) => place({ archived: event.target.checked }) }), "#gpu-incidents archived", "Posts are answered is_archived."),
    el("label", { class: "fault" }, el("span", {}, el("strong", {}, "Uploaded files appear")), (() => {
      const node = el("select", { onchange: (event) => set({ share: event.target.value }) }, [["normal", "a moment later"], ["late", "8 s later"], ["never", "never"]].map(([value, label]) => el("option", { value }, label)));
      node.value = faults.share;
      return node;
    })()),
    el("label", { class: "fault" }, el("span", {}, el("strong", {}, "Missing scope")), (() => {
      const node = el("select", { onchange: (event) => set({ missing_scope: event.target.value }) }, el("option", { value: "" }, "none"), scopes.map((scope) => el("option", { value: scope }, scope)));
      node.value = faults.missing_scope;
      return node;
    })())) });
}
