//! Durations of calls, counted in buckets: bucket `n` has those from 2^(n-1) up to 2^n microseconds. So a
//! duration is known to within a factor of two, and counts of replicas can be added.

use std::time::Duration;

use agent_core::words::DURATION_BUCKETS;

/// Where a p99 lies, in microseconds: 99 of 100 calls took no longer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct P99 {
    /// The most that it can be: the upper end of its bucket, infinite in the last one.
    pub(super) most: f64,
    /// What it is if the calls of its bucket are spread evenly, on a scale of ratios.
    pub(super) estimate: f64,
}

pub(super) fn add(buckets: &mut Vec<u64>, duration: Duration) {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    // The number of binary digits: 0 has none, 1 has one, 2 and 3 have two.
    let digits = u64::BITS.saturating_sub(micros.leading_zeros()) as usize;
    let bucket = digits.min(DURATION_BUCKETS - 1);
    if buckets.len() <= bucket {
        buckets.resize(bucket + 1, 0);
    }
    if let Some(count) = buckets.get_mut(bucket) {
        *count = count.saturating_add(1);
    }
}

/// Nothing without calls.
pub(super) fn p99(buckets: &[u64]) -> Option<P99> {
    let all = total(buckets);
    // The number of the call that 99 of 100 are not slower than, from 1.
    let rank = all.saturating_sub(all / 100);
    let mut faster = 0_u64;
    for (index, count) in buckets.iter().enumerate() {
        let until = faster.saturating_add(*count);
        if rank > 0 && rank <= until {
            let (least, most) = (lower_end(index), upper_end(index));
            let within = rank.saturating_sub(faster) as f64 / *count as f64;
            let estimate = least.max(0.5) * 2.0_f64.powf(within);
            return Some(P99 { most, estimate });
        }
        faster = until;
    }
    None
}

/// How many calls certainly took `micros` or longer, and how many there are.
pub(super) fn at_least(buckets: &[u64], micros: f64) -> (u64, u64) {
    let slow = buckets.iter().enumerate().filter(|(index, _)| lower_end(*index) >= micros);
    let slow = slow.fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    (slow, total(buckets))
}

fn total(buckets: &[u64]) -> u64 {
    buckets.iter().fold(0, |sum, count| sum.saturating_add(*count))
}

fn lower_end(index: usize) -> f64 {
    if index == 0 { 0.0 } else { exact_power(index - 1) }
}

fn upper_end(index: usize) -> f64 {
    if index + 1 >= DURATION_BUCKETS { f64::INFINITY } else { exact_power(index) }
}

fn exact_power(exponent: usize) -> f64 {
    // A longer list than there are buckets is of no version of this service.
    2.0_f64.powi(i32::try_from(exponent.min(DURATION_BUCKETS)).unwrap_or(i32::MAX))
}
