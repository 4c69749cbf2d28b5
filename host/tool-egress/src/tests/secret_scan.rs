//! Values in all their forms, however the text is split.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use proptest::prelude::*;

use super::SECRET;
use crate::allowed_hosts::{SecretError, SecretValue};
use crate::secret_scan::{Scanner, forms_of};

fn scanner_for(values: &[(&str, &str)]) -> Scanner {
    Scanner::new(values.iter().copied()).unwrap()
}

fn scanner() -> Scanner {
    scanner_for(&[("api-key", SECRET), ("other", "0therSecretValue")])
}

#[test]
fn values_too_short_too_long_or_with_controls_are_refused() {
    let problem = |text: &str| SecretValue::new(agent_core::secret::Secret::new(text)).err();
    assert_eq!(problem("1234567"), Some(SecretError::TooShort(7)));
    assert_eq!(problem("12345678"), None);
    assert_eq!(problem(&"x".repeat(8192)), None);
    assert_eq!(problem(&"x".repeat(8193)), Some(SecretError::TooLong(8193)));
    for text in ["12345678\n", "1234\r\n5678", " 12345678", "12345678 "] {
        assert_eq!(problem(text), Some(SecretError::Characters), "{text:?}");
    }
    assert!(!format!("{:?}", super::value(SECRET)).contains("s3cr"));
    assert!(!format!("{:?}", scanner()).contains("s3cr"));
}

#[test]
fn every_form_is_found() {
    let form_encoded: String =
        percent_encoding::utf8_percent_encode(SECRET, percent_encoding::NON_ALPHANUMERIC).to_string();
    let forms = [
        SECRET.to_owned(),
        form_encoded.clone(),
        form_encoded.to_lowercase(),
        "s3cr%2Ft%2Bv%22lue%3D42%C3%A9".into(),
        "s3cr%2ft%2bv%22lue%3d42%c3%a9".into(),
        serde_json::to_string(SECRET).unwrap(),
        serde_json::to_string(&serde_json::to_string(SECRET).unwrap()).unwrap(),
        "s3cr\\/t+v\\\"lue=42\\u00e9".into(),
        "s3cr/t+v\\\"lue=42\\u00E9".into(),
        "s3cr/t+v&quot;lue=42é".into(),
        SECRET.bytes().map(|byte| format!("{byte:02x}")).collect(),
        SECRET.bytes().map(|byte| format!("%{byte:02X}")).collect(),
    ];
    for form in forms {
        let text = format!("before {form} after");
        let scanned = scanner().scan_text(&text).into_owned();
        assert!(scanned.contains("[secret api-key]"), "{text}: {scanned}");
        assert!(scanned.starts_with("before ") && scanned.ends_with(" after"), "{scanned}");
    }
}

#[test]
fn base64_is_found_wherever_the_value_stands_in_it() {
    for before in 0..7 {
        for after in 0..4 {
            let text = format!("{}{SECRET}{}", "u".repeat(before), "v".repeat(after));
            for encoded in [STANDARD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                let scanned = scanner().scan_text(&encoded).into_owned();
                assert!(scanned.contains("[secret api-key]"), "{before} {after} {encoded}");
                // What is left tells at most a few bits of the value's ends.
                assert!(scanned.len() <= "[secret api-key]".len() + before * 2 + after * 2 + 8, "{scanned}");
            }
        }
    }
    let shortest = scanner_for(&[("short", "8bytes!!")]);
    for before in 0..3 {
        let encoded = STANDARD.encode(format!("{}8bytes!!", "x".repeat(before)));
        assert!(shortest.find(encoded.as_bytes()).is_some(), "{encoded}");
    }
}

#[test]
fn what_holds_no_value_is_untouched() {
    let text = "nothing of it: s3cr/t, 0therSecretValu, czNjci90";
    assert!(matches!(scanner().scan_text(text), Cow::Borrowed(same) if same == text));
    let chunk = Bytes::from(b"a chunk without secrets.".repeat(1_000));
    let mut stream = scanner().stream();
    let scanned = stream.push(chunk.clone());
    // `scanned` lies in the chunk's memory: nothing is copied but the few bytes that are held back.
    assert_eq!(scanned.as_ptr(), chunk.as_ptr());
    assert_eq!([scanned, stream.finish()].concat(), chunk);
    let empty = Scanner::default();
    assert!(empty.is_empty());
    assert_eq!(empty.scan_text(SECRET), SECRET);
}

/// A guest that sees when bytes come must not learn from that whether they begin like a secret.
#[test]
fn what_is_held_back_depends_on_lengths_alone() {
    let lengths = |chunks: &[&[u8]]| {
        let mut stream = scanner_for(&[("key", "0therSecretValue")]).stream();
        let pushed: Vec<_> =
            chunks.iter().map(|chunk| stream.push(Bytes::copy_from_slice(chunk)).len()).collect();
        (pushed, stream.held_bytes())
    };
    let long = [b'x'; 500];
    for guess in ["0", "0ther", "0therSecretValu", "MHRoZXJTZWNyZXRWYWx1", "%30ther"] {
        let other = "y".repeat(guess.len());
        for before in [&b""[..], b"text ", &long] {
            for after in [&b""[..], b"!", &long] {
                let [with, without] =
                    [guess, &other].map(|piece| lengths(&[before, piece.as_bytes(), after]));
                assert_eq!(with, without, "{guess}");
            }
        }
    }
    let mut stream = scanner_for(&[("key", "0therSecretValue")]).stream();
    let mut read = stream.push(Bytes::from_static(b"0therwise 0therSecretVal")).to_vec();
    read.extend(stream.push(Bytes::from_static(b"ue! 0therSecret")));
    read.extend(stream.finish());
    assert_eq!(read, b"0therwise [secret key]! 0therSecret");
    assert_eq!((stream.matches(), stream.first_match()), (1, Some("key")));
}

