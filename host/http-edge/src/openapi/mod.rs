//! The OpenAPI 3.1 document of what this process serves, and the page that shows it.
//!
//! A route is added to a [`Routes`] together with its [`Operation`], so that none can be served and not documented.
//! Schemas come from the types that the handlers write (`utoipa::ToSchema`) and from the readers' own limits; the bodies
//! of errors come from the variants' error tables.
//!
//! - `routes`: the table. `operation`: what is said of one route. `refused`: what is said of an error.
//! - `schemas`: the schemas by name. `document`: all of it as one JSON text.
//! - `serve`: `GET /openapi.json` and `GET /docs/api`.
//!
//! What a route does and what it refuses stands in the file of that route, in a function `describe`.

mod document;
mod operation;
mod refused;
mod routes;
mod schemas;
mod serve;

pub(crate) use operation::{Operation, Parameter, tags};
pub(crate) use refused::{Refused, RefusedBody};
pub(crate) use routes::{Described, Routes};
pub(crate) use serve::serve;
