//! Valkey: the suites of what lies on Redis run against it too, where a package has it.

use std::path::Path;
use std::process::Command;

use super::debian;
use crate::run::succeeds;

/// Where our list of apt's sources is written.
const LISTS: &str = "target/test-servers/apt";

/// Sees to it that `valkey-server` is there if a package has it: Debian has it since 13, and in the backports
/// of 12. Else it says so, and the tests say that they were not run.
pub(super) fn find_or_install(repository: &Path) {
    if is_there() {
        return;
    }
    if let Err(problem) = debian::install_from_backports(&["valkey-server"], &repository.join(LISTS)) {
        eprintln!("xtask: nothing is tested against Valkey: there is no valkey-server, and {problem:#}");
    }
}

/// Whether it can be started.
pub(super) fn is_there() -> bool {
    succeeds(Command::new("valkey-server").arg("--version"))
}
