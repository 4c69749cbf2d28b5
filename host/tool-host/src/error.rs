//! Why a component cannot be loaded. Each message says what is wrong and what to do about it.

/// Why a component cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] std::io::Error),
    /// There is something of that name, but it is no file.
    #[error("is not a file")]
    NotAFile,
    /// The file's name would not do as a component's name.
    #[error("the file name must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', then .wasm")]
    BadFileName,
    /// The file is larger than a component may be.
    #[error("has more than {most} bytes, the most a component may have")]
    TooLarge {
        /// What it may have.
        most: u64,
    },
    /// The file is empty.
    #[error("is empty; write the file aside and rename it into the folder")]
    Empty,
    /// The file is not WebAssembly, or only a part of it.
    #[error("is not a whole WebAssembly file ({0}); write the file aside and rename it into the folder")]
    NotWasm(String),
    /// The file is a core module.
    #[error(
        "is a core module, not a component; wrap it with `wasm-tools component new` or build it as wit/README.md says"
    )]
    CoreModule,
    /// The component does not export the tool interface.
    #[error("does not export agent:tool/tool, so it is not a tool; it exports {0}")]
    NotATool(String),
    /// The component was built for a version of the contract that this host does not serve.
    #[error("is built for agent:tool@{found}; this host serves {served}: rebuild it against one of those")]
    UnknownVersion {
        /// The version it exports.
        found: String,
        /// The versions it could export.
        served: &'static str,
    },
    /// The component imports what is not granted to it.
    #[error("imports {0}, which this host does not grant to tools")]
    Ungranted(String),
    /// The component does not compile.
    #[error("does not compile: {0}")]
    Compile(String),
    /// The component compiles but does not fit the contract or the host's limits.
    #[error("does not fit this host: {0}")]
    Link(String),
    /// `describe` did not return.
    #[error("its describe function failed: {0}")]
    Describe(String),
    /// The host could not have the component describe itself. That is no fault of the component's.
    #[error("could not be asked to describe itself ({0}); it is tried again")]
    Host(String),
    /// `describe` returned something that cannot be served.
    #[error("describes its tool {tool:?} wrongly: {problem}")]
    Definition {
        /// The tool's name, as described.
        tool: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Another component offers a tool of the same name.
    #[error("offers the tool {tool:?}, and so does {other}: rename the tool in one of the two or remove one")]
    Duplicate {
        /// The name both claim.
        tool: String,
        /// The other component's file.
        other: String,
    },
}

impl LoadError {
    /// Whether the same file may load the next time.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::Host(_))
    }
}
