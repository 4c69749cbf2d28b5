//! What `wit-bindgen` makes of `wit/tool.wit`, a copy of the contract's that a test holds equal, so that this
//! crate builds outside of its repository. Nothing here is written by hand; the rest of the crate gives these
//! types and functions their names for authors.
//!
//! The world has everything that a tool may import, with a grant and without. A component imports only what
//! its code calls: the linker drops the rest, and with it the need for a grant.

wit_bindgen::generate!({
    path: "wit",
    inline: "
        package agent:sdk;

        world guest {
            include agent:tool/sandboxed-tool@0.1.1;
            include agent:tool/keeping@0.1.1;
            include agent:tool/calling@0.1.1;
        }
    ",
    world: "agent:sdk/guest",
    generate_all,
    additional_derives: [PartialEq, Eq],
    default_bindings_module: "agent_tool_sdk::bindings",
    export_macro_name: "export_guest",
    pub_export_macro: true,
});

/// What the contract has since 0.1.2, of `wit/ask/ask.wit`, a copy likewise.
pub mod since_0_1_2 {
    wit_bindgen::generate!({
        path: "wit/ask",
        world: "agent:tool/asking@0.1.2",
        additional_derives: [PartialEq, Eq],
    });
}