/// What is held is searched again with each chunk that is not put off.
#[test]
fn small_chunks_are_searched_when_there_are_enough_of_them() {
    let value = "a long value ".repeat(600);
    let scanner = scanner_for(&[("key", &value)]);
    let longest = forms_of(&value).into_iter().map(|form| form.len()).max().unwrap();
    let text = format!("{}{value}!", "text ".repeat(longest));
    let mut stream = scanner.stream();
    let given: Vec<Bytes> = text.bytes().map(|byte| stream.push(Bytes::copy_from_slice(&[byte]))).collect();
    let searches = given.iter().filter(|piece| !piece.is_empty()).count();
    assert!(searches <= text.len() / (longest / 8) + 1, "{searches} searches of {longest} bytes");
    let whole = [given.concat(), stream.finish().to_vec()].concat();
    assert_eq!(whole, format!("{}[secret key]!", "text ".repeat(longest)).as_bytes());
}

#[test]
fn of_two_values_the_longer_one_is_replaced_whole() {
    let scanner = scanner_for(&[("short", "abcdefgh"), ("long", "abcdefghijklmnop")]);
    assert_eq!(scanner.scan_text("abcdefghijklmnop abcdefghij"), "[secret long] [secret short]ij");
    let mut stream = scanner.stream();
    let pushed = [&b"abcdefghijkl"[..], b"mnop"].map(|chunk| stream.push(Bytes::copy_from_slice(chunk)));
    assert_eq!([pushed.concat(), stream.finish().to_vec()].concat(), b"[secret long]");
}

/// Pieces of values and of their encodings, so that beginnings, ends and overlaps happen.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let whole = ["abcdabcdabcd", "abcdabce", "cdabcdab", SECRET];
    let piece = prop_oneof![
        prop::sample::select(whole.to_vec()).prop_map(|text| text.as_bytes().to_vec()),
        prop::sample::select(whole.to_vec()).prop_map(|text| STANDARD.encode(text).into_bytes()),
        (prop::sample::select(whole.to_vec()), 0_usize..14)
            .prop_map(|(text, end)| text.bytes().take(end).collect()),
        (prop::sample::select(whole.to_vec()), 0_usize..14)
            .prop_map(|(text, start)| text.bytes().skip(start).collect()),
        prop::collection::vec(any::<u8>(), 0..4),
        prop::collection::vec(prop::sample::select(b"abcd%\\".to_vec()), 0..6),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_split_gives_what_one_chunk_gives(
        text in pieces(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let scanner =
            scanner_for(&[("a", "abcdabcdabcd"), ("b", "abcdabce"), ("c", "cdabcdab"), ("d", SECRET)]);
        let (whole, matches) = scanner.scan_bytes(&text);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let mut stream = scanner.stream();
        let mut split = vec![];
        for pair in cuts.windows(2) {
            split.extend_from_slice(&stream.push(Bytes::copy_from_slice(&text[pair[0]..pair[1]])));
        }
        split.extend_from_slice(&stream.finish());
        prop_assert_eq!(&split, whole.as_ref());
        prop_assert_eq!(stream.matches(), matches);
    }

    /// An independent way to the same: at each place the longest form that stands there.
    #[test]
    fn one_chunk_gives_what_a_search_by_hand_gives(text in pieces()) {
        let values = [("a", "abcdabcdabcd"), ("b", "abcdabce"), ("c", "cdabcdab")];
        let scanner = scanner_for(&values);
        let mut forms: Vec<(Vec<u8>, &str)> = vec![];
        for (name, value) in values {
            for form in forms_of(value) {
                forms.push((form, name));
            }
        }
        let (mut place, mut expected) = (0, vec![]);
        while place < text.len() {
            let here = forms.iter().filter(|(form, _)| text[place..].starts_with(form));
            if let Some((form, name)) = here.max_by_key(|(form, _)| form.len()) {
                expected.extend_from_slice(format!("[secret {name}]").as_bytes());
                place += form.len();
            } else {
                expected.push(text[place]);
                place += 1;
            }
        }
        prop_assert_eq!(scanner.scan_bytes(&text).0.into_owned(), expected);
    }

    #[test]
    fn no_value_survives_in_any_text(before in ".{0,20}", after in ".{0,20}") {
        let scanned = scanner().scan_text(&format!("{before}{SECRET}{after}")).into_owned();
        prop_assert!(!scanned.contains(SECRET));
        prop_assert!(scanned.contains("[secret api-key]"));
    }
}
