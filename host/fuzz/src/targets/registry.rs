//! Registries of components.

use tool_registry::{Reference, testing};

use super::parts;

/// A manifest with the type that it was sent as.
pub(crate) fn manifest(input: &[u8]) {
    let [content_type, manifest] = parts(input);
    testing::read_manifest(manifest, str::from_utf8(content_type).ok());
    testing::read_component(manifest);
}

/// What a registry and its token service answer.
pub(crate) fn answers(input: &[u8]) {
    let [challenge, body] = parts(input);
    testing::read_answers(&String::from_utf8_lossy(challenge), body);
}

/// References are read back as they were.
pub(crate) fn reference(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for read in [Reference::parse, Reference::parse_destination] {
        if let Ok(reference) = read(&text) {
            assert_eq!(read(&reference.to_string()).as_ref(), Ok(&reference), "{text}");
        }
    }
}
