//! What `wit-bindgen` makes of `wit/tool.wit`. Nothing here is written by hand; the rest of the crate gives
//! these types and functions their names for authors.

wit_bindgen::generate!({
    path: "../../wit",
    world: "sandboxed-tool",
    additional_derives: [PartialEq, Eq],
    default_bindings_module: "agent_tool::bindings",
    export_macro_name: "export_guest",
    pub_export_macro: true,
});
