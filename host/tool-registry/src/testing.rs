//! What is promised of what registries answer, for `host/fuzz`: functions that panic when it is broken.

use crate::component_names;
use crate::manifest::{Artifact, Written};
use crate::session::challenge::{self, Challenge};
use crate::session::{bearer_of, first_error};

/// Longest refusal, in bytes: operators read it.
const REFUSAL_BYTES: usize = 8_192;

/// A manifest names one component, or is refused in few words.
///
/// # Panics
/// When it is not.
pub fn read_manifest(bytes: &[u8], content_type: Option<&str>) {
    match Artifact::read(bytes, content_type) {
        Ok(artifact) => {
            assert!(artifact.signature.is_none_or(|signature| signature.len() == 64), "a whole signature");
        }
        Err(refusal) => {
            let text = refusal.to_string();
            assert!(text.len() <= REFUSAL_BYTES, "a refusal of {} bytes", text.len());
        }
    }
}

/// What is published as a component is pulled as that component.
///
/// # Panics
/// When it is not.
pub fn read_component(bytes: &[u8]) {
    let Ok(names) = component_names::read(bytes) else { return };
    let written = Written::new(bytes, &names, Some(("fuzz", &[7; 64])));
    let read = written.ok().map(|written| Artifact::read(&written.manifest, None));
    let size = read.and_then(Result::ok).map(|artifact| artifact.size);
    assert_eq!(size, Some(bytes.len() as u64));
}

/// A challenge, a token and an error: one that is asked for as it was read asks for the same.
///
/// # Panics
/// When it does not.
pub fn read_answers(challenge: &str, body: &[u8]) {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    if let Some(Challenge::Bearer { realm, service }) = challenge::parse(challenge.lines()) {
        let service_part = service.as_deref().map(|service| format!(",service=\"{}\"", quoted(service)));
        let text = format!("Bearer realm=\"{}\"{}", quoted(&realm), service_part.unwrap_or_default());
        assert_eq!(challenge::parse([text.as_str()]), Some(Challenge::Bearer { realm, service }), "{text}");
    }
    assert!(bearer_of(body).is_none_or(|token| token.is_sensitive()), "no token is printed");
    drop(first_error(body));
}
