//! Why a component's functions cannot be served as tools.

use super::wit_type::{DEPTH, LABEL_BYTES, MOST_PARTS};

/// Why a component's functions cannot be served as tools. Names are the component's own, bounded and
/// printable.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("exports no function that could be a tool; it exports {0}")]
    NoFunction(String),
    /// An interface has the contract's functions under another name.
    #[error(
        "exports `describe` and `call` of {0}, a copy of the contract under another name, which no host calls: export agent:tool/tool@0.1.1 itself (`export agent:tool/tool@0.1.1;` in the world, with wit/tool.wit below wit/deps)"
    )]
    RenamedContract(String),
    /// A type has no form in JSON.
    #[error(
        "has {what} in {place} of {function}, which cannot be passed as JSON: leave that function out of the world it is built for, or write a component around it"
    )]
    Unsupported {
        function: String,
        /// The kind of type.
        what: &'static str,
        /// Where in the function.
        place: String,
    },
    /// The function runs on beside its caller.
    #[error(
        "exports {function} as an `async` function, which this host does not call: export it as a plain one"
    )]
    Async { function: String },
    #[error("nests types more than {DEPTH} deep in {place} of {function}: flatten them")]
    TooDeep {
        function: String,
        /// Where in the function.
        place: String,
    },
    /// There are too many types.
    #[error(
        "has more than {MOST_PARTS} fields, cases and types in what its functions take and return, counted up to {function}: export fewer functions, or smaller types"
    )]
    TooManyParts {
        /// The function at which the budget was exhausted.
        function: String,
    },
    /// A field, case or parameter has too long a name.
    #[error("has a name of more than {LABEL_BYTES} bytes in {place} of {function}: shorten it")]
    LongLabel {
        function: String,
        /// Where in the function.
        place: String,
    },
    #[error("exports more than {most} functions: split it into several components")]
    TooManyTools { most: usize },
    #[error(
        "exports {function}, whose name as a tool would be {name:?}: it must be a letter a-z and then up to 62 of a-z, 0-9 and '_'"
    )]
    Name { function: String, name: String },
    /// Two functions would have one name.
    #[error("exports {first} and {second}, which would both be the tool {name:?}: rename one of them")]
    Collision {
        first: String,
        /// The other.
        second: String,
        name: String,
    },
    /// A schema is too long to be told to a model.
    #[error("takes or returns too much in {function}: its JSON Schema has {bytes} bytes and may have {most}")]
    LongSchema {
        function: String,
        bytes: usize,
        /// Most bytes that a schema may have.
        most: usize,
    },
}
