//! The forms in which a value is looked for: as it is, and through the encodings that servers and libraries
//! apply.
//!
//! Base64, in both alphabets, of any text that contains the value; URL-encoding as the common libraries do
//! it, in upper and lower case; JSON strings, once and twice, with the escapes that libraries choose; HTML;
//! hexadecimal. Not looked for: base64 broken over lines, other combinations of encodings, compression.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

/// What RFC 3986 calls unreserved stays.
const RFC_3986: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// `encodeURIComponent`.
const URI_COMPONENT: &AsciiSet = &RFC_3986.remove(b'!').remove(b'*').remove(b'\'').remove(b'(').remove(b')');

/// Forms of HTML. Spaces become a plus, or `%20`.
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'*').remove(b'-').remove(b'.').remove(b'_');

/// `encodeURI`.
const URI: &AsciiSet = &URI_COMPONENT
    .remove(b';')
    .remove(b'/')
    .remove(b'?')
    .remove(b':')
    .remove(b'@')
    .remove(b'&')
    .remove(b'=')
    .remove(b'+')
    .remove(b'$')
    .remove(b',')
    .remove(b'#');

/// The query of a URL as browsers write it.
const QUERY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'<').add(b'>').add(b'\'');

/// All forms of a value, itself included.
pub(super) fn of(value: &str) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::from([value.to_owned()]);
    url_encoded(value, &mut forms);
    json_escaped(value, &mut forms);
    html_escaped(value, &mut forms);
    hexadecimal(value, &mut forms);
    let mut forms: BTreeSet<Vec<u8>> = forms.into_iter().map(String::into_bytes).collect();
    base64(value, &mut forms);
    forms
}

fn url_encoded(value: &str, forms: &mut BTreeSet<String>) {
    let every_byte = value.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let mut encoded = vec![every_byte];
    for set in [NON_ALPHANUMERIC, RFC_3986, URI_COMPONENT, FORM, URI, QUERY] {
        let one = utf8_percent_encode(value, set).to_string();
        encoded.push(one.replace("%20", "+"));
        encoded.push(one);
    }
    for one in encoded {
        forms.insert(lower_escapes(&one));
        forms.insert(one);
    }
}

/// With the hexadecimal digits of the escapes in lower case.
fn lower_escapes(encoded: &str) -> String {
    let mut digits = 0_u8;
    let lower = |character: char| {
        if character == '%' {
            digits = 2;
            character
        } else if digits > 0 {
            digits -= 1;
            character.to_ascii_lowercase()
        } else {
            character
        }
    };
    encoded.chars().map(lower).collect()
}

/// The inside of a JSON string, and of one in it, with any of the escapes that may be left away.
fn json_escaped(value: &str, forms: &mut BTreeSet<String>) {
    for choice in 0..16_u8 {
        let once = json_with(value, choice);
        forms.extend([json_with(&once, choice), json_with(&once, 0), once]);
    }
}

/// With the optional escapes that the bits choose: slashes, what is not ASCII, what HTML would read, and
/// whether hexadecimal digits are in upper case.
fn json_with(value: &str, choice: u8) -> String {
    let chosen = |bit: u8| choice & (1 << bit) != 0;
    let (slash, ascii, html, upper) = (chosen(0), chosen(1), chosen(2), chosen(3));
    let mut escaped = String::with_capacity(value.len() * 2);
    let unicode = |escaped: &mut String, character: char| {
        for unit in character.encode_utf16(&mut [0; 2]) {
            let hex = if upper { format!("\\u{unit:04X}") } else { format!("\\u{unit:04x}") };
            escaped.push_str(&hex);
        }
    };
    for character in value.chars() {
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '/' if slash => escaped.push_str("\\/"),
            '<' | '>' | '&' | '\'' if html => unicode(&mut escaped, character),
            _ if ascii && !character.is_ascii() => unicode(&mut escaped, character),
            _ => escaped.push(character),
        }
    }
    escaped
}

fn html_escaped(value: &str, forms: &mut BTreeSet<String>) {
    let markup = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    for double in ["\"", "&quot;", "&#34;"] {
        for single in ["'", "&#39;", "&#x27;", "&#039;", "&apos;"] {
            forms.insert(markup.replace('"', double).replace('\'', single));
        }
    }
}

fn hexadecimal(value: &str, forms: &mut BTreeSet<String>) {
    forms.insert(value.bytes().map(|byte| format!("{byte:02x}")).collect());
    forms.insert(value.bytes().map(|byte| format!("{byte:02X}")).collect());
}

/// The characters that the value alone decides, for each of the three places it can have in a group of three
/// bytes. A value of eight bytes leaves ten of them.
fn base64(value: &str, forms: &mut BTreeSet<Vec<u8>>) {
    for before in 0..3 {
        let mut text = vec![0; before];
        text.extend_from_slice(value.as_bytes());
        let (first, end) = ((before * 8).div_ceil(6), text.len() * 8 / 6);
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            let encoded = engine.encode(&text);
            forms.extend(encoded.get(first..end).map(|own| own.as_bytes().to_vec()));
        }
    }
}
