// Slack's mrkdwn and rich text as elements.

import { el } from "./dom.js";

const EMOJI = {
  white_check_mark: "✅", heavy_check_mark: "✔️", x: "❌", warning: "⚠️", hourglass: "⏳", hourglass_flowing_sand: "⏳", rocket: "🚀",
  red_circle: "🔴", large_green_circle: "🟢", large_yellow_circle: "🟡", large_blue_circle: "🔵", white_circle: "⚪", black_circle: "⚫",
  lock: "🔒", mag: "🔍", eyes: "👀", memo: "📝", bell: "🔔", no_entry: "⛔", question: "❓", information_source: "ℹ️", link: "🔗",
  pushpin: "📌", package: "📦", arrow_right: "➡️", point_right: "👉", clock1: "🕐", wrench: "🔧", stop_sign: "🛑", bulb: "💡",
};

export function unescape(text) {
  return text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

function emojis(text) {
  return text.replace(/:([a-z0-9_+-]+):/g, (whole, name) => EMOJI[name] ?? whole);
}

export function dateText(unix, format, fallback, tz) {
  const at = new Date(Number(unix) * 1000);
  if (Number.isNaN(at.getTime())) return fallback;
  const put = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: tz, ...options }).format(at);
  const parts = {
    date_num: () => new Intl.DateTimeFormat("sv-SE", { timeZone: tz, dateStyle: "short" }).format(at),
    date: () => put({ dateStyle: "long" }), date_short: () => put({ day: "numeric", month: "short", year: "numeric" }),
    date_long: () => put({ dateStyle: "full" }), date_pretty: () => put({ dateStyle: "long" }), date_short_pretty: () => put({ dateStyle: "medium" }),
    date_long_pretty: () => put({ dateStyle: "full" }), time: () => put({ hour: "2-digit", minute: "2-digit" }),
    time_secs: () => put({ hour: "2-digit", minute: "2-digit", second: "2-digit" }), ago: () => put({ dateStyle: "medium", timeStyle: "short" }),
  };
  return format.replace(/\{(\w+)\}/g, (whole, name) => (parts[name] ? parts[name]() : whole));
}

function angle(inner, names) {
  const [target, ...rest] = inner.split("|");
  const label = rest.join("|");
  if (target.startsWith("@")) return el("span", { class: "mention" }, "@" + names.user(target.slice(1)));
  if (target.startsWith("#")) return el("span", { class: "mention" }, "#" + names.channel(target.slice(1)));
  if (target.startsWith("!subteam^")) return el("span", { class: "mention" }, "@" + names.group(target.slice(9)));
  if (target.startsWith("!date^")) {
    const [, unix, format] = target.split("^");
    return el("time", { title: label }, dateText(unix, format, label, names.tz));
  }
  if (target.startsWith("!")) return el("span", { class: "mention loud" }, "@" + target.slice(1));
  if (/^(https?|mailto):/.test(target)) return el("a", { href: unescape(target), target: "_blank", rel: "noopener noreferrer" }, unescape(label || target));
  return document.createTextNode(`<${unescape(inner)}>`);
}

