//! The readable text of HTML: what a reader sees, with headings, lists, tables and links marked in plain
//! text. No parser of the standard, only a walk over tags, each once; what is not closed or not nested right
//! costs order and nothing else.

use crate::address::resolve;
use crate::entities;
use crate::tags::{attribute, find_tag, split_tag};

/// Elements whose content nobody reads.
const HIDDEN: [&str; 10] =
    ["script", "style", "noscript", "template", "svg", "iframe", "object", "select", "title", "head"];

/// Elements around what a page is about.
const AROUND: [&str; 4] = ["nav", "footer", "aside", "form"];

/// Elements that begin a new line.
const BLOCKS: [&str; 29] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "hr",
    "main",
    "nav",
    "ol",
    "option",
    "p",
    "pre",
    "section",
    "summary",
    "table",
    "tbody",
    "textarea",
    "thead",
    "ul",
];

/// The most links that are listed.
const MOST_LINKS: usize = 500;

/// A text shorter than this may be all that there is outside of forms and menus: then those are read too.
const SHORT: usize = 200;

/// A page as text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Readable {
    pub(crate) title: Option<String>,
    /// A link stands as `[n]` behind its words.
    pub(crate) text: String,
    /// What `[1]` and so on stand for, absolute.
    pub(crate) links: Vec<String>,
}

/// Reads a page; `url` is its address.
pub(crate) fn read(url: &str, html: &str) -> Readable {
    let title = find_title(html);
    let mut page = Walk::over(url, html, true);
    if page.text.chars().nth(SHORT).is_none() {
        page = Walk::over(url, html, false);
    }
    page.title = title;
    page
}

fn find_title(html: &str) -> Option<String> {
    let from = find_tag(html, "<title")?;
    let (_, behind) = html.get(from..)?.split_once('>')?;
    let title = behind.get(..find_tag(behind, "</title")?)?;
    let title = entities::resolve(title);
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    (!title.is_empty()).then_some(title)
}

/// The state of a walk over a page.
struct Walk<'a> {
    url: &'a str,
    base: Option<String>,
    page: Readable,
    /// The number of the link whose words are being read.
    open_link: Option<usize>,
    /// Whether white space is kept.
    is_preformatted: bool,
    skips_around: bool,
    /// Elements that have no end in what is left, so that it is looked for once.
    endless: Vec<String>,
}

impl<'a> Walk<'a> {
    fn over(url: &'a str, html: &str, skips_around: bool) -> Readable {
        let page = Readable { text: String::with_capacity(html.len() / 4), ..Readable::default() };
        let mut walk = Self {
            url,
            base: None,
            page,
            open_link: None,
            is_preformatted: false,
            skips_around,
            endless: Vec::new(),
        };
        let mut rest = html;
        while let Some((before, behind)) = rest.split_once('<') {
            walk.push(before);
            if let Some(comment) = behind.strip_prefix("!--") {
                rest = comment.split_once("-->").map_or("", |(_, behind)| behind);
                continue;
            }
            if !behind.starts_with(|one: char| one.is_ascii_alphabetic() || matches!(one, '/' | '!' | '?')) {
                walk.push("<");
                rest = behind;
                continue;
            }
            let (tag, behind) = split_tag(behind);
            rest = walk.tag(tag, behind);
        }
        walk.push(rest);
        walk.page.text = tidy(&walk.page.text);
        walk.page
    }

    /// Takes note of a tag and returns what is to be read next.
    fn tag<'h>(&mut self, tag: &str, behind: &'h str) -> &'h str {
        let is_end = tag.starts_with('/');
        let inner = tag.strip_prefix('/').unwrap_or(tag);
        let name: String =
            inner.chars().take_while(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        let name = name.as_str();
        let is_skipped = HIDDEN.contains(&name) || (self.skips_around && AROUND.contains(&name));
        if is_skipped && !is_end && !tag.ends_with('/') {
            if name == "head" {
                self.read_base(behind);
            }
            self.line();
            return self.behind_end(behind, name);
        }
        match name {
            "a" => self.link(is_end, inner),
            "pre" => self.is_preformatted = !is_end,
            "img" => {
                if let Some(words) = attribute(inner, "alt").filter(|words| !words.trim().is_empty()) {
                    self.push(&words);
                }
            }
            "td" | "th" if !is_end && !self.page.text.is_empty() && !self.page.text.ends_with('\n') => {
                self.page.text.push_str(" | ")
            }
            _ => {}
        }
        match (name, is_end) {
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", false) => {
                self.paragraph();
                let level = name.chars().nth(1).and_then(|level| level.to_digit(10)).unwrap_or(1);
                self.page.text.extend((0..level).map(|_| '#'));
                self.page.text.push(' ');
            }
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "p" | "table" | "ul" | "ol", _) => self.paragraph(),
            ("li", false) => {
                self.line();
                self.page.text.push_str("- ");
            }
            ("tr", _) => self.line(),
            _ if BLOCKS.contains(&name) => self.line(),
            _ => {}
        }
        behind
    }

    /// What links are relative to, if the page says so.
    fn read_base(&mut self, head: &str) {
        let tag = find_tag(head, "<base").and_then(|at| head.get(at + 1..)).map(|tag| split_tag(tag).0);
        let base = tag.and_then(|tag| attribute(tag, "href"));
        self.base = base.and_then(|base| resolve(self.url, &base));
    }

    fn link(&mut self, is_end: bool, tag: &str) {
        if let Some(number) = self.open_link.take() {
            // Behind the words, not behind the end of their line.
            let text = &mut self.page.text;
            let spaces = text.bytes().rev().take(4).take_while(u8::is_ascii_whitespace).count();
            text.insert_str(text.len() - spaces, &format!(" [{number}]"));
        }
        if is_end {
            return;
        }
        let base = self.base.as_deref().unwrap_or(self.url);
        let Some(address) = attribute(tag, "href").and_then(|link| resolve(base, &link)) else { return };
        let known = self.page.links.iter().position(|other| *other == address);
        self.open_link = match known {
            Some(index) => Some(index + 1),
            None if self.page.links.len() == MOST_LINKS => None,
            None => {
                self.page.links.push(address);
                Some(self.page.links.len())
            }
        };
    }

    /// What stands behind the end tag of that name; nothing when there is none, unless the element may be
    /// left open.
    fn behind_end<'h>(&mut self, html: &'h str, name: &str) -> &'h str {
        let is_endless = self.endless.iter().any(|other| other == name);
        let found = if is_endless { None } else { find_tag(html, &format!("</{name}")) };
        match found.and_then(|at| html.get(at..)?.split_once('>')) {
            Some((_, behind)) => behind,
            // `head` may be left open, and what is around a page without an end is no reason to read nothing.
            None if name == "head" || AROUND.contains(&name) => {
                self.endless.push(name.to_owned());
                html
            }
            None => "",
        }
    }

    fn line(&mut self) {
        let text = &mut self.page.text;
        text.truncate(text.trim_end_matches(' ').len());
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
    }

    fn paragraph(&mut self) {
        self.line();
        if !self.page.text.is_empty() && !self.page.text.ends_with("\n\n") {
            self.page.text.push('\n');
        }
    }

    /// Appends a piece of text, white space as one space unless it is kept.
    fn push(&mut self, piece: &str) {
        for one in entities::resolve(piece).chars() {
            let text = &mut self.page.text;
            if self.is_preformatted {
                text.push(one);
            } else if one == '\u{ad}' {
                // A soft hyphen says where a word may be broken.
            } else if !one.is_whitespace() {
                text.push(one);
            } else if !text.is_empty() && !text.ends_with([' ', '\n']) {
                text.push(' ');
            }
        }
    }
}

