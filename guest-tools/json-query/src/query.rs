//! Compiles a query and runs it on a value.

use agent_tool_sdk::Failure;
use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars};
use jaq_json::{Map, Val, read};

use crate::library::{self, Kind};
use crate::outcome::Results;
use crate::refusal;

/// Runs `query` on `json`.
pub(crate) fn run(query: &str, json: &str) -> Result<Results, Failure> {
    let input = read::parse_single(json.as_bytes()).map_err(|problem| refusal::of_json(&problem))?;
    let arena = Arena::default();
    let modules = Loader::new(library::definitions(query))
        .load(&arena, File { code: query, path: () })
        .map_err(|errors| refusal::of_syntax(query, errors))?;
    let filter = Compiler::default()
        .with_global_vars(["$ENV"])
        .with_funs(library::functions())
        .compile(modules)
        .map_err(|errors| refusal::of_names(query, errors))?;
    let environment = Val::obj(Map::default());
    let context = Ctx::<Kind>::new(&filter.lut, Vars::new([environment]));
    Results::collect(filter.id.run((context, input)))
}
