"use strict";
// Searches the pages: shows the sections that have every word, those that have them in their titles first.
// Texts are put in as text, never as markup.

const MOST = 30;
const root = document.body.dataset.root;
const [words, status, found, list] = ["words", "status", "found", "list"].map((id) => document.getElementById(`page-${id}`));
let entries = null;

/** What is searched, asked for once. */
function read() {
  entries ??= fetch(`${root}search.json`)
    .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(`status ${answer.status}`))))
    .then(({ sections }) => sections)
    .catch((error) => {
      entries = null;
      throw error;
    });
  return entries;
}

/** The sections that have all the words. */
function matches(all, wanted) {
  const has = (text) => wanted.every((word) => text.toLowerCase().includes(word));
  const inTitle = all.filter(({ title }) => has(title));
  return [...inTitle, ...all.filter((entry) => !inTitle.includes(entry) && has(`${entry.title} ${entry.text}`))];
}

/** Some of the text around the first of the words. */
function excerpt(text, wanted) {
  const at = Math.max(0, ...wanted.map((word) => text.toLowerCase().indexOf(word)));
  const from = Math.max(0, at - 40);
  return `${from > 0 ? "…" : ""}${text.slice(from, from + 120)}…`;
}

function show(sections, wanted) {
  status.textContent = `${sections.length} found`;
  found.replaceChildren(...sections.slice(0, MOST).map(({ place, title, text }) => {
    const link = document.createElement("a");
    link.href = root + (place === "README" ? "../docs" : place);
    const more = document.createElement("small");
    more.textContent = excerpt(text, wanted);
    link.append(title, more);
    return link;
  }));
}

async function search() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  list.hidden = wanted.length > 0;
  if (wanted.length === 0) {
    status.textContent = "";
    found.replaceChildren();
    return;
  }
  try {
    const all = await read();
    // Somebody may have typed on meanwhile.
    if (wanted.join(" ") === words.value.toLowerCase().split(/\s+/).filter(Boolean).join(" ")) show(matches(all, wanted), wanted);
  } catch (error) {
    status.textContent = `The search cannot be read: ${error.message}. Reload the page.`;
  }
}

words.addEventListener("input", search);
