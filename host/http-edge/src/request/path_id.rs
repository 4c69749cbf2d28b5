//! Ids of runs and jobs in paths.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use serde_json::{Value, json};

use crate::request::Field;

/// Longer than any id, in bytes.
const LONGEST_ID: usize = 256;

/// An id as a path has it, if it can be read.
pub type PathId = Result<Path<String>, PathRejection>;

/// What nothing can have as its id is not even looked for: it could be too much for a store.
pub fn check_id(id: PathId) -> Option<String> {
    let Path(id) = id.ok()?;
    may_be_id(&id).then_some(id)
}

/// Whether a text may be an id: for ids that come in another way.
pub fn may_be_id(id: &str) -> bool {
    id.len() <= LONGEST_ID && !id.contains(char::is_control)
}

/// Describes an id for the document with the bounds of [`may_be_id`].
pub const fn id(name: &'static str, about: &'static str, example: fn() -> Value) -> Field {
    Field::text(name).least(1).most(LONGEST_ID as u32).about(about).example(example)
}

/// The id of a run.
pub const RUN_ID: Field =
    id("runId", "The run: `Content-Location` of its stream, and its event `run.started`, name it.", || {
        json!("run_01a204ec6206715fbb305322b42db99d")
    });
