//! Compiles a query and runs it on a value.

use agent_tool_sdk::Failure;
use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars};
use jaq_json::{Map, Val, read};

use crate::library::{self, Kind};
use crate::outcome::Results;
use crate::{recursion, refusal};

/// The most that [`levels`] may count. Unoptimised builds apart, jaq's parser and compiler ran out of the
/// megabyte of stack that a call has from 1061 on.
const MOST_LEVELS: usize = 1000;

/// Runs `query` on `json`.
pub(crate) fn run(query: &str, json: &str) -> Result<Results, Failure> {
    if levels(query) > MOST_LEVELS {
        return Err(refusal::of_length(MOST_LEVELS));
    }
    let guarded = recursion::guard(query);
    let query = guarded.as_str();
    let input = read::parse_single(json.as_bytes()).map_err(|problem| refusal::of_json(&problem))?;
    let arena = Arena::default();
    let modules = Loader::new(library::definitions(query))
        .load(&arena, File { code: query, path: () })
        .map_err(|errors| refusal::of_syntax(query, errors))?;
    let filter = Compiler::default()
        .with_global_vars(["$ENV"])
        .with_funs(library::functions().chain([recursion::filter()]))
        .compile(modules)
        .map_err(|errors| refusal::of_names(query, errors))?;
    let environment = Val::obj(Map::default());
    let context = Ctx::<Kind>::new(&filter.lut, Vars::new([environment]));
    recursion::begin();
    Results::collect(filter.id.run((context, input)))
}

/// Counts what in a query has jaq's parser, compiler or interpreter call themselves, nested or in a row: a
/// bracket takes up to three times the stack of an operator, a dot or a keyword, and a definition is guarded
/// with an operator. Those within texts count.
fn levels(query: &str) -> usize {
    let keywords = ["and", "as", "catch", "elif", "foreach", "if", "label", "or", "reduce", "try"];
    let signs = query.bytes().map(|byte| match byte {
        b'(' | b'[' | b'{' => 3,
        b'.' | b'-' | b'+' | b'*' | b'/' | b'%' | b'|' | b',' | b'=' | b'<' | b'>' => 1,
        _ => 0,
    });
    let words = library::words(query).map(|word| match word {
        "def" => 2,
        word => usize::from(keywords.contains(&word)),
    });
    signs.sum::<usize>() + words.sum::<usize>()
}
