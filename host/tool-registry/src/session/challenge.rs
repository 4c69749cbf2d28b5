//! What a registry asks of who wants in: the `WWW-Authenticate` header (RFC 9110, 11.6.1), as a value.

/// How to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// With a token that this service gives out.
    Bearer { realm: String, service: Option<String> },
    /// With user and password.
    Basic,
}

/// The first challenge that is understood. A header may hold several, and there may be several headers.
pub(crate) fn parse<'a>(headers: impl IntoIterator<Item = &'a str>) -> Option<Challenge> {
    let mut basic = None;
    for (scheme, rest) in headers.into_iter().flat_map(challenges) {
        if scheme.eq_ignore_ascii_case("bearer") {
            let parameters = parameters(rest);
            let find = |name: &str| {
                let found = parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
                found.map(|(_, value)| value.clone())
            };
            if let Some(realm) = find("realm") {
                return Some(Challenge::Bearer { realm, service: find("service") });
            }
        }
        if scheme.eq_ignore_ascii_case("basic") {
            basic = Some(Challenge::Basic);
        }
    }
    basic
}

/// The schemes that a header names, each with what is behind it. Commas stand between parameters too: those
/// are taken for schemes that nobody knows.
fn challenges(header: &str) -> impl Iterator<Item = (&str, &str)> {
    let starts = std::iter::once(0).chain(header.match_indices(',').map(|(at, _)| at + 1));
    starts.map(move |at| {
        let challenge = header.get(at..).unwrap_or_default().trim();
        challenge.split_once([' ', ',']).unwrap_or((challenge, ""))
    })
}

/// `name="value"` or `name=value`, between commas.
fn parameters(mut text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    while let Some((name, rest)) = text.split_once('=') {
        let name = name.trim_matches([' ', ',', '\t']).to_owned();
        let (value, rest) = match rest.trim_start().strip_prefix('"') {
            Some(quoted) => quoted_string(quoted),
            None => {
                let (value, rest) = rest.split_once(',').unwrap_or((rest, ""));
                (value.trim().to_owned(), rest)
            }
        };
        found.push((name, value));
        text = rest;
    }
    found
}

/// The text up to the closing quotation mark, and what is behind it.
fn quoted_string(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return (value, text.get(at + 1..).unwrap_or_default()),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            other => value.push(other),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>) -> Option<Challenge> {
        Some(Challenge::Bearer { realm: realm.into(), service: service.map(Into::into) })
    }

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let docker = r#"Bearer realm="https://auth.example.org/token",service="registry",scope="repository:a/b:pull,push""#;
        assert_eq!(parse([docker]), bearer("https://auth.example.org/token", Some("registry")));
        assert_eq!(
            parse([r#"bearer service=x , realm = "https://a/?b=c\"d""#]),
            bearer("https://a/?b=c\"d", Some("x"))
        );
        assert_eq!(parse([r#"Basic realm="basic-realm""#]), Some(Challenge::Basic));
        assert_eq!(parse(["Basic", r#"Bearer realm="https://a""#]), bearer("https://a", None));
        let several = r#"Negotiate, Basic realm="a, b", Bearer realm="https://a",service="b""#;
        assert_eq!(parse([several]), bearer("https://a", Some("b")));
        for either in ["Negotiate, Basic", "Basic, Negotiate"] {
            assert_eq!(parse([either]), Some(Challenge::Basic), "{either}");
        }
        for useless in ["", "Negotiate", "Bearer", r#"Bearer service="x""#, "Bearer realm"] {
            assert_eq!(parse([useless]), None, "{useless}");
        }
        assert_eq!(parse([r#"Bearer realm="https://a"#]), bearer("https://a", None), "never closed");
    }
}
