"use strict";
// Shows /openapi.json. Whatever comes from it is put in as text, never as markup.

/** An element with attributes and children; a child that is no element is a text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

/** Paragraphs, with what stands between backticks as code. */
function prose(text) {
  return (text ?? "").split("\n\n").filter(Boolean).map((paragraph) =>
    element("p", {}, ...paragraph.split("`").map((part, index) => (index % 2 ? element("code", {}, part) : part))));
}

/** What a schema, a header or the like refers to. */
function resolve(api, value) {
  const path = value?.$ref?.split("/").slice(1);
  return path ? path.reduce((at, key) => at?.[key], api) : value;
}

/** The name of a schema that is referred to. */
const nameOf = (schema) => schema?.$ref?.split("/").pop();

/** One line about the kind of a value. */
function kind(schema) {
  if (schema.$ref) return element("a", { href: `#schema-${nameOf(schema)}` }, nameOf(schema));
  if (schema.items) return element("span", {}, "list of ", kind(schema.items));
  const several = schema.oneOf ?? schema.anyOf ?? schema.allOf;
  if (several) return element("span", {}, ...several.flatMap((one, index) => [index ? (schema.allOf ? " and " : " or ") : "", kind(one)]));
  if (schema.additionalProperties?.$ref) return element("span", {}, "map of ", kind(schema.additionalProperties));
  return document.createTextNode([schema.type ?? "any value"].flat().join(" or "));
}

/** What a value may be beyond its kind. */
function limits(schema) {
  const words = {
    minLength: "at least # characters", maxLength: "at most # characters", minimum: "≥ #", maximum: "≤ #",
    exclusiveMinimum: "> #", maxItems: "at most # elements", minItems: "at least # elements", pattern: "matches #",
    format: "#", default: "default #",
  };
  const said = Object.entries(words).filter(([key]) => schema[key] !== undefined)
    .map(([key, text]) => text.replace("#", () => String(schema[key])));
  if (schema.enum) said.push(`one of ${schema.enum.join(", ")}`);
  return said.join(", ");
}

/** The fields of an object, one a row. */
function fields(api, schema) {
  const rows = Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const example = (field.examples ?? [])[0];
    return element("tr", {},
      element("td", {}, element("code", {}, name), (schema.required ?? []).includes(name) ? " *" : ""),
      element("td", {}, kind(field), element("div", { class: "soft" }, limits(field))),
      element("td", {}, ...prose(field.description),
        example === undefined ? null : element("code", { class: "soft" }, JSON.stringify(example))));
  });
  const head = element("tr", {}, ...["Field", "Kind", "Meaning"].map((text) => element("th", { scope: "col" }, text)));
  const parts = schema.allOf ?? schema.oneOf ?? schema.anyOf ?? [];
  const inner = parts.filter((part) => part.properties).flatMap((part) => [...prose(part.description), fields(api, part)]);
  return element("div", {}, rows.length ? element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)) : null, ...inner);
}

/** A body: its kinds and examples. */
function content(api, media) {
  return Object.entries(media ?? {}).map(([type, { schema, examples }]) => element("div", {},
    element("p", {}, element("code", {}, type), schema ? " " : "", schema ? kind(schema) : null),
    ...(schema && !schema.$ref ? [fields(api, schema)] : []),
    ...Object.values(examples ?? {}).map(({ value }) =>
      element("pre", {}, typeof value === "string" ? value : JSON.stringify(value, null, 2)))));
}

function operation(api, path, method, one) {
  const parameters = {
    properties: Object.fromEntries((one.parameters ?? []).map(({ name, in: place, schema, description }) =>
      [name, { ...schema, description: `${description} (${place})` }])),
    required: (one.parameters ?? []).filter(({ required }) => required).map(({ name }) => name),
  };
  const roles = one.security?.flatMap((way) => Object.values(way).flat()) ?? null;
  return element("section", { id: one.operationId, "aria-labelledby": `${one.operationId}-title` },
    element("h3", { id: `${one.operationId}-title` }, element("span", { class: "method" }, method), " ", element("code", {}, path)),
    element("p", {}, element("strong", {}, one.summary)),
    ...prose(one.description),
    roles ? element("p", { class: "soft" }, `With a bearer token${roles.length ? ` of role ${roles.join(", ")}` : ""}.`) : null,
    one.parameters ? element("h4", {}, "Parameters") : null,
    one.parameters ? fields(api, parameters) : null,
    ...(one.requestBody ? [element("h4", {}, one.requestBody.required ? "Body" : "Body (may be left out)"), ...content(api, one.requestBody.content)] : []),
    element("h4", {}, "Answers"),
    ...Object.entries(one.responses).map(([status, answer]) => element("details", status < 300 ? { open: "" } : {},
      element("summary", {}, element("strong", {}, status), ` ${answer.description}`),
      element("table", {}, element("tbody", {}, ...Object.entries(answer.headers ?? {}).map(([name, header]) =>
        element("tr", {}, element("td", {}, element("code", {}, name)), element("td", {}, resolve(api, header).description))))),
      ...content(api, answer.content))));
}

function show(api) {
  const main = document.getElementById("content");
  const list = document.getElementById("list");
  main.replaceChildren(element("h1", {}, `${api.info.title} ${api.info.version}`), ...prose(api.info.description));
  for (const tag of api.tags) {
    list.append(element("h2", {}, tag.name));
    main.append(element("h2", {}, tag.name), ...prose(tag.description));
    for (const [path, methods] of Object.entries(api.paths)) {
      for (const [method, one] of Object.entries(methods)) {
        if (!one.tags.includes(tag.name)) continue;
        list.append(element("a", { href: `#${one.operationId}` }, element("span", { class: "method" }, method), ` ${path}`));
        main.append(operation(api, path, method, one));
      }
    }
  }
  main.append(element("h2", {}, "Schemas"));
  for (const [name, schema] of Object.entries(api.components.schemas)) {
    main.append(element("section", { id: `schema-${name}` }, element("h3", {}, name), ...prose(schema.description),
      element("p", {}, kind({ ...schema, $ref: undefined }), " ", limits(schema)), fields(api, schema)));
  }
  document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

document.getElementById("filter").addEventListener("input", ({ target }) => {
  const wanted = target.value.toLowerCase();
  for (const link of document.querySelectorAll("#list a")) link.hidden = !link.textContent.toLowerCase().includes(wanted);
});

fetch("../openapi.json")
  .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(`it was answered with ${answer.status}`))))
  .then(show)
  .catch((error) => {
    document.getElementById("status").textContent = `openapi.json cannot be read: ${error.message}. Reload the page.`;
  });
