//! What wasmtime makes of `wit/`, and nothing else.
#![allow(unreachable_pub, reason = "generated code")]
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
        // Ends a call that has to wait.
        "agent:tool/toolbox": async | trappable,
    },
    exports: { default: async },
});

/// What the contract has since 0.1.2: a package of its own beside the one that is frozen.
pub mod since_0_1_2 {
    wasmtime::component::bindgen!({
        path: "../../wit/ask",
        world: "agent:tool/asking@0.1.2",
        imports: { "agent:tool/ask": async | trappable },
    });
}
