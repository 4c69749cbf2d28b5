//! Redis: the tests start a server of their own.

use std::process::Command;

use anyhow::ensure;

use super::debian;
use crate::run::succeeds;

/// Sees to it that `redis-server` is there.
pub(super) fn find_or_install() -> anyhow::Result<()> {
    if is_there() {
        return Ok(());
    }
    debian::install(&["redis-server"], "the tests", "redis-server")?;
    ensure!(is_there(), "apt-get installed redis-server, but it cannot be started");
    Ok(())
}

fn is_there() -> bool {
    succeeds(Command::new("redis-server").arg("--version"))
}
