// Block Kit as elements. `acts` says what happens: acts.press(blockId, element, value), acts.changed(blockId, element, value).

import { el } from "./dom.js";
import { markdown, plain, richText, textObject } from "./text.js";

export function blocks(list, acts, names) {
  return (list || []).map((block) => one(block, acts, names));
}

function one(block, acts, names) {
  switch (block.type) {
    case "header": return el("h3", { class: "b-header" }, plain(block.text));
    case "divider": return el("hr");
    case "section": return section(block, acts, names);
    case "context": return el("div", { class: "b-context" }, block.elements.map((part) => (part.type === "image" ? picture(part, "small") : textObject(part, names))));
    case "actions": return el("div", { class: "b-actions" }, block.elements.map((part) => element(part, block.block_id, acts, names)));
    case "image": return el("figure", {}, block.title ? el("figcaption", {}, plain(block.title)) : null, picture(block));
    case "input": return input(block, acts, names);
    case "markdown": return markdown(block.text, names);
    case "rich_text": return el("div", { class: "text" }, richText(block.elements, names));
    case "table": return table(block, names);
    case "alert": return el("div", { class: `b-alert ${block.level || "default"}`, role: "note" }, textObject(block.text, names));
    default: return el("div", { class: "faint" }, `(${block.type})`);
  }
}

function section(block, acts, names) {
  const body = el("div", { class: "b-body" }, block.text ? textObject(block.text, names) : null,
    block.fields ? el("div", { class: "b-fields" }, block.fields.map((part) => textObject(part, names))) : null);
  const extra = block.accessory && el("div", { class: "b-accessory" },
    block.accessory.type === "image" ? picture(block.accessory, "thumb") : element(block.accessory, block.block_id, acts, names));
  return el("div", { class: "b-section" }, body, extra);
}

function picture(part, size = "") {
  const file = part.slack_file?.id;
  return el("img", { class: `picture ${size}`, src: file ? `/page/file/${file}` : part.image_url, alt: part.alt_text, loading: "lazy" });
}

function table(block, names) {
  const cell = (part) => (part.type === "rich_text" ? richText(part.elements, names) : String(part.text ?? part.value ?? ""));
  const [head, ...rows] = block.rows;
  return el("div", { class: "b-table", tabIndex: 0, role: "region", "aria-label": "Table" }, el("table", {},
    el("thead", {}, el("tr", {}, head.map((part) => el("th", { scope: "col" }, cell(part))))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((part) => el("td", {}, cell(part))))))));
}

let serial = 0;

function input(block, acts, names) {
  const id = `in${++serial}`;
  const group = ["radio_buttons", "checkboxes"].includes(block.element.type);
  const label = [plain(block.label), block.optional ? el("span", { class: "faint" }, " (optional)") : null];
  const hint = block.hint ? el("p", { class: "hint", id: `${id}-hint` }, plain(block.hint)) : null;
  const error = el("p", { class: "error", id: `${id}-error`, role: "alert" });
  const control = element(block.element, block.block_id, acts, names, { id, required: !block.optional, dispatch: block.dispatch_action });
  const target = control.matches("input,select,textarea") ? control : control.querySelector("input,select,textarea");
  if (target && !group) target.setAttribute("aria-describedby", `${hint ? hint.id + " " : ""}${error.id}`);
  return el(group ? "fieldset" : "div", { class: "b-input", "data-block": block.block_id },
    group ? el("legend", {}, label) : el("label", { htmlFor: id }, label), control, hint, error);
}

const PICK = { users_select: "initial_user", conversations_select: "initial_conversation", channels_select: "initial_channel" };

