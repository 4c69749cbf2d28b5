//! Bytes as text. The charset is what the server says, then what the bytes say.

/// Bytes at the beginning in which a page says its charset.
const LOOKED_AT: usize = 1024;

/// What the bytes 0x80 to 0x9f of windows-1252 stand for; the standard reads ISO 8859-1 and ASCII as it too
/// (<https://encoding.spec.whatwg.org/>).
const WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}',
    '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// Makes text of bytes; `content_type` is the header's value. Fails with the name of a charset that is not
/// known here.
pub(crate) fn decode(bytes: &[u8], content_type: &str) -> Result<String, String> {
    for (mark, charset) in
        [(&[0xef, 0xbb, 0xbf][..], "utf-8"), (&[0xff, 0xfe], "utf-16le"), (&[0xfe, 0xff], "utf-16be")]
    {
        if let Some(rest) = bytes.strip_prefix(mark) {
            return decode_as(rest, charset);
        }
    }
    if let Some(charset) = stated_in_header(content_type).or_else(|| stated_in_text(bytes)) {
        return decode_as(bytes, &charset);
    }
    // Nothing is said: what is not UTF-8 is old and Western most often. What is read may end within a
    // character.
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) if error.error_len().is_none() && !is_ascii(bytes, error.valid_up_to()) => {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
        Err(_) => decode_as(bytes, "windows-1252"),
    }
}

fn is_ascii(bytes: &[u8], end: usize) -> bool {
    bytes.get(..end).is_some_and(<[u8]>::is_ascii)
}

fn decode_as(bytes: &[u8], charset: &str) -> Result<String, String> {
    let pairs = || {
        bytes
            .chunks(2)
            .map(|pair| [pair.first().copied(), pair.get(1).copied()].map(Option::unwrap_or_default))
    };
    let units = |of: fn([u8; 2]) -> u16| {
        char::decode_utf16(pairs().map(of)).map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    };
    match charset.to_ascii_lowercase().as_str() {
        "utf-8" | "utf8" => Ok(String::from_utf8_lossy(bytes).into_owned()),
        "windows-1252" | "cp1252" | "iso-8859-1" | "iso8859-1" | "latin1" | "latin-1" | "us-ascii"
        | "ascii" => Ok(bytes.iter().map(|byte| read_1252(*byte)).collect()),
        "iso-8859-15" | "latin-9" | "latin9" => Ok(bytes.iter().map(|byte| read_8859_15(*byte)).collect()),
        "utf-16" | "utf-16le" => Ok(units(u16::from_le_bytes)),
        "utf-16be" => Ok(units(u16::from_be_bytes)),
        other => Err(other.chars().take(40).collect()),
    }
}

fn read_1252(byte: u8) -> char {
    let special = byte.checked_sub(0x80).and_then(|index| WINDOWS_1252.get(usize::from(index)));
    special.copied().unwrap_or(char::from(byte))
}

fn read_8859_15(byte: u8) -> char {
    match byte {
        0xa4 => '€',
        0xa6 => 'Š',
        0xa8 => 'š',
        0xb4 => 'Ž',
        0xb8 => 'ž',
        0xbc => 'Œ',
        0xbd => 'œ',
        0xbe => 'Ÿ',
        other => char::from(other),
    }
}

fn stated_in_header(content_type: &str) -> Option<String> {
    let parameters = content_type.split(';').skip(1);
    let mut named = parameters.filter_map(|parameter| parameter.split_once('='));
    let (_, charset) = named.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    let charset = charset.trim().trim_matches(['"', '\'']);
    (!charset.is_empty()).then(|| charset.to_owned())
}

/// `<meta charset=…>`, the `content` of an older `<meta>`, or the `encoding` of an XML declaration.
fn stated_in_text(bytes: &[u8]) -> Option<String> {
    let beginning = bytes.get(..LOOKED_AT.min(bytes.len())).unwrap_or_default();
    let beginning = String::from_utf8_lossy(beginning).to_ascii_lowercase();
    let tags = beginning.split('<').filter_map(|tag| tag.split_once('>')).map(|(tag, _)| tag);
    let mut stating = tags.filter(|tag| tag.starts_with("meta") || tag.starts_with("?xml"));
    stating.find_map(|tag| {
        let (_, behind) = tag.split_once("charset").or_else(|| tag.split_once("encoding"))?;
        let charset = behind.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
        let is_end = |one: char| !one.is_ascii_alphanumeric() && !matches!(one, '-' | '_' | ':');
        let charset = charset.split(is_end).next().filter(|charset| !charset.is_empty())?;
        // What can be read so far is no UTF-16, whatever it says.
        Some(if charset.starts_with("utf-16") { "utf-8".to_owned() } else { charset.to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn bytes_are_read_in_the_charset_that_is_stated() {
        for (bytes, content_type, text) in [
            (&b"\xc3\xa9"[..], "text/html", "é"),
            (b"\xe9\x80", "text/html", "é€"),
            (b"\xe9", "text/plain; Charset=\"ISO-8859-1\"", "é"),
            (b"\xa4", "text/plain;charset=iso-8859-15", "€"),
            (b"<meta charset=latin1>\xe9", "text/html", "<meta charset=latin1>é"),
            (
                b"<META http-equiv=x content='text/html; charset=windows-1252'>\x93",
                "",
                "<META http-equiv=x content='text/html; charset=windows-1252'>“",
            ),
            (
                b"<?xml version='1.0' encoding='iso-8859-1'?>\xe9",
                "text/xml",
                "<?xml version='1.0' encoding='iso-8859-1'?>é",
            ),
            (b"\xef\xbb\xbf\xc3\xa9", "text/html; charset=latin1", "é"),
            (b"\xff\xfea\0\xac\x20", "", "a€"),
            (b"\xfe\xff\0a\x20\xac", "", "a€"),
            (b"caf\xe9", "", "café"),
            (b"\xc3\xa9\xc3", "", "é\u{fffd}"),
            (b"<meta charset=utf-16>\xc3\xa9", "", "<meta charset=utf-16>é"),
            (b"", "", ""),
        ] {
            assert_eq!(decode(bytes, content_type).as_deref(), Ok(text), "{content_type}");
        }
        assert_eq!(decode(b"x", "text/html; charset=Shift_JIS"), Err("shift_jis".to_owned()));
    }
}
