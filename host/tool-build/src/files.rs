//! Small files, read and written with errors that name them.

use std::fs;
use std::path::Path;

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use crate::{Error, Result};

/// The largest file that is read as a manifest.
const MANIFEST_BYTES: u64 = 1 << 20;

/// The text of a manifest, if there is one.
pub(crate) fn read_manifest(path: &Path) -> Result<Option<String>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("reading the manifest", path, &error)),
        Ok(metadata) if metadata.len() > MANIFEST_BYTES || !metadata.is_file() => {
            return Err(Error::new("what should be a manifest is too large or no file")
                .at(path)
                .mend("put the manifest there that `agent-tool new` writes"));
        }
        Ok(_) => {}
    }
    fs::read_to_string(path).map(Some).map_err(|error| Error::file("reading the manifest", path, &error))
}

/// A manifest in TOML: its tables, lists and strings; all else is null.
pub(crate) fn read_toml(path: &Path) -> Result<Value> {
    let text = read_manifest(path)?.unwrap_or_default();
    let table = DeTable::parse(&text).map_err(|error| {
        Error::new("the manifest is no TOML").at(path).why(error).mend("mend the line that is named")
    })?;
    Ok(convert_table(table.get_ref()))
}

fn convert_table(table: &DeTable<'_>) -> Value {
    table.iter().map(|(key, value)| (key.get_ref().to_string(), convert(value.get_ref()))).collect()
}

fn convert(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Array(items) => items.iter().map(|item| convert(item.get_ref())).collect(),
        DeValue::Table(table) => convert_table(table),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => Value::Null,
    }
}
