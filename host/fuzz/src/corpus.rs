//! The inputs of a target that are kept: a text file with an entry behind each line of dashes.
//!
//! ```text
//! ---- text
//! {"a": 1}
//! ---- hex
//! 00 61 73 6d
//! ---- wat
//! (component)
//! ```
//!
//! What is of WebAssembly's text format stands for its binary.

use std::fs;
use std::io;
use std::path::PathBuf;

const TEXT: &str = "---- text";
const HEX: &str = "---- hex";
const WAT: &str = "---- wat";

/// Bytes on a line of hexadecimal digits.
const LINE_BYTES: usize = 48;

/// The file of a target.
pub fn file(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format!("{target}.txt"))
}

/// The entries of a target.
pub fn read(target: &str) -> io::Result<Vec<Vec<u8>>> {
    parse(&fs::read_to_string(file(target))?).map_err(io::Error::other)
}

/// Adds entries to a target's file.
pub fn add(target: &str, entries: &[Vec<u8>]) -> io::Result<()> {
    let mut kept = fs::read_to_string(file(target))?;
    entries.iter().for_each(|entry| kept.push_str(&written(entry)));
    fs::write(file(target), kept)
}

/// The entries of a text. A text ends before the line break that ends its last line.
pub fn parse(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut entries: Vec<(&str, String)> = vec![];
    for line in text.split_inclusive('\n') {
        match (line.trim_end(), entries.last_mut()) {
            (kind @ (TEXT | HEX | WAT), _) => entries.push((kind, String::new())),
            (_, Some((_, content))) => content.push_str(line),
            (_, None) => return Err(format!("an entry begins with {TEXT:?}, {HEX:?} or {WAT:?}: {line:?}")),
        }
    }
    let bytes = |(kind, content): (&str, String)| match kind {
        HEX => from_hex(&content),
        WAT => wat::parse_str(&content).map_err(|error| error.to_string()),
        _ => Ok(content.strip_suffix('\n').unwrap_or(&content).as_bytes().to_vec()),
    };
    entries.into_iter().map(bytes).collect()
}

fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|char| !char.is_whitespace())
        .map(|char| char.to_digit(16).ok_or_else(|| format!("no hexadecimal digit: {char:?}")))
        .collect::<Result<_, _>>()?;
    let byte = |pair: &[u32]| match pair {
        [high, low] => u8::try_from(high * 16 + low).map_err(|error| error.to_string()),
        _ => Err("half of a byte".to_owned()),
    };
    digits.chunks(2).map(byte).collect()
}

/// An entry as it is written: as text where that is read back alike.
pub fn written(entry: &[u8]) -> String {
    let is_plain = |char: char| !char.is_control() || matches!(char, '\n' | '\t');
    if let Ok(text) = str::from_utf8(entry)
        && text.chars().all(is_plain)
    {
        let written = format!("{TEXT}\n{text}\n");
        if parse(&written).is_ok_and(|read| read == [entry]) {
            return written;
        }
    }
    let lines = entry.chunks(LINE_BYTES).map(|line| {
        let digits: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        digits + "\n"
    });
    format!("{HEX}\n{}", lines.collect::<String>())
}
