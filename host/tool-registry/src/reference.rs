//! References: `oci://host[:port]/name[:tag][@sha256:…]`, in the grammar of the OCI distribution
//! specification.
//!
//! There is no default registry and no default tag: what is installed is named whole. A digest beside a tag
//! decides, and the tag is for readers.

use std::fmt;

use crate::digest::Digest;

const SCHEME: &str = "oci://";

/// Longest name, host included (the specification's advice).
const MOST_NAME_BYTES: usize = 255;

/// Longest tag (OCI distribution specification, "Pulling manifests").
const MOST_TAG_BYTES: usize = 128;

/// An artifact in a registry, or the place for one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    registry: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Why a text is no reference. Each message says what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    #[error("a reference begins with `oci://`: write oci://registry.example.org/tools/calculator:1.0")]
    Scheme,
    // The text is not repeated: there is a password in it.
    #[error(
        "a reference holds no user and no password: leave them out, and set TOOLS_REGISTRY, TOOLS_REGISTRY_USER and \
         TOOLS_REGISTRY_PASSWORD"
    )]
    UserInfo,
    #[error(
        "`{0}` is no registry: it is a host, with a port where one is needed, in lower case, such as \
         registry.example.org or localhost:5000"
    )]
    Registry(String),
    #[error("it names no repository: behind the registry comes a name, as in oci://{0}/tools/calculator:1.0")]
    NoRepository(String),
    #[error("the repository `{0}` has upper case letters: names in registries are in lower case")]
    UpperCase(String),
    #[error(
        "`{0}` is no name of a repository: its parts between slashes are lower case letters and digits, with single `.`, \
         `_`, `__` or hyphens in between"
    )]
    Repository(String),
    #[error("the name is longer than {MOST_NAME_BYTES} bytes: choose a shorter one")]
    TooLong,
    #[error(
        "`{0}` is no tag: tags are up to {MOST_TAG_BYTES} letters, digits, `_`, `.` and `-`, and begin with none of the \
         last two"
    )]
    Tag(String),
    #[error(
        "`{0}` is no digest: write sha256: and 64 digits of hex in lower case, as `agent-tool publish` prints it"
    )]
    Digest(String),
    #[error(
        "`{0}` says neither which tag nor which digest: add `@sha256:…`, which never means anything else, or `:tag`, which \
         is looked up once"
    )]
    NoTagNorDigest(String),
    #[error("the digest of what is published follows from its content: leave out `@{0}`")]
    DigestOfDestination(Digest),
}

impl Reference {
    /// Reads a reference to an artifact: it has a tag, a digest, or both.
    pub fn parse(text: &str) -> Result<Self, ReferenceError> {
        let this = Self::parse_any(text)?;
        if this.tag.is_none() && this.digest.is_none() {
            return Err(ReferenceError::NoTagNorDigest(this.to_string()));
        }
        Ok(this)
    }

    /// Reads a reference to where something is to be published: with or without a tag, and without a digest.
    pub fn parse_destination(text: &str) -> Result<Self, ReferenceError> {
        let this = Self::parse_any(text)?;
        match this.digest {
            Some(digest) => Err(ReferenceError::DigestOfDestination(digest)),
            None => Ok(this),
        }
    }

    fn parse_any(text: &str) -> Result<Self, ReferenceError> {
        let rest = text.strip_prefix(SCHEME).ok_or(ReferenceError::Scheme)?;
        let (registry, rest) = rest.split_once('/').unwrap_or((rest, ""));
        if registry.contains('@') {
            return Err(ReferenceError::UserInfo);
        }
        if !is_registry(registry) {
            return Err(ReferenceError::Registry(shown(registry)));
        }
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => {
                let parsed = Digest::parse(digest).ok_or_else(|| ReferenceError::Digest(shown(digest)))?;
                (rest, Some(parsed))
            }
            None => (rest, None),
        };
        let (repository, tag) = match rest.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (rest, None),
        };
        check_repository(registry, repository)?;
        if let Some(tag) = tag.filter(|tag| !is_tag(tag)) {
            return Err(ReferenceError::Tag(shown(tag)));
        }
        let tag = tag.map(str::to_owned);
        Ok(Self { registry: registry.to_owned(), repository: repository.to_owned(), tag, digest })
    }

    /// The registry: `host` or `host:port`.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The name in the registry, such as `tools/calculator`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest of the manifest, if it has one.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The last part of the name: what the component is called unless somebody says otherwise.
    pub fn last_part(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or_default()
    }

    /// Pins the reference to that digest, without a tag: it never means anything else.
    #[must_use]
    pub fn pinned(&self, digest: Digest) -> Self {
        Self { tag: None, digest: Some(digest), ..self.clone() }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.registry, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        self.digest.iter().try_for_each(|digest| write!(f, "@{digest}"))
    }
}

