//! Which names a tool may have.

/// Longest tool name, in bytes; providers allow 64.
pub const TOOL_NAME_BYTES: usize = 63;

/// Tells if a tool may have the name.
pub fn is_tool_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    let starts_well = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase());
    let goes_on_well = bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    starts_well && goes_on_well && name.len() <= TOOL_NAME_BYTES
}