export function element(part, blockId, acts, names, field = {}) {
  const inForm = Boolean(field.id);
  const tell = (value) => { acts.changed(blockId, part, value); if (!inForm || field.dispatch) acts.press(blockId, part, value); };
  const draft = acts.draft?.(blockId, part);
  switch (part.type) {
    case "button": return button(part, blockId, acts);
    case "overflow": return menu(part.options.map((option) => ({ label: plain(option.text), choose: () => acts.press(blockId, part, option.value) })), "More actions");
    case "static_select": return select(part, field, draft ?? part.initial_option?.value, tell);
    case "multi_static_select": return multi(part, field, draft ?? (part.initial_options || []).map((o) => o.value), tell);
    case "radio_buttons": return choices("radio", part, field, [draft ?? part.initial_option?.value], (value) => tell(value), names);
    case "checkboxes": return choices("checkbox", part, field, draft ?? (part.initial_options || []).map((o) => o.value), (value) => tell(value), names);
    case "users_select": case "conversations_select": case "channels_select":
      return people(part, field, draft ?? part[PICK[part.type]], tell, names);
    case "plain_text_input": return typed(part, field, draft, acts, blockId);
    case "number_input": case "email_text_input": case "url_text_input":
      return simple(part, field, draft ?? part.initial_value, { number_input: "text", email_text_input: "email", url_text_input: "url" }[part.type], acts, blockId);
    case "datepicker": return simple(part, field, draft ?? part.initial_date, "date", acts, blockId, tell);
    case "timepicker": return simple(part, field, draft ?? part.initial_time, "time", acts, blockId, tell);
    case "datetimepicker": return moment(part, field, draft ?? part.initial_date_time, tell);
    case "file_input": return fileField(part, field, blockId, acts);
    default: return el("span", { class: "faint" }, `(${part.type})`);
  }
}

function button(part, blockId, acts) {
  const label = plain(part.text);
  if (part.url) {
    return el("a", { class: `button ${part.style || ""}`, href: part.url, target: "_blank", rel: "noopener noreferrer", onclick: () => acts.press(blockId, part) }, label);
  }
  return el("button", {
    type: "button", class: `button ${part.style || ""}`, "aria-label": part.accessibility_label,
    onclick: async (event) => { await acts.press(blockId, part, undefined, event.currentTarget); },
  }, label);
}

export function menu(items, label, face = "⋯") {
  const list = el("div", { class: "menu-list", role: "menu", hidden: true });
  const opener = el("button", { type: "button", class: "button menu-open", "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": label, onclick: () => toggle(list.hidden) }, face);
  const box = el("div", { class: "menu" }, opener, list);
  const toggle = (open) => {
    list.hidden = !open;
    opener.setAttribute("aria-expanded", String(open));
    if (open) {
      list.classList.remove("up", "left");
      const place = list.getBoundingClientRect();
      if (place.bottom > innerHeight - 8) list.classList.add("up");
      if (place.right > innerWidth - 8) list.classList.add("left");
      list.firstElementChild?.focus();
    }
  };
  list.append(...items.map((item) => el("button", { type: "button", role: "menuitem", class: item.danger ? "danger" : "", onclick: () => { toggle(false); opener.focus(); item.choose(); } }, item.label)));
  box.addEventListener("focusout", (event) => { if (!box.contains(event.relatedTarget)) toggle(false); });
  box.addEventListener("keydown", (event) => {
    const entries = [...list.children];
    const at = entries.indexOf(document.activeElement);
    if (event.key === "Escape" && !list.hidden) { event.stopPropagation(); event.preventDefault(); toggle(false); opener.focus(); }
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) toggle(true);
      else entries[(at + (event.key === "ArrowDown" ? 1 : entries.length - 1)) % entries.length]?.focus();
    }
  });
  return box;
}

function optionNodes(part) {
  const nodes = (options) => options.map((option) => el("option", { value: option.value }, plain(option.text)));
  return part.option_groups ? part.option_groups.map((group) => el("optgroup", { label: plain(group.label) }, nodes(group.options))) : nodes(part.options);
}

function select(part, field, value, tell) {
  const node = el("select", { id: field.id, "aria-label": field.id ? undefined : plain(part.placeholder) || "Choose", onchange: () => tell(node.value) },
    el("option", { value: "" }, plain(part.placeholder) || "Choose…"), optionNodes(part));
  node.value = value ?? "";
  return node;
}

