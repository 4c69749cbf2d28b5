//! Buckets of histograms.

/// Buckets for what takes seconds to minutes: the defaults of the Node stack
/// (host/docs/interface/node-clients.md#metrics), and more above them, because an agent run is longer than an
/// HTTP request. Queries written for the former still hold.
pub(super) const LONG_SECONDS: [f64; 15] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
