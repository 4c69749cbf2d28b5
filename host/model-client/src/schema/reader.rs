//! The state of reading one schema, which `combine` and the module itself read by.

use serde_json::Value;

/// Reads one schema.
pub(super) struct Reader<'a> {
    pub(super) root: &'a Value,
    /// Parts that may still be read. References can make a short schema a large one.
    pub(super) left: usize,
}
