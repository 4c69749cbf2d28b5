//! `agent-host docs`: the pages that a service has at `/docs`, in the terminal.

use std::fmt::Write as _;

use agent_core::nearest_word::nearest_word;
use anyhow::bail;
use clap::Args;
use host_setup::output::{json_line, print};
use http_edge::{DocumentPage, document_pages};
use serde_json::json;

use super::Exit;

/// The pages of the documentation.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The page, such as api/streams; without one, all are listed
    page: Option<String>,
}

pub(super) fn run(arguments: &Arguments, json: bool) -> anyhow::Result<Exit> {
    let pages = document_pages();
    let text = match &arguments.page {
        None if json => {
            let listed = pages
                .iter()
                .map(|page| json!({ "page": page.name, "title": page.title, "about": page.about }));
            json_line(&listed.collect())
        }
        None => list(pages),
        Some(name) => {
            let page = find(pages, name)?;
            match json {
                true => json_line(&json!({ "page": page.name, "title": page.title, "text": page.markdown })),
                false => page.markdown.clone(),
            }
        }
    };
    print(&text)?;
    Ok(Exit::Success)
}

fn list(pages: &[DocumentPage]) -> String {
    let width = pages.iter().map(|page| page.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for page in pages {
        // silent-ok: nothing fails that writes into a string.
        let _ = writeln!(text, "{:width$}  {}", page.name, page.title);
    }
    text
}

/// The page of that name, or the only one whose name ends in it.
fn find<'a>(pages: &'a [DocumentPage], asked: &str) -> anyhow::Result<&'a DocumentPage> {
    let name = asked.trim_end_matches(".md").trim_end_matches('/').to_lowercase();
    // The folders have their names from the path in the repository, and `/docs/` on a service.
    let name = name.rsplit_once("docs/").map_or(name.as_str(), |(_, name)| name);
    let same = |page: &&DocumentPage| page.name.to_lowercase() == name;
    if let Some(page) = pages.iter().find(same) {
        return Ok(page);
    }
    let ends = |page: &&DocumentPage| last(page).to_lowercase() == name;
    let found: Vec<_> = pages.iter().filter(ends).collect();
    if let [page] = found.as_slice() {
        return Ok(page);
    }
    let first = |page: &&DocumentPage| page.name.to_lowercase() == format!("{name}/readme");
    if let Some(page) = pages.iter().find(first) {
        return Ok(page);
    }
    let near =
        if found.is_empty() { near(pages, name) } else { found.iter().map(|page| &*page.name).collect() };
    let meant = match near.as_slice() {
        [] => "`agent-host docs` lists them".to_owned(),
        names => format!("did you mean {}?", names.join(" or ")),
    };
    bail!("there is no page {asked}: {meant}");
}

/// The pages whose names are like that one, as a whole or in their last part, or have it in them.
fn near<'a>(pages: &'a [DocumentPage], name: &str) -> Vec<&'a str> {
    let names: Vec<_> = pages.iter().map(|page| &*page.name).collect();
    let within = names.iter().copied().filter(|known| !name.is_empty() && known.contains(name));
    let lasts: Vec<_> = pages.iter().map(last).collect();
    let like = nearest_word(last_of(name), &lasts);
    let like = pages.iter().filter(|page| Some(last(page)) == like).map(|page| &*page.name);
    let mut near: Vec<_> = nearest_word(name, &names).into_iter().chain(like).chain(within).collect();
    let mut seen = std::collections::BTreeSet::new();
    near.retain(|name| seen.insert(*name));
    near.truncate(3);
    near
}

fn last(page: &DocumentPage) -> &str {
    last_of(&page.name)
}

fn last_of(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(asked: &str) -> Result<&'static str, String> {
        find(document_pages(), asked).map(|page| &*page.name).map_err(|error| error.to_string())
    }

    #[test]
    fn a_page_is_found_by_its_name_by_the_end_of_it_and_by_its_place() {
        for (asked, name) in [
            ("api/streams", "api/streams"),
            ("streams", "api/streams"),
            ("Streams.md", "api/streams"),
            ("host/docs/api/streams.md", "api/streams"),
            ("operate", "operate/README"),
            ("api/", "api/README"),
            ("runbook", "deploy/runbook"),
            ("architecture", "ARCHITECTURE"),
            ("README", "README"),
        ] {
            assert_eq!(found(asked).as_deref(), Ok(name), "{asked}");
        }
    }

    #[test]
    fn an_unknown_page_is_answered_with_those_that_may_be_meant() {
        for (asked, meant) in [
            ("stream", "did you mean api/streams?"),
            ("api/streems", "did you mean api/streams?"),
            ("polcy", "operate/policy"),
            // There are two of them: keys of the reference, and how to write one.
            ("policy", "did you mean operate/policy or reference/policy?"),
            ("zzz", "`agent-host docs` lists them"),
        ] {
            let error = found(asked).unwrap_err();
            assert!(error.starts_with("there is no page ") && error.contains(meant), "{asked}: {error}");
        }
    }
}
