//! From a folder with a tool's sources to a component, in Rust, Python or JavaScript, and new folders to
//! begin with.
//!
//! [`create`] writes a project: the SDK and the contract's WIT lie inside, so that it builds anywhere.
//! [`Project::open`] tells from a folder which language it is in, [`Project::build`] makes the component,
//! [`place`] puts it where a host finds it, as [`replace_file`] does any file. Every [`Error`] says what to
//! do about it, and a [`Progress`] hears of every step that takes more than a second.
//!
//! `languages::rust` finds a compiler and calls cargo, and is what `cargo xtask guests` builds our own tools
//! with; `python` and `javascript` call the toolchains of these languages, which they install within the
//! project. `component` looks at what came out, and `docs` adds what the project's WIT says of it. Calling,
//! checking and installing components is the host's.

mod component;
mod docs;
mod error;
mod files;
pub mod languages;
mod name;
mod new;
mod program;
mod project;
mod templates;

pub use component::{Need, Outside, Placed, encode, place, place_signed, read_outside};
pub use error::{Error, Result};
pub use files::{create_private_file, replace_file};
pub use languages::Language;
pub use name::check as check_name;
pub use new::{New, create};
pub use program::Progress;
pub use project::{Built, Project, Surroundings};
pub use templates::Example;
