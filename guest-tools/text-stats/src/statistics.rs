//! The counts, each defined where its field is.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use unicode_segmentation::UnicodeSegmentation as _;

/// How many of the most frequent words are named.
const FREQUENT_WORDS: usize = 5;

/// How many characters of a word are shown: it is a model that has to read it, and a text may be one word.
const SHOWN_CHARACTERS: usize = 100;

/// What a text is made of.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Statistics {
    /// Characters as a reader sees them, blanks and line breaks included: `é` and a flag emoji are one each,
    /// however they are coded (extended grapheme clusters; \r\n is one).
    graphemes: usize,
    /// Unicode code points: what most length limits count.
    characters: usize,
    /// Code points that are not white space.
    characters_without_spaces: usize,
    /// Bytes in UTF-8.
    bytes: usize,
    /// Words: letters and digits between boundaries. `can't` and `3.14` are one each, `well-known` is two.
    words: usize,
    /// Sentences with at least one letter or digit. An abbreviation's point may end one too many.
    sentences: usize,
    /// Lines, as split by \n or \r\n; a line break at the very end starts no other line.
    lines: usize,
    /// Blocks of lines with something on them, separated by blank lines.
    paragraphs: usize,
    /// The word with the most characters, the first of them if there are several; absent without words. After
    /// 100 characters it is cut, and so are the frequent ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_word: Option<String>,
    /// The up to five words that occur most often, among those that occur more than once; upper and lower
    /// case count as the same. The most frequent comes first, then the alphabet decides.
    frequent_words: Vec<Frequency>,
}

/// How often a word occurs.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Frequency {
    /// The word in lower case.
    word: String,
    /// How often it occurs.
    count: usize,
}

impl Statistics {
    /// Counts a text.
    pub(crate) fn of(text: &str) -> Self {
        let mut statistics = Self {
            graphemes: text.graphemes(true).count(),
            characters: text.chars().count(),
            characters_without_spaces: text.chars().filter(|character| !character.is_whitespace()).count(),
            bytes: text.len(),
            sentences: text.unicode_sentences().count(),
            lines: text.lines().count(),
            paragraphs: count_paragraphs(text),
            ..Self::default()
        };
        statistics.count_words(text);
        statistics
    }

    fn count_words(&mut self, text: &str) {
        let mut counts = BTreeMap::<String, usize>::new();
        let mut longest = (0, "");
        for word in text.unicode_words() {
            self.words += 1;
            *counts.entry(word.to_lowercase()).or_default() += 1;
            let length = word.chars().count();
            if length > longest.0 {
                longest = (length, word);
            }
        }
        self.longest_word = (longest.0 > 0).then(|| shown(longest.1));
        let repeated = counts.into_iter().filter(|(_, count)| *count > 1);
        self.frequent_words = repeated.map(|(word, count)| Frequency { word, count }).collect();
        // A stable sort: words of one count stay in the order of the alphabet.
        self.frequent_words.sort_by_key(|frequency| std::cmp::Reverse(frequency.count));
        self.frequent_words.truncate(FREQUENT_WORDS);
        for frequency in &mut self.frequent_words {
            frequency.word = shown(&frequency.word);
        }
    }
}

/// The beginning of a word.
fn shown(word: &str) -> String {
    match word.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", word.get(..end).unwrap_or_default()),
        None => word.to_owned(),
    }
}

fn count_paragraphs(text: &str) -> usize {
    let mut was_blank = true;
    text.lines()
        .filter(|line| {
            let is_blank = line.trim().is_empty();
            let starts = was_blank && !is_blank;
            was_blank = is_blank;
            starts
        })
        .count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Frequency, Statistics};

    #[test]
    fn an_empty_text_has_none_of_anything() {
        assert_eq!(Statistics::of(""), Statistics::default());
    }

    #[test]
    fn a_plain_text() {
        let statistics =
            Statistics::of("The cat saw the dog. The dog didn't see it!\n\nThen: 3.14 well-known.\n");
        let expected = Statistics {
            graphemes: 68,
            characters: 68,
            characters_without_spaces: 54,
            bytes: 68,
            words: 14,
            sentences: 3,
            lines: 3,
            paragraphs: 2,
            longest_word: Some("didn't".to_owned()),
            frequent_words: vec![
                Frequency { word: "the".to_owned(), count: 3 },
                Frequency { word: "dog".to_owned(), count: 2 },
            ],
        };
        assert_eq!(statistics, expected);
    }

    #[test]
    fn what_is_one_character_depends_on_who_counts() {
        for (text, graphemes, characters, bytes) in [
            ("é", 1, 1, 2),
            ("e\u{301}", 1, 2, 3),
            ("🇩🇪", 1, 2, 8),
            ("👩‍👩‍👧‍👦", 1, 7, 25),
            ("\r\n", 1, 2, 2),
            ("日本", 2, 2, 6),
            ("\0", 1, 1, 1),
        ] {
            let statistics = Statistics::of(text);
            let counted = (statistics.graphemes, statistics.characters, statistics.bytes);
            assert_eq!(counted, (graphemes, characters, bytes), "{text:?}");
        }
    }

    #[test]
    fn a_word_without_end_is_not_repeated_to_the_model() {
        let word = "é".repeat(10_000);
        let statistics = Statistics::of(&format!("{word} {word}"));
        let shown = format!("{}…", "é".repeat(100));
        assert_eq!(statistics.longest_word.as_ref(), Some(&shown));
        assert_eq!(statistics.frequent_words, [Frequency { word: shown, count: 2 }]);
    }

    #[test]
    fn lines_and_paragraphs() {
        for (text, lines, paragraphs) in [
            ("one", 1, 1),
            ("one\n", 1, 1),
            ("one\n\n", 2, 1),
            ("\n\none\ntwo\r\n \t\r\nthree", 6, 2),
            ("\n", 1, 0),
        ] {
            let statistics = Statistics::of(text);
            assert_eq!((statistics.lines, statistics.paragraphs), (lines, paragraphs), "{text:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn counts_are_in_order(text in any::<String>()) {
            let counted = Statistics::of(&text);
            prop_assert!(counted.graphemes <= counted.characters && counted.characters <= counted.bytes);
            prop_assert!(counted.characters_without_spaces <= counted.characters);
            prop_assert!(counted.paragraphs <= counted.lines);
            prop_assert_eq!(counted.longest_word.is_some(), counted.words > 0);
        }
    }
}
