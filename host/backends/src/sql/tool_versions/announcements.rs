//! Records that other processes write are announced by PostgreSQL, so that who follows them need not ask each
//! second (`../listener.rs`). On SQLite nothing is announced.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::sql::listener::{Hears, TOOLS};

/// What is heard of records.
#[derive(Debug, Default)]
pub(super) struct ToolAnnouncements {
    is_heard: AtomicBool,
    heard: Notify,
}

impl ToolAnnouncements {
    /// Whether announcements arrive.
    pub(super) fn is_heard(&self) -> bool {
        self.is_heard.load(Ordering::Acquire)
    }

    /// Waits for one, or until some may have been missed. One that came before is not forgotten.
    pub(super) async fn next(&self) {
        self.heard.notified().await;
    }
}

impl Hears for ToolAnnouncements {
    fn listening(&self, is_listening: bool) {
        self.is_heard.store(is_listening, Ordering::Release);
        self.heard.notify_one();
    }

    fn hear(&self, channel: &str, _text: &str) {
        if channel == TOOLS {
            self.heard.notify_one();
        }
    }
}
