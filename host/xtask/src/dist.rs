//! `cargo xtask dist`: what is shipped, built the way it is shipped. The Dockerfile runs it.

mod bundle;
mod sbom;
mod symbols;

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::guests;
use crate::run::{cargo, run};
use symbols::Split;

/// Builds the tools into `target/tools` and the binary into `target/shipped`, takes its debug information out into a
/// file beside it, says how large everything is, and puts what is released into a folder below `target/dist`.
pub(crate) fn build(repository: &Path) -> anyhow::Result<()> {
    guests::build(repository, &guests::Arguments::default())?;
    run(&mut cargo(repository, ["build", "--profile", "shipped", "--locked"]))?;
    let binary = repository.join("target/shipped/agent-host");
    let whole = size_of(&binary)?;
    match symbols::split(&binary)? {
        Split::Into(debug) => {
            println!("dist: {:>7.1} MiB  target/shipped/agent-host (was {whole:.1})", size_of(&binary)?);
            println!(
                "dist: {:>7.1} MiB  target/shipped/agent-host.debug: names and lines for backtraces, when it lies beside \
                 the binary",
                size_of(&debug)?
            );
        }
        Split::NoObjcopy => println!(
            "dist: {whole:>7.1} MiB  target/shipped/agent-host, most of it symbols: there is no objcopy here to \
             take it out (Debian: apt-get install binutils)"
        ),
    }
    println!("dist: the tools are in target/tools");
    let bundle = bundle::write(repository, env!("CARGO_PKG_VERSION"))?;
    println!("dist: all of it, with sbom.cdx.json and SHA256SUMS, is in {}", bundle.display());
    Ok(())
}

/// In MiB.
fn size_of(file: &Path) -> anyhow::Result<f64> {
    let metadata = fs::metadata(file).with_context(|| format!("reading {}", file.display()))?;
    Ok(metadata.len() as f64 / 1024.0 / 1024.0)
}
