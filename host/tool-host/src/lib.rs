//! Runs tools that are WebAssembly components.
