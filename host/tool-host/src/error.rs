//! Why a component cannot be loaded. Each message says what is wrong and what to do about it.

use agent_core::words::FoundDescription;
use json_schema::text_sanitizer::printable;
use mcp_client::LookError;
use tool_grants::GrantError;

/// Longest error text of a guest or of wasmtime that is kept.
const DETAIL_BYTES: usize = 1 << 10;

/// Why a component cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[source] std::io::Error),
    /// The copy of the last good version cannot be read.
    #[error("the copy that was kept of it cannot be read: {0}")]
    Forgotten(#[source] std::io::Error),
    /// There is something of that name, but it is no file.
    #[error("is not a file")]
    NotAFile,
    /// The file's name would not do as a component's name.
    #[error("the file name must be 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', then .wasm")]
    BadFileName,
    /// The file is larger than a component may be.
    #[error("has more than {most} bytes, the most a component may have")]
    TooLarge { most: u64 },
    #[error("is empty: send all of it, or write it aside and rename it into the folder")]
    Empty,
    /// The file is not WebAssembly, or only a part of it.
    #[error(
        "is not a whole WebAssembly file ({0}): send all of it, or write it aside and rename it into the folder"
    )]
    NotWasm(String),
    /// The file is something else that is easily recognized.
    #[error("is not a WebAssembly component but {0}")]
    SomethingElse(&'static str),
    #[error(
        "is a core module, not a component; wrap it with `wasm-tools component new` or build it as wit/README.md says"
    )]
    CoreModule,
    /// A section of the outermost component has more names, or the component is nested deeper, than anything
    /// is compiled of.
    #[error("has {0}: no tool needs as much, so it is not read")]
    TooManyNames(&'static str),
    /// The component does not export the tool interface.
    #[error(
        "does not export agent:tool/tool or functions of its own, so it is not a tool; it exports {0}: build it for a world of wit/tool.wit"
    )]
    NotATool(String),
    /// The component exports functions of its own, and they cannot be tools.
    #[error("exports functions that cannot be tools: {0}")]
    Typed(String),
    /// The component was built for a version of the contract that this host does not serve.
    #[error("is built for agent:tool@{found}; this host serves {served}: rebuild it against one of those")]
    UnknownVersion {
        /// The version it exports.
        found: String,
        /// The versions it could export.
        served: &'static str,
    },
    /// The component has more imports than anybody would look at.
    #[error(
        "has {found} imports; it may have {most}, because operators are shown all of them: build it without those that it does not need"
    )]
    TooManyImports {
        found: usize,
        /// How many it may have.
        most: usize,
    },
    /// The policy in force stands against it.
    #[error(transparent)]
    Grants(#[from] GrantError),
    /// The component imports what is not granted to it.
    #[error(
        "imports {0}, which this host does not grant to tools: build it without, for agent:tool@0.1.1, WASI 0.2 and nothing else"
    )]
    Ungranted(String),
    #[error(
        "cannot have the tool names that `rename` in its lines of the policy (TOOLS_POLICY) gives it: {0}"
    )]
    Renamed(String),
    #[error("does not compile: {0}")]
    Compile(String),
    /// No compiler could be started, or there is no room for what it would write.
    #[error("cannot be compiled now: {0}; it is tried again")]
    CompilerUnavailable(String),
    /// The compiler was ended: it took too long, or memory was short.
    #[error("was not compiled: {0}")]
    CompilerKilled(String),
    /// The compiler ended in a way that it should not.
    #[error("crashed the compiler ({0}), so it is refused")]
    CompilerCrashed(String),
    /// The compiler's output is not to be loaded.
    #[error("was not compiled: the compiler wrote something that is not a compiled component ({0})")]
    CompilerGarbage(String),
    /// The component compiles but does not fit the contract or the host's limits.
    #[error("does not fit this host: {}{}", .0, mend_of_link(.0))]
    Link(String),
    /// The exported functions have other types than the contract's.
    #[error(
        "exports agent:tool/tool with other functions than the contract has: {0}; build it against wit/tool.wit as it is, and give `describe` and `call` the parameters and results that stand there"
    )]
    Signature(String),
    #[error(
        "fails in its describe function: {0}; it is called once, when the component is loaded, and must return its tools without help (what it logged stands in the log)"
    )]
    Describe(String),
    /// The host could not have the component describe itself. That is no fault of the component's.
    #[error("could not be asked to describe itself ({0}); it is tried again")]
    Host(String),
    /// `describe` returned no list that can be served.
    #[error("describes tools that cannot be served: {0}")]
    Listing(String),
    /// `describe` returned something that cannot be served.
    #[error("describes its tool {tool:?} wrongly: {problem}")]
    Definition {
        /// The tool's name, as described.
        tool: String,
        problem: String,
    },
    /// The component is in the folder, and nobody has approved it.
    #[error(
        "waits for approval (TOOLS_APPROVAL is on), and there is no store of approvals to ask: name its digest in the policy (TOOLS_POLICY), in its [[component]] or [[mcp]] with digest = \"{digest}\""
    )]
    NotApproved {
        /// `sha256:…` of its bytes.
        digest: String,
    },
    /// The component describes itself otherwise than when it was approved.
    #[error(
        "describes itself otherwise than when it was approved ({differences}), so it is refused: if that is right, `agent-host tools approve {name} --digest {} --facts {}` approves how it describes itself now",
        .found.digest, .found.facts_digest
    )]
    DescribedOtherwise {
        differences: String,
        name: String,
        /// How it describes itself.
        found: Box<FoundDescription>,
    },
    /// The store of versions has not answered, or has no word on it yet.
    #[error(
        "is not what served last, and the store of tool versions has not said yet that it may serve; it is tried again"
    )]
    NotAgreed,
    /// The store of versions cannot be reached.
    #[error("cannot be proposed now: {0}; it is tried again")]
    NotWrittenDown(String),
    /// The component cannot be proposed as it is.
    #[error("cannot be proposed: {0}")]
    NotProposed(String),
    /// The bytes of a version are not there any more, or are others.
    #[error("has a version whose bytes are gone: upload or install it again, or roll back to another one")]
    Gone,
    #[error(
        "is an MCP server that {0}, and its tools are absent until it lists them: the log says why; it is tried again"
    )]
    McpServer(&'static str),
    /// The tools of an MCP server cannot be served.
    #[error("is an MCP server whose tools cannot be served: {0}")]
    McpTools(String),
    /// What the store keeps is the list of an MCP server that is no longer in the policy.
    #[error(
        "is an MCP server that is no longer in the policy (TOOLS_POLICY), so its tools do not serve: put its [[mcp]] back, or remove what is kept of it with agent-host tool delete"
    )]
    McpServerGone,
    /// Another component offers a tool of the same name.
    #[error("offers the tool {tool:?}, and so does {other}: rename the tool in one of the two or remove one")]
    Duplicate {
        /// The name both claim.
        tool: String,
        /// The other component's file.
        other: String,
    },
    /// The descriptions of all tools together would be too long.
    #[error(
        "adds {own} tokens to every model call, and all tools together may have {most}, half of TOKEN_BUDGET_PER_REQUEST less 512 for the question and the last words; the largest are {largest}: shorten descriptions, remove a file, or raise the budget"
    )]
    CatalogFull {
        /// About how many tokens it would add.
        own: u64,
        /// How many all components may add together.
        most: u64,
        /// The largest files and their tokens.
        largest: String,
    },
}

