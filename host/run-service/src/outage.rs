//! Says once that something fails, and once that it works again.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Something that fails every now and then is reported no more often than this.
const QUIET: Duration = Duration::from_secs(60);

/// Whether something that is used all the time fails at the moment.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    /// So that the usual case costs no lock.
    lasts: AtomicBool,
    /// Held for a few instructions, never across an await.
    reports: Mutex<Reports>,
}

#[derive(Debug, Default)]
struct Reports {
    /// Since when it fails.
    since: Option<Instant>,
    /// Whether that was reported.
    reported: bool,
    last_report: Option<Instant>,
}

impl Outage {
    /// Notes a failure. True when that is worth a line in the log.
    pub(crate) fn begins(&self) -> bool {
        let mut reports = self.reports.lock();
        self.lasts.store(true, Ordering::Relaxed);
        if reports.since.is_some() {
            return false;
        }
        let now = Instant::now();
        reports.since = Some(now);
        reports.reported = reports.last_report.is_none_or(|last| now.duration_since(last) >= QUIET);
        if reports.reported {
            reports.last_report = Some(now);
        }
        reports.reported
    }

    /// Notes a success. Returns how long the failures lasted, when that is worth a line in the log.
    pub(crate) fn ends(&self) -> Option<Duration> {
        if !self.lasts.load(Ordering::Relaxed) {
            return None;
        }
        let mut reports = self.reports.lock();
        self.lasts.store(false, Ordering::Relaxed);
        let since = reports.since.take()?;
        reports.reported.then(|| since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_told_once_and_so_is_its_end() {
        let outage = Outage::default();
        assert_eq!(outage.ends(), None);
        assert!(outage.begins());
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(!outage.begins());
        assert_eq!(outage.ends(), Some(Duration::from_secs(5)));
        assert_eq!(outage.ends(), None);
        // A dependency that fails and works by turns is not told again for a while.
        assert!(!outage.begins());
        assert_eq!(outage.ends(), None);
        tokio::time::advance(QUIET).await;
        assert!(outage.begins());
    }
}
