//! `limits`: what one call may use up.

use std::ops::RangeInclusive;

use super::reader::{Reader, Section};
use crate::model::CallLimits;

/// Every limit with the least and the most it may be. The first three have the bounds of the host's own
/// settings.
const BOUNDS: [(&str, RangeInclusive<u64>); 7] = [
    ("timeout-ms", 1..=3_600_000),
    ("memory-bytes", 1 << 20..=4 << 30),
    ("output-bytes", 1..=1 << 30),
    ("fuel", 0..=i64::MAX as u64),
    ("requests", 0..=10_000),
    ("concurrent-requests", 1..=100),
    ("http-bytes", 0..=1 << 30),
];

pub(super) fn read(reader: &mut Reader<'_>, section: &Section<'_, '_>) -> CallLimits {
    let standard = CallLimits::default();
    let written = "a table, { timeout-ms = 5000 }";
    let Some(table) = section.table(reader, "limits", written) else { return standard };
    let limits = Section::open(reader, table, "in limits", &BOUNDS.map(|(key, _)| key));
    let [timeout_ms, memory_bytes, output_bytes, fuel, requests, concurrent_requests, http_bytes] =
        BOUNDS.map(|(key, bounds)| limits.number(reader, key, bounds));
    // The bounds of both fit.
    let small = |value: Option<u64>| value.and_then(|value| u32::try_from(value).ok());
    CallLimits {
        timeout_ms,
        memory_bytes,
        output_bytes,
        fuel: fuel.filter(|fuel| *fuel > 0),
        requests: small(requests).unwrap_or(standard.requests),
        concurrent_requests: small(concurrent_requests).unwrap_or(standard.concurrent_requests),
        http_bytes: http_bytes.unwrap_or(standard.http_bytes),
    }
}
