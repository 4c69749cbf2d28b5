//! Names of components and secrets.

/// Whether a component can have this name, as the folder takes the names of files: `folder::component_name`.
pub(super) fn is_component_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Whether a secret can: it may be the name of a file, which is not to be hidden or another folder.
pub(super) fn is_secret_name(name: &str) -> bool {
    is_component_name(name) && !name.starts_with('.')
}
