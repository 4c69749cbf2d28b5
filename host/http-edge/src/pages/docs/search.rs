//! What the search looks in: every section of every page, as one JSON text that the script filters.

use serde::Serialize;
use serde_json::json;

use super::html;
use super::pages::pages;

#[derive(Serialize)]
struct Entry {
    /// The page and the heading in it, behind `/docs/`.
    place: String,
    title: String,
    text: String,
}

pub(super) fn index() -> Vec<u8> {
    let mut entries = Vec::new();
    for page in pages() {
        for section in html::sections(&page.markdown) {
            let (mut place, mut title) = (page.name.clone(), page.title.clone());
            if !section.anchor.is_empty() {
                place = format!("{place}#{}", section.anchor);
                title = format!("{title}: {}", section.heading);
            }
            entries.push(Entry { place, title, text: section.text });
        }
    }
    // Texts are always JSON.
    serde_json::to_vec(&json!({ "sections": entries })).unwrap_or_default()
}
