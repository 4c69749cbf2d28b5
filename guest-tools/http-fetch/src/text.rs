//! The readable text of HTML: without tags, scripts and styles, with the common entities resolved.

/// Elements whose content nobody reads.
const HIDDEN: [&str; 4] = ["script", "style", "noscript", "template"];

/// Elements that begin a new line.
const BLOCKS: [&str; 14] =
    ["p", "br", "div", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "section", "article", "title"];

/// What a reader sees of a page, more or less.
pub(crate) fn of_html(html: &str) -> String {
    let mut text = String::with_capacity(html.len() / 2);
    let mut rest = html;
    while let Some((before, behind)) = rest.split_once('<') {
        push(&mut text, before);
        if let Some(comment) = behind.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, behind)| behind);
            continue;
        }
        let Some((tag, behind)) = behind.split_once('>') else {
            return text.trim().to_owned();
        };
        rest = behind;
        let name: String = tag.chars().take_while(|one| one.is_ascii_alphanumeric()).collect();
        let name = name.to_ascii_lowercase();
        if HIDDEN.contains(&name.as_str()) && !tag.ends_with('/') {
            rest = behind_end(rest, &name);
        }
        let closed = tag.strip_prefix('/').unwrap_or(tag).to_ascii_lowercase();
        if BLOCKS.iter().any(|block| closed == *block || closed.starts_with(&format!("{block} "))) {
            line(&mut text);
        }
    }
    push(&mut text, rest);
    text.trim().to_owned()
}

/// What stands behind the end tag of that name; nothing when there is none.
fn behind_end<'a>(html: &'a str, name: &str) -> &'a str {
    let end = format!("</{name}");
    let found = html.char_indices().find(|(at, one)| {
        *one == '<' && html.get(*at..at + end.len()).is_some_and(|tag| tag.eq_ignore_ascii_case(&end))
    });
    let behind = found.and_then(|(at, _)| html.get(at..)?.split_once('>'));
    behind.map_or("", |(_, behind)| behind)
}

fn line(text: &mut String) {
    text.truncate(text.trim_end_matches(' ').len());
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// Appends a piece of text with white space as one space and entities resolved.
fn push(text: &mut String, piece: &str) {
    let mut rest = piece;
    while let Some(one) = rest.chars().next() {
        let mut after = rest.get(one.len_utf8()..).unwrap_or_default();
        let resolved = if one == '&' { entity(after) } else { None };
        let one = match resolved {
            Some((resolved, behind)) => {
                after = behind;
                resolved
            }
            None => one,
        };
        rest = after;
        if !one.is_whitespace() {
            text.push(one);
        } else if !text.is_empty() && !text.ends_with([' ', '\n']) {
            text.push(' ');
        }
    }
}

/// The character that an entity stands for, and what is behind it.
fn entity(text: &str) -> Option<(char, &str)> {
    let (name, behind) = text.split_once(';').filter(|(name, _)| name.len() <= 8)?;
    let one = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "ndash" => '–',
        "mdash" => '—',
        "hellip" => '…',
        _ => {
            let number = name.strip_prefix('#')?;
            let number = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(number.ok()?)?
        }
    };
    Some((one, behind))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::of_html;

    #[test]
    fn a_page_is_read_as_a_reader_sees_it() {
        let page = "<!doctype html><html><head><title>A &amp; B</title><style>p{}</style></head>
            <body><!-- no --><SCRIPT>if (a < b) {}</SCRIPT ><h1 class=x>Head</h1><p>One   <b>two</b>&nbsp;three&#8230;</p>
            <ul><li>1</li><li>2</li></ul> 4 &lt; 5 &unknown;</body>";
        assert_eq!(of_html(page), "A & B\nHead\nOne two three…\n1\n2\n4 < 5 &unknown;");
        for (html, text) in [("", ""), ("a < b", "a"), ("<script>x", ""), ("<!-- x", ""), ("plain", "plain")]
        {
            assert_eq!(of_html(html), text, "{html}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(html in "(<|>|&|;|#|!--|-->|/|script|p|a| |é){0,60}") {
            of_html(&html);
        }
    }
}