const INLINE = /(`[^`\n]+`)|<([^<>\n]+)>|(?<![\w*])\*(\S(?:[^*\n]*\S)?)\*(?![\w*])|(?<![\w_])_(\S(?:[^_\n]*\S)?)_(?![\w_])|(?<![\w~])~(\S(?:[^~\n]*\S)?)~(?![\w~])/;

function inline(text, names) {
  const nodes = [];
  let rest = text;
  for (;;) {
    const hit = INLINE.exec(rest);
    if (!hit) break;
    if (hit.index) nodes.push(emojis(unescape(rest.slice(0, hit.index))));
    if (hit[1]) nodes.push(el("code", {}, unescape(hit[1].slice(1, -1))));
    else if (hit[2]) nodes.push(angle(hit[2], names));
    else if (hit[3]) nodes.push(el("strong", {}, inline(hit[3], names)));
    else if (hit[4]) nodes.push(el("em", {}, inline(hit[4], names)));
    else nodes.push(el("s", {}, inline(hit[5], names)));
    rest = rest.slice(hit.index + hit[0].length);
  }
  if (rest) nodes.push(emojis(unescape(rest)));
  return nodes;
}

export function mrkdwn(text, names) {
  const box = el("div", { class: "text" });
  text.split(/```/).forEach((part, n) => {
    if (n % 2) {
      const code = part.replace(/^\n|\n$/g, "");
      box.append(el("pre", { tabIndex: 0 }, unescape(code)));
      return;
    }
    let quote = null;
    const lines = part.split("\n");
    if (n && lines[0] === "") lines.shift();
    lines.forEach((line, at) => {
      const last = at === lines.length - 1;
      if (last && line === "") return;
      if (line.startsWith("&gt;") || line.startsWith(">")) {
        quote ??= box.appendChild(el("blockquote"));
        quote.append(el("div", {}, inline(line.replace(/^(&gt;|>) ?/, ""), names)));
        return;
      }
      quote = null;
      box.append(el("div", { class: line.trim() ? "" : "gap" }, line.trim() ? inline(line, names) : ""));
    });
  });
  return box;
}

export function textObject(object, names) {
  if (!object) return "";
  return object.type === "mrkdwn" ? mrkdwn(object.text, names) : el("div", { class: "text" }, emojis(object.text));
}

export function plain(object) {
  return object ? emojis(object.text) : "";
}

function styled(node, style = {}) {
  let out = node;
  for (const [name, tag] of [["code", "code"], ["bold", "strong"], ["italic", "em"], ["strike", "s"]]) if (style[name]) out = el(tag, {}, out);
  return out;
}

export function richText(elements, names) {
  return (elements || []).map((part) => {
    switch (part.type) {
      case "rich_text_section": return el("div", {}, richText(part.elements, names));
      case "rich_text_preformatted": return el("pre", { tabIndex: 0 }, richText(part.elements, names));
      case "rich_text_quote": return el("blockquote", {}, richText(part.elements, names));
      case "rich_text_list": return el(part.style === "ordered" ? "ol" : "ul", {}, (part.elements || []).map((item) => el("li", {}, richText([item], names))));
      case "text": return styled(document.createTextNode(part.text), part.style);
      case "link": return el("a", { href: part.url, target: "_blank", rel: "noopener noreferrer" }, part.text || part.url);
      case "user": return el("span", { class: "mention" }, "@" + names.user(part.user_id));
      case "channel": return el("span", { class: "mention" }, "#" + names.channel(part.channel_id));
      case "emoji": return EMOJI[part.name] ?? `:${part.name}:`;
      case "date": return dateText(part.timestamp, part.format, part.fallback || "", names.tz);
      default: return part.text || "";
    }
  });
}

export function markdown(text, names) {
  // The few forms of Markdown that messages use; the rest shows as written.
  const box = el("div", { class: "text" });
  text.split(/```\w*\n?/).forEach((part, n) => {
    if (n % 2) { box.append(el("pre", { tabIndex: 0 }, part.replace(/\n$/, ""))); return; }
    for (const line of part.split("\n")) {
      const head = /^(#{1,4}) (.*)$/.exec(line);
      const item = /^\s*[-*] (.*)$/.exec(line);
      const put = (words) => inline(words.replace(/\*\*(.+?)\*\*/g, "*$1*").replace(/\[([^\]]+)\]\((https?:[^)]+)\)/g, "<$2|$1>"), names);
      if (head) box.append(el("strong", { class: "md-head" }, put(head[2])));
      else if (item) box.append(el("div", { class: "md-item" }, "• ", put(item[1])));
      else box.append(el("div", { class: line.trim() ? "" : "gap" }, put(line)));
    }
  });
  return box;
}
