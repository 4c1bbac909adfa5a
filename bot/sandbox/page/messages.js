// One message as an article: who, when, text or blocks, files, reactions, thread link, actions.

import { blocks, menu } from "./blocks.js";
import { bytes, dialog, el, post, toast } from "./dom.js";
import { mrkdwn, plain, textObject } from "./text.js";

export function clock(ts, tz) {
  return new Intl.DateTimeFormat("en-GB", { timeZone: tz, hour: "2-digit", minute: "2-digit" }).format(new Date(Number(ts) * 1000));
}

export function dayOf(ts, tz) {
  return new Intl.DateTimeFormat("en-GB", { timeZone: tz, dateStyle: "full" }).format(new Date(Number(ts) * 1000));
}

export function avatar(user, names) {
  const kind = user === names.bot ? "bot" : user === "USLACKBOT" ? "slackbot" : `tone${[...user].reduce((sum, c) => sum + c.charCodeAt(0), 0) % 4}`;
  return el("span", { class: `avatar ${kind}`, "aria-hidden": "true" }, user === names.bot ? el("img", { src: "/page/static/icon.svg", alt: "" }) : names.user(user)[0]);
}

function files(list) {
  return list.map((file) => {
    const link = `/page/file/${file.id}`;
    if (file.mimetype.startsWith("image/")) {
      return el("figure", { class: "shared" }, el("figcaption", { class: "faint" }, file.title || file.name),
        el("a", { href: link, target: "_blank", "aria-label": `Open ${file.title || file.name}` }, el("img", { class: "picture", src: link, alt: file.alt_txt || file.title || file.name })));
    }
    return el("div", { class: "file" }, el("span", { class: "file-icon", "aria-hidden": "true" }, "≡"),
      el("div", {}, el("strong", {}, file.title || file.name), el("div", { class: "faint" }, file.title && file.title !== file.name ? `${file.name} · ${bytes(file.size)}` : bytes(file.size))),
      el("a", { class: "button", href: link, target: "_blank", "aria-label": `View ${file.name}` }, "View"),
      el("a", { class: "button", href: `${link}?download=true`, "aria-label": `Download ${file.name}` }, "Download"));
  });
}

function confirmed(part) {
  const ask = part.confirm;
  if (!ask) return Promise.resolve(true);
  return new Promise((done) => {
    let yes = false;
    const names = confirmed.names();
    const box = dialog({ title: plain(ask.title), className: "small", onclose: () => done(yes), body: el("div", { class: "modal-body" }, textObject(ask.text, names),
      el("div", { class: "modal-foot" },
        el("button", { type: "button", class: "button", onclick: () => box.close() }, plain(ask.deny)),
        el("button", { type: "button", class: `button ${ask.style || "primary"}`, onclick: () => { yes = true; box.close(); } }, plain(ask.confirm)))) });
  });
}

export { confirmed };

export function actsIn(where, app) {
  const values = {};
  confirmed.names = () => app.names();
  return {
    changed(blockId, part, value) { (values[blockId] ??= {})[part.action_id] = value; },
    async press(blockId, part, value, node) {
      if (!(await confirmed(part))) return;
      if (node) { node.classList.add("busy"); node.setAttribute("aria-busy", "true"); }
      const done = await post("/page/press", { user: app.state.me, where, block_id: blockId, action_id: part.action_id, value: value ?? null, values });
      if (node) { node.classList.remove("busy"); node.removeAttribute("aria-busy"); }
      if (!done.ok) { node?.classList.add("failed"); toast(done.error); }
    },
    upload: (file) => app.upload(file),
  };
}

export function article(message, channel, app, { inThread = false } = {}) {
  const names = app.names();
  const { state } = app;
  const mine = message.user === state.me;
  const who = names.user(message.user);
  const tombstone = message.subtype === "tombstone";
  const fromApp = Boolean(message.bot_id);
  const body = message.blocks && (fromApp || message.is_ephemeral)
    ? blocks(message.blocks, actsIn({ channel, ts: message.ts }, app), names)
    : message.text ? mrkdwn(message.text, names) : null;
  const thread = !inThread && message.reply_count
    ? el("button", { type: "button", class: "thread-link", onclick: () => app.openThread(channel, message.ts) },
      `${message.reply_count} ${message.reply_count === 1 ? "reply" : "replies"}`, el("span", { class: "faint" }, ` · last at ${clock(message.latest_reply || message.ts, names.tz)}`))
    : null;
  const node = el("article", { id: `${inThread ? "t" : "m"}-${message.ts}`, class: `message${message.is_ephemeral ? " ephemeral" : ""}${tombstone ? " tombstone" : ""}`, tabIndex: -1, "aria-label": `${who}, ${clock(message.ts, names.tz)}` },
    avatar(message.user, names),
    el("div", { class: "content" },
      message.is_ephemeral ? el("p", { class: "only-you" }, el("span", { "aria-hidden": "true" }, "👁 "), "Only visible to you") : null,
      el("div", { class: "head" }, el("strong", {}, who), fromApp ? el("span", { class: "badge" }, "APP") : null,
        el("time", { class: "faint", title: `${message.ts}` }, clock(message.ts, names.tz)), message.edited ? el("span", { class: "faint" }, "(edited)") : null,
        message.pinned_to ? el("span", { class: "faint" }, "📌 pinned") : null),
      body, files(message.files || []),
      message.reactions ? el("div", { class: "reactions" }, message.reactions.map((one) => el("span", { class: "reaction" }, `:${one.name}: ${one.count}`))) : null,
      thread));
  node.append(tools(message, channel, app, { inThread, mine, tombstone }));
  return node;
}

function tools(message, channel, app, { inThread, mine, tombstone }) {
  const { state } = app;
  if (message.is_ephemeral) {
    return el("div", { class: "tools" }, el("button", { type: "button", class: "icon", "aria-label": "Dismiss this message", onclick: () => app.dismiss(message.ts) }, "✕"));
  }
  if (tombstone) return el("div", { class: "tools" });
  const items = state.shortcuts.filter((one) => one.type === "message").map((one) => ({
    label: `${one.name} – Baseline`,
    choose: async () => { const done = await post("/page/shortcut", { user: state.me, channel, ts: message.ts, callback_id: one.callback_id }); if (!done.ok) toast(done.error); },
  }));
  if (mine || message.bot_id) items.push({ label: "Delete message", danger: true, choose: async () => { const done = await post("/page/delete", { user: state.me, channel, ts: message.ts }); if (!done.ok) toast(done.error); } });
  return el("div", { class: "tools" },
    inThread ? null : el("button", { type: "button", class: "icon", title: "Reply in thread", "aria-label": "Reply in thread", onclick: () => app.openThread(channel, message.ts, true) }, "💬"),
    menu(items, "More actions on this message"));
}
