//! `If-Match` with one tag (RFC 9110, section 13.1.1).

use http::HeaderMap;
use http::header::IF_MATCH;

/// What the only tag says; none when there is none, or several, a weak one or `*`.
pub(super) fn only_tag(headers: &HeaderMap) -> Option<String> {
    let mut lines = headers.get_all(IF_MATCH).iter();
    let line = lines.next()?.to_str().ok()?.trim();
    let tag = line.strip_prefix('"')?.strip_suffix('"')?;
    (lines.next().is_none() && !tag.contains('"')).then(|| tag.to_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn one_strong_tag_is_one() {
        for (lines, tag) in [
            (&["\"sha256:1\""][..], Some("sha256:1")),
            (&[" \"a\" "], Some("a")),
            (&[], None),
            (&["*"], None),
            (&["W/\"a\""], None),
            (&["a"], None),
            (&["\"a\", \"b\""], None),
            (&["\"a\"", "\"b\""], None),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(IF_MATCH, HeaderValue::from_static(line));
            }
            assert_eq!(only_tag(&headers).as_deref(), tag, "{lines:?}");
        }
    }
}
