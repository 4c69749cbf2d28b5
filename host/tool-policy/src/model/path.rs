//! Paths of requests and the prefixes of them that policy lines grant, in one canonical form.
//!
//! A prefix is of whole segments: `/search` is `/search` and `/search/x`, not `/searching`. A path is
//! refused, whatever is granted, if some server could read it as another one: dot segments and slashes of
//! either kind that are encoded, also several times over, and dot segments before a `;`. What is left has one
//! meaning, so that comparing texts will do.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode;

/// Most bytes of a path, of a request or of a line.
const MOST_BYTES: usize = 8 << 10;

/// How many times over a segment may be percent-encoded. More has no use but to hide something.
const MOST_LAYERS: usize = 3;

/// The beginning of paths, canonical: it begins with a slash and has none at the end but in `/`, which is
/// every path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathPrefix(String);

/// Why a text is no path, or none that is safe to compare.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    #[error("the path does not begin with a slash")]
    NoSlash,
    #[error("the path has more than {MOST_BYTES} bytes")]
    TooLong,
    #[error("the path holds {0:?}, which must be percent-encoded")]
    Character(char),
    #[error("the path has a dot segment")]
    DotSegment,
    #[error("the path has an encoded slash or backslash")]
    EncodedSlash,
    #[error("the path has an encoded control character")]
    EncodedControl,
    #[error("the path has a `%` without two hexadecimal digits")]
    BadEscape,
    #[error("the path is percent-encoded more than {MOST_LAYERS} times over")]
    TooManyLayers,
    /// Of a prefix only.
    #[error("a prefix has no empty segment and no slash at the end")]
    EmptySegment,
}

impl PathPrefix {
    /// Every path.
    pub fn root() -> Self {
        Self("/".to_owned())
    }

    /// A prefix as a line writes it.
    pub fn parse(text: &str) -> Result<Self, PathFault> {
        let path = canonical(text)?;
        let has_empty_segment = path != "/" && path.split('/').skip(1).any(str::is_empty);
        if has_empty_segment { Err(PathFault::EmptySegment) } else { Ok(Self(path)) }
    }

    /// Whether a [canonical] path begins with this.
    pub fn matches(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix(self.0.as_str()) else { return false };
        self.0 == "/" || rest.is_empty() || rest.starts_with('/')
    }

    /// Whether every path that begins with `other` begins with this.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.matches(&other.0)
    }

    /// The prefix that is one segment shorter; `/` stays.
    pub fn parent(&self) -> Self {
        match self.0.rsplit_once('/') {
            Some((parent, _)) if !parent.is_empty() => Self(parent.to_owned()),
            _ => Self::root(),
        }
    }

    /// Text of the path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PathPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path in the form that is compared: what need not be encoded is not, and what is encoded has upper-case
/// digits (RFC 3986, 6.2.2). An empty path is `/`.
pub fn canonical(path: &str) -> Result<String, PathFault> {
    if path.is_empty() {
        return Ok("/".to_owned());
    }
    if path.len() > MOST_BYTES {
        return Err(PathFault::TooLong);
    }
    if !path.starts_with('/') {
        return Err(PathFault::NoSlash);
    }
    let must_be_encoded = |c: &char| !c.is_ascii_graphic() || matches!(c, '\\' | '?' | '#' | '"' | '<' | '>');
    if let Some(odd) = path.chars().find(must_be_encoded) {
        return Err(PathFault::Character(odd));
    }
    let canonical = decode_unreserved(path)?;
    canonical.split('/').try_for_each(check_segment)?;
    Ok(canonical)
}

fn decode_unreserved(path: &str) -> Result<String, PathFault> {
    let mut text = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, escaped)) = rest.split_once('%') {
        text.push_str(before);
        let digits = escaped.get(..2).ok_or(PathFault::BadEscape)?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let byte = u8::from_str_radix(digits, 16).ok().filter(|_| is_hex).ok_or(PathFault::BadEscape)?;
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push('%');
            text.push_str(&digits.to_ascii_uppercase());
        }
        rest = escaped.get(2..).unwrap_or_default();
    }
    text.push_str(rest);
    Ok(text)
}

