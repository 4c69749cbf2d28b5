//! `If-Match` with one tag (RFC 9110, section 13.1.1).

use http::HeaderMap;
use http::header::IF_MATCH;

use super::error::WaitRefusal;

/// What the only tag says. [`WaitRefusal::NoDigest`] without the header, and [`WaitRefusal::IfMatch`] for a
/// tag without its double quotes, several tags, a weak one or `*`.
pub(super) fn only_tag(headers: &HeaderMap) -> Result<String, WaitRefusal> {
    let mut lines = headers.get_all(IF_MATCH).iter();
    let line = lines.next().ok_or(WaitRefusal::NoDigest)?;
    let text = line.to_str().map(str::trim).unwrap_or_default();
    let tag = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let is_only = lines.next().is_none();
    tag.filter(|tag| is_only && !tag.contains('"')).map(str::to_owned).ok_or(WaitRefusal::IfMatch)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn one_strong_tag_is_one() {
        for (lines, tag) in [
            (&["\"sha256:1\""][..], Ok("sha256:1")),
            (&[" \"a\" "], Ok("a")),
            (&[], Err(WaitRefusal::NoDigest)),
            (&[""], Err(WaitRefusal::IfMatch)),
            (&["*"], Err(WaitRefusal::IfMatch)),
            (&["W/\"a\""], Err(WaitRefusal::IfMatch)),
            (&["a"], Err(WaitRefusal::IfMatch)),
            (&["\""], Err(WaitRefusal::IfMatch)),
            (&["\"a\", \"b\""], Err(WaitRefusal::IfMatch)),
            (&["\"a\"", "\"b\""], Err(WaitRefusal::IfMatch)),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(IF_MATCH, HeaderValue::from_static(line));
            }
            assert_eq!(only_tag(&headers), tag.map(str::to_owned), "{lines:?}");
        }
    }
}
