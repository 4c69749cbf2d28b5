//! The tool host against components: written as text, and the misbehaving one that `cargo xtask guests` builds.

mod folder;
mod harness;
mod sandbox;
mod text;