/// Refuses what a server might read as more than one segment, or as a step upwards. Some decode twice, and
/// some take what follows a `;` for parameters of the segment.
fn check_segment(segment: &str) -> Result<(), PathFault> {
    let mut layer = Cow::Borrowed(segment.as_bytes());
    for _ in 0..=MOST_LAYERS {
        let name = layer.split(|byte| *byte == b';').next().unwrap_or_default();
        if matches!(name, b"." | b"..") {
            return Err(PathFault::DotSegment);
        }
        if layer.iter().any(|byte| matches!(byte, b'/' | b'\\')) {
            return Err(PathFault::EncodedSlash);
        }
        if layer.iter().any(u8::is_ascii_control) {
            return Err(PathFault::EncodedControl);
        }
        let decoded = percent_decode(&layer).collect::<Vec<u8>>();
        if decoded == *layer {
            return Ok(());
        }
        layer = Cow::Owned(decoded);
    }
    Err(PathFault::TooManyLayers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_servers_might_read_differently_are_refused() {
        let deep = format!("/%{}20", "25".repeat(4));
        let long = format!("/{}", "a".repeat(MOST_BYTES));
        let rows = [
            ("search", PathFault::NoSlash),
            ("*", PathFault::NoSlash),
            (&long, PathFault::TooLong),
            ("/a b", PathFault::Character(' ')),
            ("/é", PathFault::Character('é')),
            ("/a\r\nx: y", PathFault::Character('\r')),
            ("/a\\..\\b", PathFault::Character('\\')),
            ("/a?b", PathFault::Character('?')),
            ("/a#b", PathFault::Character('#')),
            ("/search/../admin", PathFault::DotSegment),
            ("/search/..", PathFault::DotSegment),
            ("/./search", PathFault::DotSegment),
            ("/search/%2e%2e/admin", PathFault::DotSegment),
            ("/search/.%2E/admin", PathFault::DotSegment),
            ("/search/%252e%252e/admin", PathFault::DotSegment),
            ("/search/..;a=b/admin", PathFault::DotSegment),
            ("/search/..%3Ba/admin", PathFault::DotSegment),
            ("/search%2fadmin", PathFault::EncodedSlash),
            ("/search%2Fadmin", PathFault::EncodedSlash),
            ("/search%5cadmin", PathFault::EncodedSlash),
            ("/search%252fadmin", PathFault::EncodedSlash),
            ("/search%25255cadmin", PathFault::EncodedSlash),
            ("/search%00", PathFault::EncodedControl),
            ("/search%0d%0a", PathFault::EncodedControl),
            ("/search%", PathFault::BadEscape),
            ("/search%4", PathFault::BadEscape),
            ("/search%zz", PathFault::BadEscape),
            ("/search%+1", PathFault::BadEscape),
            (&deep, PathFault::TooManyLayers),
        ];
        for (path, fault) in rows {
            assert_eq!(canonical(path), Err(fault), "{path}");
        }
    }

    #[test]
    fn spellings_of_one_path_have_one_canonical_form() {
        let rows = [
            ("", "/"),
            ("/", "/"),
            ("/sea%72ch/%7Euser", "/search/~user"),
            ("/caf%c3%a9", "/caf%C3%A9"),
            ("/a%20b;c=d,e", "/a%20b;c=d,e"),
            ("/...", "/..."),
            ("/a//b/", "/a//b/"),
        ];
        for (path, expected) in rows {
            assert_eq!(canonical(path).as_deref(), Ok(expected), "{path}");
            assert_eq!(canonical(expected).as_deref(), Ok(expected), "{path}: it stays canonical");
        }
    }

    #[test]
    fn a_prefix_is_of_whole_segments() {
        let search = PathPrefix::parse("/sea%72ch").unwrap();
        let rows = [
            ("/search", true),
            ("/search/", true),
            ("/search/x", true),
            ("/searching", false),
            ("/Search", false),
            ("/", false),
            ("//search", false),
            ("/search;x", false),
        ];
        for (path, is_match) in rows {
            assert_eq!(search.matches(path), is_match, "{path}");
            assert!(PathPrefix::root().matches(path), "{path}");
        }
        for bad in ["/search/", "//", "/a//b"] {
            assert_eq!(PathPrefix::parse(bad), Err(PathFault::EmptySegment), "{bad}");
        }
    }

    #[test]
    fn parents_end_at_the_root() {
        let path = PathPrefix::parse("/a/b").unwrap();
        assert_eq!(path.parent().as_str(), "/a");
        assert_eq!(path.parent().parent(), PathPrefix::root());
        assert_eq!(PathPrefix::root().parent(), PathPrefix::root());
        assert!(path.parent().covers(&path) && !path.covers(&path.parent()));
    }
}
