//! What wasmtime makes of `wit/`, and nothing else.
#![allow(missing_docs, missing_debug_implementations, unreachable_pub, reason = "generated code")]
#![allow(clippy::all, reason = "generated code")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "sandboxed-tool",
    exports: { default: async },
});
