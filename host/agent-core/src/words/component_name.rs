//! What a component may be called.

/// Most bytes of a component's name.
const MOST_BYTES: usize = 64;

/// Whether a component can have this name: 1 to 64 ASCII letters, digits, `.`, `_` and `-`, and neither `.`
/// nor `..`. It is the name of a file without `.wasm`, and stands in policies, paths of the admin API,
/// receipts, labels and log lines.
pub fn is_component_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MOST_BYTES).contains(&name.len()) && name.bytes().all(is_plain) && !matches!(name, "." | "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files_and_of_nothing_else() {
        for name in ["a", "web-search", "Calc_2.1", ".hidden", "...", "-", &"x".repeat(64)] {
            assert!(is_component_name(name), "{name}");
        }
        for text in
            ["", ".", "..", "a/b", "../a", "a\\b", "a b", "a\0", "a\nb", "ä", "a%2fb", "a:b", &"x".repeat(65)]
        {
            assert!(!is_component_name(text), "{text:?}");
        }
    }
}
