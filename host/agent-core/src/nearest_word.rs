//! Finds the word that was meant by one that is not known, for texts that ask "did you mean".

/// Longer than any word that is looked for, in bytes: comparing takes the product of both lengths.
const MOST_BYTES: usize = 64;

/// Two words of this likeness (Jaro-Winkler, 0 to 1) or more look like one another.
const ALIKE: f64 = 0.84;

/// The one of `words` that is most like `found`, if any is. Upper and lower case are alike, `_` and `-` too.
pub fn nearest_word<'a>(found: &str, words: &[&'a str]) -> Option<&'a str> {
    if found.len() > MOST_BYTES {
        return None;
    }
    let likeness = |word: &str| {
        if is_slip(found, word) { 1.0 } else { strsim::jaro_winkler(&plain(found), &plain(word)) }
    };
    let alike = words.iter().map(|word| (likeness(word), *word)).filter(|(likeness, _)| *likeness >= ALIKE);
    alike.max_by(|(a, _), (b, _)| a.total_cmp(b)).map(|(_, word)| word)
}

/// Whether a word differs from another by one letter that is wrong, missing or too much, or by two that
/// changed places. Of words of two letters that says nothing.
pub fn is_slip(found: &str, word: &str) -> bool {
    (3..=MOST_BYTES).contains(&found.len()) && strsim::osa_distance(&plain(found), &plain(word)) == 1
}

fn plain(word: &str) -> String {
    word.to_lowercase().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_the_one_that_was_meant_or_none() {
        let keys = ["name", "digest", "signer", "users", "tiers", "roles", "timeout-ms", "key-value", "http"];
        let fields = ["digest", "share", "thresholds", "maxErrorRate", "minAgreement"];
        let rows: [(&[&str], &str, Option<&str>); 19] = [
            (&keys, "diggest", Some("digest")),
            (&keys, "digests", Some("digest")),
            (&keys, "Name", Some("name")),
            (&keys, "tier", Some("tiers")),
            (&keys, "user", Some("users")),
            (&keys, "timeout_ms", Some("timeout-ms")),
            (&keys, "timeout", Some("timeout-ms")),
            (&keys, "keyvalue", Some("key-value")),
            (&keys, "https", Some("http")),
            (&keys, "htpt", Some("http")),
            (&keys, "colour", None),
            (&keys, "x", None),
            (&keys, "", None),
            (&fields, "digst", Some("digest")),
            (&fields, "Share", Some("share")),
            (&fields, "treshold", Some("thresholds")),
            (&fields, "max_error_rate", Some("maxErrorRate")),
            (&fields, "minAgreements", Some("minAgreement")),
            (&fields, "version", None),
        ];
        for (words, found, meant) in rows {
            assert_eq!(nearest_word(found, words), meant, "{found}");
        }
        assert_eq!(nearest_word(&"share".repeat(20), &fields), None);
        assert_eq!(nearest_word("digest", &[]), None);
    }
}