function multi(part, field, values, tell) {
  const node = el("select", { id: field.id, multiple: true, size: 5, "aria-label": field.id ? undefined : plain(part.placeholder), onchange: () => tell([...node.selectedOptions].map((o) => o.value)) }, optionNodes(part));
  for (const option of node.options) option.selected = values.includes(option.value);
  return node;
}

function choices(kind, part, field, values, tell, names) {
  const name = `c${++serial}`;
  const box = el("div", { class: "choices", role: field.id ? undefined : kind === "radio" ? "radiogroup" : "group" });
  for (const option of part.options) {
    const tick = el("input", { type: kind, name, value: option.value, checked: values.includes(option.value), onchange: () => {
      const chosen = [...box.querySelectorAll("input:checked")].map((one) => one.value);
      tell(kind === "radio" ? chosen[0] : chosen);
    } });
    box.append(el("label", { class: "choice" }, tick, el("span", {}, textObject(option.text, names), option.description ? el("small", { class: "faint" }, textObject(option.description, names)) : null)));
  }
  return box;
}

function people(part, field, value, tell, names) {
  const list = part.type === "users_select" ? names.people() : names.channels();
  const node = el("select", { id: field.id, "aria-label": field.id ? undefined : plain(part.placeholder) || "Choose", onchange: () => tell(node.value) },
    el("option", { value: "" }, plain(part.placeholder) || "Choose…"), list.map(([id, label]) => el("option", { value: id }, label)));
  node.value = value ?? "";
  return node;
}

function typed(part, field, draft, acts, blockId) {
  const most = part.max_length || 3000;
  const count = el("span", { class: "count faint", "aria-live": "polite" });
  const node = el(part.multiline ? "textarea" : "input", {
    id: field.id, value: draft ?? part.initial_value ?? "", placeholder: plain(part.placeholder), "aria-label": field.id ? undefined : plain(part.placeholder) || "Text",
    ...(part.multiline ? { rows: 5 } : { type: "text" }),
    oninput: () => { acts.changed(blockId, part, node.value); measure(); },
    onkeydown: (event) => { if (event.key === "Enter" && !part.multiline && field.dispatch) { event.preventDefault(); acts.press(blockId, part, node.value); } },
  });
  const measure = () => {
    const length = node.value.length;
    count.textContent = length > most ? `${length} of ${most} characters: too long for a field. Drop it as a file instead.` : length > most * 0.8 ? `${length} of ${most}` : "";
    count.classList.toggle("error", length > most);
  };
  measure();
  return el("div", { class: "typed" }, node, count);
}

function simple(part, field, value, type, acts, blockId, tell) {
  const node = el("input", { id: field.id, type, value: value ?? "", placeholder: plain(part.placeholder), "aria-label": field.id ? undefined : plain(part.placeholder) || type,
    oninput: () => acts.changed(blockId, part, node.value), onchange: () => tell?.(node.value) });
  if (part.type === "number_input") node.inputMode = part.is_decimal_allowed ? "decimal" : "numeric";
  return node;
}

function moment(part, field, value, tell) {
  const local = value ? new Date(value * 1000 - new Date().getTimezoneOffset() * 60000).toISOString().slice(0, 16) : "";
  const node = el("input", { id: field.id, type: "datetime-local", value: local, onchange: () => tell(node.value ? Math.floor(new Date(node.value).getTime() / 1000) : null) });
  return node;
}

function fileField(part, field, blockId, acts) {
  const types = (part.filetypes || []).map((kind) => `.${kind}`).join(",");
  const note = el("span", { class: "faint" });
  const node = el("input", { id: field.id, type: "file", accept: types, multiple: (part.max_files ?? 10) > 1, onchange: async () => {
    note.textContent = "Uploading…";
    const ids = [];
    for (const file of node.files) ids.push(await acts.upload(file));
    acts.changed(blockId, part, ids.filter(Boolean));
    note.textContent = `${ids.filter(Boolean).length} file(s) ready`;
  } });
  return el("div", {}, node, note);
}