/// `host` or `host:port`; the host is a name, an IPv4 address, or an IPv6 address in brackets.
fn is_registry(text: &str) -> bool {
    let (host, port) = match text.rfind(']') {
        Some(end) => text.split_at(end + 1),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_port = port.strip_prefix(':').is_some_and(|digits| {
        digits.bytes().all(|digit| digit.is_ascii_digit()) && digits.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if !(port.is_empty() || is_port) {
        return false;
    }
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let is_label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(is_plain)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.len() <= MOST_NAME_BYTES && host.split('.').all(is_label)
}

fn check_repository(registry: &str, name: &str) -> Result<(), ReferenceError> {
    if name.is_empty() {
        return Err(ReferenceError::NoRepository(registry.to_owned()));
    }
    if registry.len() + 1 + name.len() > MOST_NAME_BYTES {
        return Err(ReferenceError::TooLong);
    }
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(ReferenceError::UpperCase(shown(name)));
    }
    if !name.split('/').all(is_part) {
        return Err(ReferenceError::Repository(shown(name)));
    }
    Ok(())
}

/// `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`, which neither `.` nor `..` is.
fn is_part(part: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = part.as_bytes();
    let ends_in_words =
        bytes.first().copied().is_some_and(is_word) && bytes.last().copied().is_some_and(is_word);
    let mut separators = part.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    ends_in_words
        && separators.all(|one| matches!(one, "" | "." | "_" | "__") || one.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut bytes = tag.bytes();
    tag.len() <= MOST_TAG_BYTES
        && bytes.next().is_some_and(is_word)
        && bytes.all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

/// A part of what somebody else wrote, on one line and not too much of it.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(100).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_reference_is_read_and_written_as_it_was() {
        for text in [
            "oci://registry.example.org/calculator:1.0",
            "oci://localhost:5000/tools/text-stats:v1_2.3-rc",
            "oci://127.0.0.1:5000/a/b__c/d.e_f--g:_",
            &format!("oci://[::1]:5000/tools/calculator@{DIGEST}"),
            &format!("oci://registry/tools/calculator:latest@{DIGEST}"),
        ] {
            assert_eq!(Reference::parse(text).map(|reference| reference.to_string()).as_deref(), Ok(text));
        }
        let reference = Reference::parse("oci://localhost:5000/tools/text-stats:1").unwrap();
        assert_eq!((reference.registry(), reference.last_part()), ("localhost:5000", "text-stats"));
        let pinned = reference.pinned(Digest::of(b"abc")).to_string();
        assert_eq!(pinned, format!("oci://localhost:5000/tools/text-stats@{DIGEST}"));
    }

    #[test]
    fn a_destination_needs_no_tag_and_can_have_no_digest() {
        let destination = Reference::parse_destination("oci://localhost:5000/calculator").unwrap();
        assert_eq!((destination.tag(), destination.digest()), (None, None));
        let pinned = format!("oci://localhost:5000/calculator@{DIGEST}");
        let error = Reference::parse_destination(&pinned).unwrap_err();
        assert_eq!(error, ReferenceError::DigestOfDestination(Digest::of(b"abc")));
    }

    #[test]
    fn what_is_no_reference_is_refused_with_what_to_write() {
        let long = format!("oci://h/{}:1", "a".repeat(300));
        let texts = [
            "calculator.wasm",
            "https://registry/calculator:1",
            "oci://user:hunter2@registry/calculator:1",
            "oci://hunter2@registry",
            "oci://",
            "oci:///calculator:1",
            "oci://Registry/calculator:1",
            "oci://registry:0/calculator:1",
            "oci://registry:+80/calculator:1",
            "oci://registry:99999/calculator:1",
            "oci://[::g]/calculator:1",
            "oci://-registry/calculator:1",
            "oci://registry..org/calculator:1",
            "oci://registry",
            "oci://registry/",
            "oci://registry/:1",
            "oci://registry/Calculator:1",
            "oci://registry/../calculator:1",
            "oci://registry/a/../../b:1",
            "oci://registry/a//b:1",
            "oci://registry/a%2f..:1",
            "oci://registry/a___b:1",
            "oci://registry/a?b:1",
            "oci://registry/a\u{1b}[31m:1",
            &long,
            "oci://registry/calculator",
            "oci://registry/calculator:",
            "oci://registry/calculator:.1",
            "oci://registry/calculator:1:2",
            "oci://registry/calculator:1/2",
            "oci://registry/calculator@",
            "oci://registry/calculator@sha256:00",
            "oci://registry/calculator@sha512:00",
            "oci://registry/calculator:1@latest",
        ];
        let said: Vec<_> = texts
            .iter()
            .map(|text| format!("{}\n    {}", shown(text), Reference::parse(text).unwrap_err()))
            .collect();
        insta::assert_snapshot!(said.join("\n"));
        let errors = texts.map(|text| format!("{:?}", Reference::parse(text)));
        assert!(errors.iter().all(|error| !error.contains("hunter2")), "{errors:?}");
    }
}
