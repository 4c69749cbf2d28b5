//! The pages of the documentation, and their order.

use std::sync::LazyLock;

use super::links;
use super::sources::{TEXTS, place};

/// The page that is the index.
pub(super) const INDEX: &str = "README";

/// A page of the documentation.
#[derive(Debug, Clone)]
pub struct Page {
    /// Name of the page, such as `api/streams`: what is behind `/docs/`.
    pub name: String,
    /// Heading of the page.
    pub title: String,
    /// First sentences of the page: what its reader can do after it.
    pub about: String,
    /// The whole page, with its links as they are where it is served.
    pub markdown: String,
}

/// Folders in the order in which people look for things; others are behind them.
const ORDER: [&str; 8] = ["", "api", "tools", "operate", "reference", "interface", "evidence", "internals"];

static PAGES: LazyLock<Vec<Page>> = LazyLock::new(|| {
    let markdown = TEXTS.iter().filter(|(source, _)| source.ends_with(".md"));
    let mut pages: Vec<_> = markdown.map(|(source, text)| Page::read(source, text)).collect();
    pages.sort_by_key(|page| {
        let folder = page.folder();
        let rank = ORDER.iter().position(|known| *known == folder).unwrap_or(ORDER.len());
        (rank, folder.to_owned(), page.file() != INDEX, page.name.clone())
    });
    pages
});

/// Every page: the index first, then folder by folder, the first page of each folder first.
pub fn pages() -> &'static [Page] {
    &PAGES
}

impl Page {
    fn read(source: &str, text: &str) -> Self {
        let markdown = links::as_served(source, text);
        let mut parts = markdown.split("\n\n");
        let title = parts.next().unwrap_or_default().trim_start_matches('#').trim().to_owned();
        let about = parts.next().unwrap_or_default().replace('\n', " ");
        let name = place(source).trim_end_matches(".md").to_owned();
        Self { name, title, about: links::without(&about), markdown }
    }

    /// The folder that it is in, or nothing.
    pub(super) fn folder(&self) -> &str {
        self.name.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    fn file(&self) -> &str {
        self.name.rsplit_once('/').map_or(self.name.as_str(), |(_, file)| file)
    }
}
