//! Digests of components: `sha256:` and 64 digits.

use bytes::Bytes;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::request::Pattern;

const PREFIX: &str = "sha256:";

/// For the document.
pub(super) const EXAMPLE: &str = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

/// A digest that a caller wrote.
pub(super) const DIGEST: &Pattern = &Pattern {
    is: is_digest,
    fault: "A digest is sha256: and 64 hexadecimal digits in lower case",
    keywords: || json!({ "pattern": "^sha256:[0-9a-f]{64}$" }),
};

/// How many bytes are hashed in one go: some 100 µs. A component has more of them than a thread that serves
/// others can be kept for.
const HASHED_AT_ONCE: usize = 64 << 10;

fn is_digest(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digits = text.strip_prefix(PREFIX).unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(is_digit)
}

/// The digest of these bytes.
pub(super) async fn of(bytes: &Bytes) -> String {
    let mut hash = Sha256::new();
    for part in bytes.chunks(HASHED_AT_ONCE) {
        hash.update(part);
        tokio::task::yield_now().await;
    }
    format!("{PREFIX}{:x}", hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_digest_is_one() {
        let digits = "0123456789abcdef".repeat(4);
        let digest = format!("sha256:{digits}");
        assert!(is_digest(&digest));
        for text in
            ["", "sha256:", &digits, &digest.to_uppercase(), &digest[..70], &format!("{digest}0"), "latest"]
        {
            assert!(!is_digest(text), "{text}");
        }
    }

    #[tokio::test]
    async fn a_digest_does_not_depend_on_how_it_is_computed() {
        assert_eq!(
            of(&Bytes::new()).await,
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        let many = Bytes::from(vec![7; 3 * HASHED_AT_ONCE + 1]);
        assert_eq!(of(&many).await, format!("sha256:{:x}", Sha256::digest(&many)));
    }
}
