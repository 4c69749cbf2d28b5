//! Chance that can be repeated: SplitMix64, whose numbers are the same for a seed wherever and whenever it
//! runs.

/// A generator.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to below 1, in steps of 2⁻⁵³: all that a float between them holds.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A time between two events that come independently of each other, by its mean.
    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        // 1 − u is above 0, so the logarithm is finite.
        -mean * (1.0 - self.unit()).ln()
    }

    /// A number from 0 to one less than `limit`, which is not 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        // The remainder is below `limit`, so it fits.
        usize::try_from(self.next() % limit as u64).unwrap_or(0)
    }
}
