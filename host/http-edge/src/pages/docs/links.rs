//! Links of pages: from the repository's paths to those that are served.
//!
//! A served page is Markdown whose links lead to other served files. What a link leads to that is not served
//! stands there as its path in the repository.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag};

use super::sources::{place, served};

/// What pages are written in beyond CommonMark.
pub(super) const OPTIONS: Options = Options::ENABLE_TABLES;

/// A page of the repository, as it is served.
pub(super) fn as_served(source: &str, text: &str) -> String {
    replacing(text, |label, target| {
        let (path, anchor) = target.find('#').map_or((target, ""), |at| target.split_at(at));
        if path.is_empty() || target.contains("://") {
            return None;
        }
        let path = resolve(source, path);
        Some(match served(&path) {
            Some(place_of_target) => {
                format!("[{label}]({}{anchor})", relative(place(source), place_of_target))
            }
            None if path.ends_with(label.trim_matches('`')) => format!("`{path}`"),
            None => format!("{label} (`{path}`)"),
        })
    })
}

/// A text with the labels of its links only.
pub(super) fn without(text: &str) -> String {
    replacing(text, |label, _| Some(label.to_owned()))
}

/// A text with some of its links replaced. The function is told what each shows and where it leads.
fn replacing(text: &str, replace: impl Fn(&str, &str) -> Option<String>) -> String {
    let (mut replaced, mut done) = (String::with_capacity(text.len()), 0);
    for (range, target) in links(text) {
        let written = text.get(range.clone()).unwrap_or_default();
        let label = written.rfind(&format!("]({target})")).and_then(|end| written.get(..end));
        let Some(label) = label.filter(|_| range.start >= done) else { continue };
        // A picture stays one: its mark goes before the bracket.
        let (mark, label) = label.split_at(label.find('[').unwrap_or_default());
        if let Some(other) = replace(label.trim_start_matches('['), &target) {
            replaced.push_str(text.get(done..range.start).unwrap_or_default());
            replaced.push_str(mark);
            replaced.push_str(&other);
            done = range.end;
        }
    }
    replaced.push_str(text.get(done..).unwrap_or_default());
    replaced
}

/// The links and pictures of a text: where they are written, and where they lead.
fn links(text: &str) -> impl Iterator<Item = (Range<usize>, String)> {
    Parser::new_ext(text, OPTIONS).into_offset_iter().filter_map(|(event, range)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some((range, dest_url.into_string()))
        }
        _ => None,
    })
}

/// A path that is written in a file, seen from the root.
fn resolve(from: &str, path: &str) -> String {
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// How one file names another one.
pub(super) fn relative(from: &str, to: &str) -> String {
    let (from, to): (Vec<_>, Vec<_>) = (from.split('/').collect(), to.split('/').collect());
    let most = (from.len() - 1).min(to.len() - 1);
    let common = from.iter().zip(&to).take(most).take_while(|(one, other)| one == other).count();
    let ups = from.iter().skip(common + 1).map(|_| "..");
    ups.chain(to.into_iter().skip(common)).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_where_the_other_is_served_or_say_where_it_is_in_the_repository() {
        let page = "host/docs/api/streams.md";
        for (written, expected) in [
            ("[a](runs.md#x), [b](../operate/redis.md)", "[a](runs.md#x), [b](../operate/redis.md)"),
            ("[book](../../deploy/runbook.md#agenthostdown)", "[book](../deploy/runbook.md#agenthostdown)"),
            ("[wit](../../../wit/tool.wit)", "[wit](../wit/tool.wit)"),
            ("[front](../../../README.md)", "[front](../README.md)"),
            ("[the image](../../../Dockerfile).", "the image (`Dockerfile`)."),
            ("[`Dockerfile`](../../../Dockerfile)", "`Dockerfile`"),
            ("![run](../images/console-run.png)", "![run](../images/console-run.png)"),
            ("[out](https://example.com/a.md), [here](#a)", "[out](https://example.com/a.md), [here](#a)"),
            ("`[code](x.md)`", "`[code](x.md)`"),
        ] {
            assert_eq!(as_served(page, written), expected);
        }
        assert_eq!(
            as_served("host/deploy/runbook.md", "[s](../docs/reference/settings.md)"),
            "[s](../reference/settings.md)"
        );
        assert_eq!(without("see [`a`](b.md)."), "see `a`.");
    }
}
