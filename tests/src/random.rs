//! Chance that can be repeated: SplitMix64, whose numbers are the same for a seed wherever and whenever it
//! runs.

/// A generator.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 to one less than `limit`, which is not 0. The bias of the remainder is below 2⁻⁴⁰ for
    /// limits below 2²⁴.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    /// One of some, of which there is at least one.
    pub fn pick<T: Copy>(&mut self, some: &[T]) -> T {
        let index = usize::try_from(self.below(some.len() as u64)).expect("an index of a slice");
        some[index]
    }
}
