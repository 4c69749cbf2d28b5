//! PgBouncer: the tests start one of their own. Debian 12 has a version that is refused, which is tested too.

use std::process::Command;

use anyhow::ensure;

use super::debian;
use crate::run::succeeds;

/// Sees to it that `pgbouncer` is there.
pub(super) fn find_or_install() -> anyhow::Result<()> {
    if is_there() {
        return Ok(());
    }
    debian::install(&["pgbouncer"], "the tests", "PgBouncer")?;
    ensure!(is_there(), "apt-get installed pgbouncer, but it cannot be started");
    Ok(())
}

fn is_there() -> bool {
    succeeds(Command::new("pgbouncer").arg("--version"))
}
