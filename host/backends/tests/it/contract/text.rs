//! Texts that stores like to damage.

/// U+0000, quotes, a backslash before a zero, what is outside the basic plane, and line ends.
pub(crate) const NASTY: &str = "\0 'single' \"double\" \\0 \\u0000 \u{7f} é 🦀 \u{202e} %s $1 ?1\r\n\t\0";

/// 100 KB and more of it.
pub(crate) fn long() -> String {
    NASTY.repeat(100 * 1024 / NASTY.len() + 1)
}
