//! Markdown to HTML, and to the texts that are searched.

use pulldown_cmark::{Alignment, CowStr, Event, Parser, Tag, TagEnd};

use super::links::OPTIONS;

/// A page in pieces, each from one heading to the next.
#[derive(Debug)]
pub(super) struct Section {
    /// What stands behind `#` to get there; nothing for the beginning of the page.
    pub(super) anchor: String,
    pub(super) heading: String,
    pub(super) text: String,
}

/// The page's content. `root` is in front of links between pages.
pub(super) fn render(markdown: &str, root: &str) -> String {
    let mut events: Vec<Event<'_>> = Vec::new();
    let mut heading = None;
    for event in Parser::new_ext(markdown, OPTIONS) {
        match event {
            // Marks for tests, such as `<!-- shown -->`. No page has HTML of its own.
            Event::Html(_) => continue,
            Event::InlineHtml(text) => events.push(Event::Text(text)),
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let dest_url = CowStr::from(address(&dest_url, root));
                events.push(Event::Start(Tag::Link { link_type, dest_url, title, id }));
            }
            // Aligned columns would be styled inline, which the policy forbids.
            Event::Start(Tag::Table(columns)) => {
                events.push(Event::Start(Tag::Table(vec![Alignment::None; columns.len()])));
            }
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                let dest_url = CowStr::from(format!("{root}{dest_url}"));
                events.push(Event::Start(Tag::Image { link_type, dest_url, title, id }));
            }
            Event::Start(Tag::Heading { .. }) => {
                heading = Some((events.len(), String::new()));
                events.push(event);
            }
            Event::End(TagEnd::Heading(_)) => {
                if let Some((at, text)) = heading.take()
                    && let Some(Event::Start(Tag::Heading { id, .. })) = events.get_mut(at)
                {
                    *id = Some(CowStr::from(anchor(&text)));
                }
                events.push(event);
            }
            event => {
                if let (Some((_, written)), Event::Text(text) | Event::Code(text)) = (&mut heading, &event) {
                    written.push_str(text);
                }
                events.push(event);
            }
        }
    }
    let mut html = String::with_capacity(markdown.len() * 2);
    pulldown_cmark::html::push_html(&mut html, events.into_iter());
    html
}

/// Where a link of a page leads on the server: to the page, not to its Markdown.
fn address(target: &str, root: &str) -> String {
    if target.contains("://") || target.starts_with('#') {
        return target.to_owned();
    }
    let (path, anchor) = target.find('#').map_or((target, ""), |at| target.split_at(at));
    format!("{root}{}{anchor}", path.trim_end_matches(".md"))
}

/// The name of a heading in links, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>().to_lowercase()
}

/// The page's texts without marks, by its headings of the second rank.
pub(super) fn sections(markdown: &str) -> Vec<Section> {
    let mut sections = vec![Section { anchor: String::new(), heading: String::new(), text: String::new() }];
    let mut is_heading = false;
    for event in Parser::new_ext(markdown, OPTIONS) {
        let Some(section) = sections.last_mut() else { return sections };
        match event {
            Event::Start(Tag::Heading { level, .. }) if level as u8 == 2 => {
                sections.push(Section { anchor: String::new(), heading: String::new(), text: String::new() });
                is_heading = true;
            }
            Event::End(TagEnd::Heading(level)) if level as u8 == 2 => {
                section.anchor = anchor(&section.heading);
                is_heading = false;
            }
            Event::Text(text) | Event::Code(text) if is_heading => section.heading.push_str(&text),
            Event::Text(text) | Event::Code(text) | Event::InlineHtml(text) => section.text.push_str(&text),
            // Words of neighbours stay apart: cells and code blocks end here, too.
            Event::SoftBreak | Event::HardBreak | Event::End(_) if !section.text.ends_with([' ', '\n']) => {
                section.text.push(' ');
            }
            _ => {}
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_html_without_html_of_its_own() {
        let page = "# A `b` c\n\n<!-- shown -->\n\n## What a 409 means\n\n[x](y.md#z) <b>![p](i.png) [o](https://o.x/a.md)\n";
        let html = render(page, "docs/");
        assert_eq!(
            html,
            "<h1 id=\"a-b-c\">A <code>b</code> c</h1>\n<h2 id=\"what-a-409-means\">What a 409 means</h2>\n\
             <p><a href=\"docs/y#z\">x</a> &lt;b&gt;<img src=\"docs/i.png\" alt=\"p\" /> \
             <a href=\"https://o.x/a.md\">o</a></p>\n"
        );
    }

    #[test]
    fn the_search_finds_sections() {
        let page = "# A\n\nFirst\nline.\n\n## B `c`\n\n| d | e |\n|---|---|\n| f | g |\n";
        let found: Vec<_> =
            sections(page).into_iter().map(|one| (one.anchor, one.heading, one.text)).collect();
        let piece = |anchor: &str, heading: &str, text: &str| (anchor.into(), heading.into(), text.into());
        assert_eq!(found, [piece("", "", "A First line. "), piece("b-c", "B c", "d e f g ")]);
    }
}
