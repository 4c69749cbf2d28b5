//! `cargo xtask docs`: writes what is made from code: the pages of `host/docs/reference/`, and `.env.example`.
//!
//! Tests make the pages (`tests/it/documents/reference.rs`), because they can start the binary and ask it. Without this
//! command's variable they compare the committed pages with what they make.

use std::path::Path;

use crate::run::{cargo, run};

/// Which tests make pages.
const WRITERS: &str = "documents::reference";

/// Writes the files anew.
pub(crate) fn write(repository: &Path) -> anyhow::Result<()> {
    // As the tests are built, or the libraries would be built twice, with other features each time.
    run(&mut cargo(repository, ["build", "--workspace", "--bins", "--tests"]))?;
    let mut writers = cargo(repository, ["test", "--workspace", "--quiet", "--test", "it", WRITERS]);
    run(writers.env("WRITE_DOCUMENTS", "1"))
}