/// At most one empty line in a row, and no line that is only a mark.
fn tidy(text: &str) -> String {
    let mut tidied = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.lines().map(str::trim_end) {
        let is_mark = matches!(line.trim(), "-" | "|" | "#" | "##" | "###" | "####" | "#####" | "######");
        if line.is_empty() || is_mark {
            empty += 1;
            continue;
        }
        if !tidied.is_empty() {
            tidied.push_str(if empty > 0 { "\n\n" } else { "\n" });
        }
        empty = 0;
        tidied.push_str(line);
    }
    tidied
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::read;

    const URL: &str = "https://example.org/docs/";

    fn text(html: &str) -> String {
        read(URL, html).text
    }

    #[test]
    fn a_page_is_read_as_a_reader_sees_it() {
        let page = read(
            URL,
            "<!doctype html><html><head><title>A &amp;\n B</title><style>p{}</style></head>
            <body><!-- no --><SCRIPT>if (a < b) {}</SCRIPT ><h1 class=x>Head</h1><p>One   <b>two</b>&nbsp;three&#8230;</p>
            <ul><li>1</li><li><p>2</ul> 4 &lt; 5 &unknown; <img src=x alt='a cat'></body>",
        );
        assert_eq!(page.title.as_deref(), Some("A & B"));
        assert_eq!(page.text, "# Head\n\nOne two three…\n\n- 1\n\n2\n\n4 < 5 &unknown; a cat");
    }

    #[test]
    fn links_are_numbered_and_absolute() {
        let page = read(
            URL,
            "<a href='x?a=1&amp;b=2'>One </a>and <a class=y href=/two>two</a>, <a href='x?a=1&amp;b=2'>again</a>,
             <a href=#top>up</a> <a href='javascript:x()'>run</a> <a href='three'>open",
        );
        assert_eq!(page.text, "One [1] and two [2], again [1], up run open");
        assert_eq!(
            page.links,
            [
                "https://example.org/docs/x?a=1&b=2",
                "https://example.org/two",
                "https://example.org/docs/three"
            ]
        );
        let based = read(URL, "<head><base href='/other/'></head><a href=x>x</a>");
        assert_eq!(based.links, ["https://example.org/other/x"]);
    }

    #[test]
    fn tables_and_preformatted_text_keep_their_form() {
        assert_eq!(text("<table><tr><th>a<th>b</tr><tr><td>1</td><td>2</td></tr></table>"), "a | b\n1 | 2");
        assert_eq!(text("<pre>fn x() {\n    1\n}</pre><p>y"), "fn x() {\n    1\n}\n\ny");
    }

    #[test]
    fn menus_are_left_out_when_there_is_more() {
        let long = "word ".repeat(100);
        assert_eq!(text(&format!("<nav>Menu</nav><p>{long}</p><footer>Foot</footer>")), long.trim());
        assert_eq!(text("<nav>Menu</nav><p>Short</p>"), "Menu\n\nShort");
        assert_eq!(text(&format!("<nav>{long}")), long.trim());
    }

    #[test]
    fn careless_pages_are_read() {
        for (html, expected) in [
            ("", ""),
            ("a < b", "a < b"),
            ("<script>x", ""),
            ("<!-- x", ""),
            ("plain", "plain"),
            ("<a title='>' href=x>y</a>", "y [1]"),
            ("<p title=\"x>y", "y"),
            ("<p it's>y", "y"),
            ("<p", ""),
            ("x<title>", "x"),
        ] {
            assert_eq!(text(html), expected, "{html}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(html in "(<|>|&|;|#|!--|-->|/|script|nav|head|base|title|pre|li|td|h1|p|a| href=|'|\"|=| |é){0,60}") {
            read(URL, &html);
        }
    }
}
