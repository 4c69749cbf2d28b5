//! The wall clock of this process, and ids that nothing else has: the only file of this crate that asks for
//! either, so that a simulation decides both (`agent_core::testing::clock`). What is waited for goes by
//! tokio's time.

use std::time::SystemTime;

use uuid::Uuid;

/// What time it is, by this process' clock.
pub(crate) fn now() -> SystemTime {
    #[cfg(any(test, feature = "testing"))]
    return agent_core::testing::clock::wall_clock();
    #[cfg(not(any(test, feature = "testing")))]
    SystemTime::now()
}

/// What time it is, in milliseconds since 1970, as journals have it: waits begin and expire by it.
pub(crate) fn millis() -> u64 {
    let since = now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// An id of 32 hexadecimal digits that no other process makes. Later ones sort behind earlier ones.
pub(crate) fn new_id() -> String {
    #[cfg(any(test, feature = "testing"))]
    if let Some(bytes) = agent_core::testing::clock::random_bytes() {
        return uuid::Builder::from_unix_timestamp_millis(millis(), &bytes).into_uuid().simple().to_string();
    }
    Uuid::now_v7().simple().to_string()
}
