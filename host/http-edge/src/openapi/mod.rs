//! The OpenAPI 3.1 document of what this process serves, and the page that shows it.
//!
//! A route is added to a [`Routes`] together with its [`Operation`], so that none can be served and not
//! documented. Schemas come from the types that the handlers write (`utoipa::ToSchema`) and from the readers'
//! own limits; the bodies of errors come from the variants' error tables.
//!
//! - `routes`: the table. `operation`: what is said of one route, `parameter`: of its parameters,
//!   `described_answer`: of its answers. `refused`: what is said of an error, `error_schemas`: in which
//!   forms.
//! - `schemas`: the schemas by name, `schema_parts`: what they are made of. `document`: all of it as one JSON
//!   text.
//! - `serve`: `GET /openapi.json` and `GET /docs/api`. `endpoints`: the same in a line each, for the front
//!   page.
//!
//! What a route does and what it refuses stands in the file of that route, in a function `describe`.

mod described_answer;
mod document;
mod endpoints;
mod error_schemas;
mod operation;
mod parameter;
mod refused;
mod routes;
pub mod schema_parts;
mod schemas;
mod serve;

pub(crate) use endpoints::endpoints;
pub use operation::{Operation, tags};
pub use parameter::Parameter;
pub use refused::{Refused, RefusedBody};
pub use routes::{Described, Routes};
pub(crate) use serve::{Lazy, routes, serve};
