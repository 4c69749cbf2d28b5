//! `cargo xtask chaos`: kills workers with jobs under way and prints what that cost. The program is
//! `tests/chaos/`.

mod beside;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::run::{cargo, run};
use crate::{guests, test};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many workers are killed.
    #[arg(long, default_value_t = 100)]
    kills: u32,
    /// Decides what each job does and when its worker is killed: the same seed, the same plan.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where jobs, runs and journals are kept: all in SQLite, all in PostgreSQL, jobs on Redis with runs in
    /// SQLite or in the document store, or a share of the kills on each.
    #[arg(long, value_enum, default_value_t = Store::All)]
    store: Store,
    /// Only the kill with this number in the plan, to look at it again.
    #[arg(long, value_name = "NUMBER")]
    only: Option<u32>,
    /// Every call of a tool has to be approved, and scripts, tools that ask and child runs are among them:
    /// workers are killed around parking and deciding as well. Beside another version, that has to know
    /// waits.
    #[arg(long)]
    waits: bool,
    /// Another build of the tools comes to serve at every model call: a run under way goes on with the one
    /// that it began with, whoever takes it up. An older version may not know how that is asked for.
    #[arg(long, conflicts_with_all = ["beside", "beside_binary"])]
    swaps: bool,
    /// Have an older version beside this one on the same queue, that of this revision: when one is killed the
    /// other ends the job.
    #[arg(long, value_name = "REVISION", conflicts_with = "beside_binary")]
    beside: Option<String>,
    /// The same with a binary that is there.
    #[arg(long, value_name = "FILE")]
    beside_binary: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Store {
    Sqlite,
    Postgres,
    Redis,
    Mongo,
    All,
}

/// Builds what the acceptance tests are built of, and runs the program.
pub(crate) fn print_table(repository: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    test::install_stores(repository)?;
    let store = match arguments.store {
        Store::Sqlite => "sqlite",
        Store::Postgres => "postgres",
        Store::Redis => "redis",
        Store::Mongo => "mongo",
        Store::All => "all",
    };
    let Arguments { kills, seed, .. } = arguments;
    let mut handed_on =
        vec![format!("--kills={kills}"), format!("--seed={seed}"), format!("--store={store}")];
    handed_on.extend(arguments.only.map(|number| format!("--only={number}")));
    handed_on.extend(arguments.waits.then(|| "--waits=yes".to_owned()));
    handed_on.extend(arguments.swaps.then(|| "--swaps=yes".to_owned()));
    if let Some(revision) = &arguments.beside {
        let binary = beside::build(repository, revision)?;
        handed_on.push(format!("--beside-binary={}", binary.display()));
        handed_on.push(format!("--beside-option=--beside {revision}"));
    } else if let Some(file) = &arguments.beside_binary {
        let binary = fs::canonicalize(file).with_context(|| format!("finding {}", file.display()))?;
        handed_on.push(format!("--beside-binary={}", binary.display()));
    }
    run_program(repository, "chaos", &handed_on)
}

/// Builds the tools, the binary and a program of the acceptance tests, and runs that.
pub(crate) fn run_program(repository: &Path, program: &str, arguments: &[String]) -> anyhow::Result<()> {
    guests::build(repository, &guests::Arguments::default())?;
    // As the tests are built, or the libraries would be built twice, with other features each time.
    run(&mut cargo(repository, ["build", "--workspace", "--bins", "--test", program]))?;
    let test = ["test", "--workspace", "--quiet", "--test", program, "--"];
    run(cargo(repository, test).args(arguments))
}
