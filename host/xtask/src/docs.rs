//! `cargo xtask docs`: writes what is made from code: the table of variables in README.md, and `.env.example`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use crate::run::{cargo, run};

/// The table stands between these two lines of README.md.
const BEGIN: &str = "<!-- variables: written by cargo xtask docs -->\n";
const END: &str = "<!-- end of variables -->\n";

/// Writes the files anew.
pub(crate) fn write(repository: &Path) -> anyhow::Result<()> {
    // As the tests are built, or the libraries would be built twice, with other features each time.
    run(&mut cargo(repository, ["build", "--workspace", "--bins", "--tests"]))?;
    let readme = repository.join("README.md");
    let text = fs::read_to_string(&readme).context("reading README.md")?;
    let (before, rest) = text.split_once(BEGIN).context("README.md has no place for the variables")?;
    let Some((_, after)) = rest.split_once(END) else { bail!("the variables in README.md have no end") };
    let table = variables(repository, "markdown")?;
    fs::write(&readme, format!("{before}{BEGIN}{table}{END}{after}")).context("writing README.md")?;
    fs::write(repository.join(".env.example"), variables(repository, "env")?).context("writing .env.example")
}

fn variables(repository: &Path, format: &str) -> anyhow::Result<String> {
    let binary = repository.join("target/debug/agent-host");
    let output = Command::new(binary)
        .args(["variables", "--format", format])
        .output()
        .context("starting agent-host")?;
    ensure!(output.status.success(), "agent-host variables failed");
    Ok(String::from_utf8(output.stdout)?)
}
