//! What makes two questions the same.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::ports::cache::NAMESPACE;
use crate::words::Options;

/// `agent:` and the hex SHA-256 of everything that an answer depends on (decisions, "Cache key"). `tools` is the digest of the
/// tools that the run is to have: the caller's, without those that were not chosen.
pub(super) fn of(query: &str, options: &Options, model: &str, tools: &str, grants: &str) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        // With its length before it, no part can be read as the end of another.
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    part(query.as_bytes());
    // An option that was not given is an empty part, which no given one is.
    part(&options.max_tokens.map_or(vec![], |most| most.to_be_bytes().to_vec()));
    part(&options.temperature.map_or(vec![], |degree| degree.to_be_bytes().to_vec()));
    part(model.as_bytes());
    part(tools.as_bytes());
    // Absent for the ungranted, so that the keys of results which are kept already stay what they are.
    if !grants.is_empty() {
        part(grants.as_bytes());
    }
    let digest = hash.finalize();
    let mut key = String::with_capacity(NAMESPACE.len() + 2 * digest.len());
    key.push_str(NAMESPACE);
    for byte in digest {
        // Writing to a string cannot fail.
        let _ = write!(key, "{byte:02x}");
    }
    key
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_key_differs_with_every_part_and_with_nothing_else() {
        let none = &Options::default();
        let options = |max_tokens, temperature| Options { max_tokens, temperature, tools: None };
        let questions = [
            ("q", none, "m", "t", ""),
            ("q2", none, "m", "t", ""),
            ("q", &options(Some(100), None), "m", "t", ""),
            ("q", &options(None, Some(0.0)), "m", "t", ""),
            ("q", &options(Some(100), Some(0.0)), "m", "t", ""),
            ("q", &options(Some(100), Some(0.5)), "m", "t", ""),
            ("q", none, "m2", "t", ""),
            ("q", none, "m", "t2", ""),
            // Parts that would be the same if they were only put together.
            ("qm", none, "", "t", ""),
            ("q", none, "mt", "", ""),
            ("", none, "qm", "t", ""),
            ("q", none, "m", "t", "g"),
            ("q", none, "m", "t", "g2"),
        ];
        let keys: HashSet<_> = questions.iter().map(|(q, o, m, t, g)| of(q, o, m, t, g)).collect();
        assert_eq!(keys.len(), questions.len());
        assert_eq!(of("q", none, "m", "t", ""), of("q", none, "m", "t", ""));
        let key = of("q", none, "m", "t", "");
        let digest = key.strip_prefix("agent:").unwrap();
        assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
    }
}