impl From<LookError> for LoadError {
    fn from(error: LookError) -> Self {
        match error {
            LookError::Unavailable(kind) => Self::McpServer(kind),
            LookError::Tools(problem) => Self::McpTools(problem),
        }
    }
}

/// The mend for an import that this host has in another form or not at all.
fn mend_of_link(problem: &str) -> &'static str {
    if ["wasi:filesystem/", "wasi:sockets/"].iter().any(|package| problem.contains(package)) {
        return "; tools have no files and no sockets, only WASI 0.2's interfaces of them, closed: build it without, send requests with wasi:http, keep values with agent:tool/key-value";
    }
    if problem.contains("imports ") {
        return "; build it against the WIT of that import as it was published, unchanged";
    }
    ""
}

/// Whether the same file may load later, though it does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureClass {
    /// The component is at fault: it stays refused until it changes.
    Permanent,
    /// The component is at fault, or a machine that is short of memory or time.
    Ambiguous,
    /// The error says nothing of the component.
    Transient,
}

impl LoadError {
    /// Whether trying again may help.
    pub(crate) fn class(&self) -> FailureClass {
        use std::io::ErrorKind::{InvalidData, NotFound};
        match self {
            Self::Unreadable(_) | Self::CompilerUnavailable(_) | Self::Host(_) | Self::McpServer(_) => {
                FailureClass::Transient
            }
            // A copy that is gone or damaged does not come back.
            Self::Forgotten(error) if !matches!(error.kind(), NotFound | InvalidData) => {
                FailureClass::Transient
            }
            // A secret that is missing may be set: a mounted folder is filled while the service starts. Bytes
            // that are gone may be sent again, which changes no record.
            Self::Grants(GrantError::Secrets) | Self::NotWrittenDown(_) | Self::NotAgreed | Self::Gone => {
                FailureClass::Transient
            }
            Self::CompilerKilled(_) => FailureClass::Ambiguous,
            _ => FailureClass::Permanent,
        }
    }
}

/// An error of wasmtime with its causes, on one line and bounded.
pub(crate) fn detail(error: &wasmtime::Error) -> String {
    let causes: Vec<_> = error.chain().map(ToString::to_string).collect();
    // The first cause is often a backtrace of many lines; what went wrong stands last.
    let text = causes.iter().rev().map(|cause| cause.trim()).collect::<Vec<_>>().join(": ");
    printable(&text.replace('\n', " "), DETAIL_BYTES)
}
