//! Which functions a query may use: jaq's, less those that would ask the system.
//!
//! Those written in Rust are taken from jaq's crates. Those written in jq would have to be parsed and
//! compiled for every call, 170 of them, which takes thirty times as long as a usual query: so the folder
//! `library` has the texts of jaq's crates, and only what a query needs is read from them. A test compares
//! them with jaq's own. What jq has beside them stands in `ours.jq`.

use jaq_core::box_iter::box_once;
use jaq_core::data::JustLut;
use jaq_core::load::{self, parse::Def};
use jaq_core::native::{Fun, run, v};
use jaq_json::{Map, Val};

/// What jaq's machinery is instantiated with: JSON values, and no data beside them.
pub(crate) type Kind = JustLut<Val>;

/// The texts of `jaq_core::defs`, `jaq_std::defs` and `jaq_json::defs`, and what jq has beside them, in the
/// order in which they build on one another.
static TEXTS: [&str; 4] = [
    include_str!("library/core.jq"),
    include_str!("library/std.jq"),
    include_str!("library/json.jq"),
    include_str!("library/ours.jq"),
];

/// The functions written in Rust. `env` stands for an empty environment, and `now` is not there: what a query
/// yields depends on nothing but the query and its input, which is what the tool's hints promise.
pub(crate) fn functions() -> impl Iterator<Item = Fun<Kind>> {
    let env: Fun<Kind> = run(("env", v(0), |_| box_once(Ok(Val::obj(Map::default())))));
    jaq_core::funs()
        .chain(jaq_std::funs())
        .chain(jaq_json::funs())
        .filter(|(name, _, _)| !["env", "now"].contains(name))
        .chain([env])
}

/// The functions written in jq that `query` needs: those whose names are in its text, those whose names are
/// in theirs, and so on. A name in a text or a comment may bring one too many, which does no harm.
pub(crate) fn definitions(query: &str) -> impl Iterator<Item = Def<&'static str>> {
    let known: Vec<(&str, &str)> = TEXTS.iter().flat_map(|text| split_definitions(text)).collect();
    let mut needed = vec![false; known.len()];
    let mut unread = vec![query];
    while let Some(text) = unread.pop() {
        for word in words(text) {
            for ((name, definition), needed) in known.iter().zip(&mut needed) {
                if *name == word && !*needed {
                    *needed = true;
                    unread.push(definition);
                }
            }
        }
    }
    let needed = known.into_iter().zip(needed).filter(|(_, needed)| *needed);
    needed.filter_map(|((_, definition), _)| load::parse(definition, |parser| parser.defs())).flatten()
}

/// The definitions of a text, each after its name. Those within others are indented, so a `def` at the start
/// of a line is where one ends and the next one starts.
fn split_definitions(text: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let starts = text.match_indices("def ").map(|(start, _)| start);
    let starts = starts.filter(|&start| start == 0 || text.as_bytes()[start - 1] == b'\n');
    let ends = starts.clone().skip(1).chain([text.len()]);
    starts.zip(ends).filter_map(|(start, end)| {
        let definition = &text[start..end];
        Some((words(definition).nth(1)?, definition))
    })
}

/// The words of a text: whatever may be a function's name.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_' || character == '@'))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{TEXTS, definitions, load, split_definitions, words};

    #[test]
    fn the_texts_are_those_of_jaq() {
        let theirs = [
            jaq_core::defs().collect::<Vec<_>>(),
            jaq_std::defs().collect::<Vec<_>>(),
            jaq_json::defs().collect::<Vec<_>>(),
        ];
        for (ours, theirs) in TEXTS.iter().zip(&theirs) {
            let ours = load::parse(ours, |parser| parser.defs()).unwrap();
            assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
        }
    }

    #[test]
    fn a_text_is_split_without_loss() {
        for text in TEXTS {
            let parsed = load::parse(text, |parser| parser.defs()).unwrap();
            let split: Vec<_> = split_definitions(text)
                .flat_map(|(_, definition)| load::parse(definition, |parser| parser.defs()).unwrap())
                .collect();
            assert_eq!(format!("{split:?}"), format!("{parsed:?}"));
        }
    }

    #[test]
    fn a_query_brings_what_it_needs_and_no_more() {
        let names = |query| definitions(query).map(|definition| definition.name).collect::<Vec<_>>();
        assert_eq!(names(".a.b"), [""; 0]);
        assert_eq!(names("map(.a)"), ["map"]);
        assert_eq!(names("select(.a)"), ["empty", "select"]);
        assert_eq!(names("@base64 \"\\(.)\""), ["tostring", "@base64"]);
    }

    #[test]
    fn every_definition_compiles_with_what_it_brings() {
        for text in TEXTS {
            for (name, definition) in split_definitions(text) {
                for definition in load::parse(definition, |parser| parser.defs()).unwrap() {
                    let arguments = vec!["."; definition.args.len()].join("; ");
                    let call =
                        if arguments.is_empty() { name.to_owned() } else { format!("{name}({arguments})") };
                    let failure =
                        crate::query::run(&format!("if false then {call} else . end"), "null").err();
                    let code = failure.map(|failure| failure.code);
                    assert_ne!(code.as_deref(), Some("invalid-arguments"), "{call}");
                }
            }
        }
        assert_eq!(words("a|b_c(@d;1)").collect::<Vec<_>>(), ["a", "b_c", "@d", "1"]);
    }
}
