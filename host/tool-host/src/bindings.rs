//! What wasmtime makes of `wit/`, and nothing else.
#![allow(missing_debug_implementations, unreachable_pub, reason = "generated code")]
#![allow(clippy::all, reason = "generated code")]

wasmtime::component::bindgen!({
    path: "../../wit",
    // All that any tool may import.
    inline: "
        package agent:host;
        world any-tool {
            include agent:tool/sandboxed-tool@0.1.1;
            include agent:tool/keeping@0.1.1;
            include agent:tool/calling@0.1.1;
        }
    ",
    world: "agent:host/any-tool",
    imports: {
        "agent:tool/key-value": async,
        "agent:tool/toolbox": async,
    },
    exports: { default: async },
});
