//! `cargo xtask chaos`, `cargo xtask soak` and the counting of `cargo xtask scale` for a few seconds each, so
//! that what they count stays what they say. Their own tests stand in their files.

use std::time::Duration;

// Benches have no tests of their own.
#[path = "../benches/profile/areas.rs"]
#[allow(dead_code, reason = "only its tests are run here")]
mod areas;
#[path = "../scale/costs/mod.rs"]
#[allow(dead_code, reason = "only the cost of one unit is counted here")]
mod costs;
#[path = "../soak/endurance/mod.rs"]
mod endurance;
#[path = "../chaos/kills/mod.rs"]
mod kills;
#[path = "../benches/lone/syscalls.rs"]
#[allow(dead_code, reason = "only its tests are run here")]
mod syscalls;

use kills::{Heir, OldBinary, StoreKind, Versions};

#[tokio::test]
async fn a_few_kills_lose_nothing_and_each_stands_in_the_table() {
    let (stores, heirs) = (vec![StoreKind::Sqlite], vec![Heir::Restarted]);
    let versions = vec![Versions::Same];
    let order = kills::Order { kills: 6, seed: 1, stores, heirs, versions, waits: false, swaps: false };
    let report = kills::make(kills::plan(&order), None, |_| ()).await;
    let (table, total) = (report.table(), report.total());
    assert_eq!(total.broken(), 0, "{}\n{table}", report.broken());
    assert_eq!(report.kills(), order.kills, "{table}");
    assert!(report.that_hit() * 2 > order.kills, "they are aimed at jobs under way: {table}");
    assert!(total.resumed > 0, "streams are read on behind a death: {table}");
    assert!(table.lines().last().is_some_and(|line| line.starts_with("| all |  | 6 |")), "{table}");
}

#[tokio::test]
async fn a_few_kills_around_waits_and_swaps_decide_nothing_twice_and_keep_to_one_version() {
    let (stores, heirs) = (vec![StoreKind::Sqlite], vec![Heir::Restarted]);
    let versions = vec![Versions::Same];
    let order = kills::Order { kills: 6, seed: 2, stores, heirs, versions, waits: true, swaps: true };
    let report = kills::make(kills::plan(&order), None, |_| ()).await;
    assert_eq!((report.kills(), report.total().broken()), (6, 0), "{}\n{}", report.broken(), report.table());
    assert!(report.swaps > 0, "{}", report.table());
}

/// One binary is both versions here: only that each dies as planned, and that the other one goes on, is
/// tested.
#[tokio::test]
async fn kills_beside_another_version_are_made_both_ways() {
    let (stores, heirs) = (vec![StoreKind::Sqlite], vec![Heir::Restarted]);
    let versions = vec![Versions::NewThenOld, Versions::OldThenNew];
    let order = kills::Order { kills: 4, seed: 1, stores, heirs, versions, waits: false, swaps: false };
    let old = OldBinary::at(acceptance::agent_host());
    let report = kills::make(kills::plan(&order), Some(&old), |_| ()).await;
    let table = report.table();
    assert_eq!((report.kills(), report.total().broken()), (4, 0), "{}\n{table}", report.broken());
    for row in ["| sqlite | old dies, new ends the job | 2 |", "| sqlite | new dies, old ends the job | 2 |"]
    {
        assert!(table.contains(row), "{row}: {table}");
    }
}

#[tokio::test]
async fn a_few_seconds_of_everything_at_once_are_answered_rightly_and_drawn() {
    let lasting = Duration::from_secs(8);
    let order = endurance::Order { seed: 1, lasting, sampled_every: Duration::from_millis(500) };
    let outcome = endurance::endure(order).await;
    assert_eq!(outcome.wrong(), [] as [String; 0], "{}", outcome.tables());
    let (answers, outages, swaps) = outcome.events();
    assert!(answers > 50 && outages > 0 && swaps > 1, "{answers}, {outages}, {swaps}: {}", outcome.tables());
    let (table, svg) = (outcome.tables(), outcome.svg("a few seconds"));
    for measured in ["replica 2: resident memory", "replica 1: open descriptors", "PostgreSQL", "Redis"] {
        assert!(table.contains(measured) && svg.contains(measured), "{measured}: {table}");
    }
}

#[tokio::test]
async fn a_few_jobs_are_counted_in_commands_rows_and_bytes() {
    // Runs are written behind their jobs' ends.
    let soon = Duration::from_secs(1);
    let figures =
        costs::of_a_job(costs::Order { units: 8, lanes: 1, lasting: soon, reported_after: soon }).await;
    // Rate windows, submission, wait, claim and end; `job_commands.rs` holds the bound.
    let commands = figures["redis_commands"];
    assert!((3.0..30.0).contains(&commands), "{figures:?}");
    assert!(figures["redis_operations"] > commands, "scripts do more than one thing: {figures:?}");
    // A job's hash and its result are hundreds of bytes in the log of Redis; its run is rows in that of
    // PostgreSQL.
    for name in ["redis_log_bytes", "redis_in_bytes", "postgres_wal_bytes"] {
        assert!((200.0..100_000.0).contains(&figures[name]), "{name}: {figures:?}");
    }
    for name in ["redis_us", "postgres_us"] {
        assert!((0.0..1e6).contains(&figures[name]), "{name}: {figures:?}");
    }
}
