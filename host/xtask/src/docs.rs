//! `cargo xtask docs`: writes what is made from code: the pages of `host/docs/reference/`, and
//! `.env.example`.
//!
//! Tests make the pages (`tests/it/documents/reference.rs`), because they can start the binary and ask it.
//! Without this command's variable they compare the committed pages with what they make. The pictures of the
//! console are taken by the test in which Chromium uses it.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::run::{cargo, run};
use crate::{guests, test};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Take the pictures of host/docs/images anew instead, in Chromium.
    #[arg(long)]
    pictures: bool,
}

/// The test that takes pictures, and where it puts them.
const PHOTOGRAPHER: &str = "console::";
const TAKEN: &str = "target/console";

/// The pictures of pages: the view of tests/console/console.mjs, and the page's name for it.
const PICTURES: [(&str, &str); 2] =
    [("run-light.png", "console-run.png"), ("tool-canary-dark.png", "console-canary.png")];

/// Which tests make pages.
const WRITERS: &str = "documents::reference";

/// Writes the files anew.
pub(crate) fn write(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.pictures {
        return take_pictures(repository);
    }
    // As the tests are built, or the libraries would be built twice, with other features each time.
    run(&mut cargo(repository, ["build", "--workspace", "--bins", "--tests"]))?;
    let mut writers = cargo(repository, ["test", "--workspace", "--quiet", "--test", "it", WRITERS]);
    run(writers.env("WRITE_DOCUMENTS", "1"))
}

fn take_pictures(repository: &Path) -> anyhow::Result<()> {
    test::install_browser(repository)?;
    guests::build(repository, &guests::Arguments::default())?;
    let taken = repository.join(TAKEN);
    fs::create_dir_all(&taken)?;
    run(&mut cargo(repository, ["build", "--workspace", "--bins", "--tests"]))?;
    let mut photographer =
        cargo(repository, ["test", "--workspace", "--quiet", "--test", "it", PHOTOGRAPHER]);
    run(photographer.env("CONSOLE_SCREENSHOTS", &taken))?;
    for (view, name) in PICTURES {
        let to = repository.join("host/docs/images").join(name);
        fs::copy(taken.join(view), &to).with_context(|| format!("copying {view} to {}", to.display()))?;
        println!("docs: {}", to.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pictures_are_views_that_the_browser_looks_at() {
        let repository = crate::repository();
        let script = fs::read_to_string(repository.join("tests/console/console.mjs")).unwrap();
        for (view, name) in PICTURES {
            let (view, _) = view.rsplit_once('-').unwrap();
            assert!(script.contains(&format!("inspect(\"{view}\")")), "{view}");
            assert!(repository.join("host/docs/images").join(name).is_file(), "{name}");
        }
    }
}
