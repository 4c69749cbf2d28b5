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

    /// Reads a value as a type of the caller's. While the type is made of it there may be both.
    pub fn read_as<T: DeserializeOwned>(&mut self, text: &[u8]) -> Result<T, ReadError> {
        serde_json::from_value(self.read(text)?).map_err(ReadError::Json)
    }
}
