//! Every target takes its corpus and some thousand inputs that are mutated from it.
//!
//! `PROPTEST_CASES` makes more of them, `PROPTEST_RNG_SEED` others.

#[cfg(test)]
mod corpora;
#[cfg(test)]
mod parsers;
