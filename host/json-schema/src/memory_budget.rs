//! Memory that the values of one text, or of several, may take.

use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::{Deserializer, Value};

use crate::ReadError;
use crate::metered::{Meter, Metered};

/// Memory for values when nothing else is said. A megabyte of ordinary JSON takes some ten.
const ROOM: usize = 16 << 20;

/// How much memory values may still take beyond the texts that they are read from. Bounding those is the
/// caller's.
///
/// What one reading spends the next one does not have: several texts of one stranger are read with one
/// budget.
#[derive(Debug)]
pub struct MemoryBudget {
    most: usize,
    meter: Meter,
}

impl Default for MemoryBudget {
    /// 16 MiB.
    fn default() -> Self {
        Self::new(ROOM)
    }
}

impl MemoryBudget {
    /// A budget of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { most: bytes, meter: Meter { left: bytes, exceeded: false } }
    }

    /// Reads a value. Of members of one name the last counts.
    pub fn read(&mut self, text: &[u8]) -> Result<Value, ReadError> {
        self.meter.exceeded = false;
        let mut reader = Deserializer::from_slice(text);
        let read = Metered(&mut self.meter).deserialize(&mut reader);
        read.and_then(|value| reader.end().map(|()| value)).map_err(|error| match self.meter.exceeded {
            true => ReadError::TooLarge { most: self.most },
            false => ReadError::Json(error),
        })
    }

    /// Reads a value that JavaScript may have written: where its text has bytes that are not UTF-8, or an
    /// escape of half a surrogate pair, the value has U+FFFD.
    pub fn read_loosely(&mut self, text: &[u8]) -> Result<Value, ReadError> {
        let left = self.meter.left;
        let read = self.read(text);
        let Err(ReadError::Json(_)) = read else { return read };
        let whole = whole_characters(text);
        if whole == text {
            return read;
        }
        // The values of the first reading are gone, and are not counted once more.
        self.meter.left = left;
        self.read(&whole)
    }

    /// Reads a value as a type of the caller's. While the type is made of it there may be both.
    pub fn read_as<T: DeserializeOwned>(&mut self, text: &[u8]) -> Result<T, ReadError> {
        serde_json::from_value(self.read(text)?).map_err(ReadError::Json)
    }
}

/// JSON with U+FFFD in the place of bytes that are not UTF-8, as Node decodes them, and of escapes of half a
/// surrogate pair. `JSON.stringify` writes those for a text that was cut within a character, and UTF-8 has no
/// bytes for them.
fn whole_characters(json: &[u8]) -> Vec<u8> {
    const ESCAPE: usize = r"\uffff".len();
    let mut json = String::from_utf8_lossy(json).into_owned().into_bytes();
    let mut from = 0;
    while let Some(found) = json.get(from..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        let at = from + found;
        let (unit, next) = (escaped_unit(&json[at..]), json.get(at + ESCAPE..).and_then(escaped_unit));
        from = at
            + match (unit, next) {
                (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 2 * ESCAPE,
                (Some(0xD800..=0xDFFF), _) => {
                    json[at..at + ESCAPE].copy_from_slice(br"\ufffd");
                    ESCAPE
                }
                // The second backslash of two begins no escape.
                _ => 2,
            };
    }
    json
}

/// The UTF-16 unit whose escape a text begins with.
fn escaped_unit(json: &[u8]) -> Option<u16> {
    let digits = json.strip_prefix(br"\u")?.get(..4)?;
    u16::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}
