//! What a script may use of the engine.

/// Most calls within one another, those that go through functions of the language such as `map` included.
/// Each of these takes up to some kilobytes of the guest's stack, of which there is one megabyte.
pub(crate) const MOST_NESTED_CALLS: usize = 256;

/// Most values that wait on the engine's own stack: what `f(...values)` can spread.
pub(crate) const MOST_STACKED_VALUES: usize = 128 << 10;

/// Largest `ArrayBuffer`, in bytes.
pub(crate) const MOST_BUFFER_BYTES: u64 = 16 << 20;
