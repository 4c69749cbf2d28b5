//! Addresses of links, resolved against the page's as far as links need it (RFC 3986, section 5).

/// The longest address that is kept, in bytes.
const LONGEST: usize = 1000;

/// The absolute address that a link on a page means; none for what a request cannot be sent to, and for
/// places on the page itself.
pub(crate) fn resolve(page: &str, link: &str) -> Option<String> {
    let link = link.trim();
    let link = link.split('#').next().unwrap_or_default();
    if link.is_empty() || link.len() > LONGEST || link.contains(char::is_whitespace) {
        return None;
    }
    if let Some((scheme, _)) = split_scheme(link) {
        return ["http", "https"].iter().any(|own| scheme.eq_ignore_ascii_case(own)).then(|| link.to_owned());
    }
    let (scheme, rest) = page.split_once("://")?;
    if let Some(rest) = link.strip_prefix("//") {
        return Some(format!("{scheme}://{rest}"));
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let root = format!("{scheme}://{authority}");
    if link.starts_with('?') {
        let path = if path.is_empty() { "/" } else { path };
        return Some(format!("{root}{path}{link}"));
    }
    let (target, query) = link.split_at(link.find('?').unwrap_or(link.len()));
    let whole = if target.starts_with('/') {
        target.to_owned()
    } else {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{folder}/{target}")
    };
    Some(format!("{root}{}{query}", without_dots(&whole)))
}

/// A scheme and what is behind it.
fn split_scheme(link: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = link.split_once(':')?;
    let is_scheme = scheme.starts_with(|one: char| one.is_ascii_alphabetic())
        && scheme.chars().all(|one| one.is_ascii_alphanumeric() || matches!(one, '+' | '-' | '.'));
    is_scheme.then_some((scheme, rest))
}

fn without_dots(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    let ends_in_folder = path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    if ends_in_folder && segments.last().is_none_or(|last| !last.is_empty()) {
        segments.push("");
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn links_are_resolved() {
        let page = "https://a.example:8443/b/c?d#e";
        for (link, address) in [
            ("x", Some("https://a.example:8443/b/x")),
            ("./x?y=/../z#f", Some("https://a.example:8443/b/x?y=/../z")),
            ("../x/", Some("https://a.example:8443/x/")),
            ("../../..", Some("https://a.example:8443/")),
            ("/", Some("https://a.example:8443/")),
            ("/x/./y/../z", Some("https://a.example:8443/x/z")),
            ("?q=1", Some("https://a.example:8443/b/c?q=1")),
            ("//other.example/x", Some("https://other.example/x")),
            ("HTTP://other.example", Some("HTTP://other.example")),
            ("x:y/z", None),
            ("mailto:a@example.org", None),
            ("javascript:void(0)", None),
            ("#top", None),
            ("", None),
        ] {
            assert_eq!(resolve(page, link).as_deref(), address, "{link}");
        }
        assert_eq!(resolve("https://a.example", "x").as_deref(), Some("https://a.example/x"));
        assert_eq!(resolve("nothing", "x"), None);
    }
}
