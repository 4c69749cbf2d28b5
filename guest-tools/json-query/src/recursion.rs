//! Functions of a query that call themselves, within the stack that there is.
//!
//! jaq's interpreter goes a few kilobytes of stack deeper with each call that is not the last step of its
//! function, and bounds nothing. So a filter that looks at the stack stands before the body of every function
//! that a query defines.

use std::cell::Cell;
use std::hint::black_box;

use jaq_core::box_iter::box_once;
use jaq_core::load::lex::{StrPart, Tok, Token};
use jaq_core::load::{self, Lexer};
use jaq_core::native::{Fun, v};
use jaq_core::{Exn, Native, ValX};

use crate::library::Kind;

/// Bytes of stack that a query may take: some 150 levels of a short function. A call has a megabyte, and what
/// a body does before the next one looks needs the rest.
const MOST_STACK: usize = 768 << 10;

/// Looks at the stack: [`filter`] and what follows its name in a query.
const GUARD: &str = " __stack|";

/// How a query is stopped that goes too deep. No `try` catches a halt.
pub(crate) const TOO_DEEP: i32 = i32::MIN;

thread_local! {
    /// Where the stack was when the query began.
    static BEGIN: Cell<usize> = const { Cell::new(0) };
}

/// Counts the stack from here on.
pub(crate) fn begin() {
    BEGIN.set(place_on_stack());
}

/// The filter `__stack`: its input, or the end of the query where too much of the stack is taken.
pub(crate) fn filter() -> Fun<Kind> {
    let native = Native::<Kind>::new(|cv| box_once(look(cv.1)));
    let native = native.with_paths(|cv| box_once(look(cv.1)));
    let native = native.with_update(|cv, change| match look(cv.1) {
        Ok(value) => change(value),
        Err(deep) => box_once(Err(deep)),
    });
    ("__stack", v(0), native)
}

fn look<'a, T, V>(value: T) -> ValX<'a, T, V> {
    let taken = BEGIN.get().abs_diff(place_on_stack());
    if taken > MOST_STACK { Err(Exn::halt(TOO_DEEP)) } else { Ok(value) }
}

#[inline(never)]
fn place_on_stack() -> usize {
    let here = 0_u8;
    std::ptr::from_ref(black_box(&here)).addr()
}

/// The query with `__stack` before the body of each function. What cannot be read stays as it is.
pub(crate) fn guard(query: &str) -> String {
    let mut bodies = Vec::new();
    find_bodies(query, &Lexer::new(query).lex().unwrap_or_default(), &mut bodies);
    bodies.sort_unstable();
    bodies.dedup();
    let mut guarded = String::with_capacity(query.len() + bodies.len() * GUARD.len());
    let mut copied = 0;
    for body in bodies {
        guarded.push_str(&query[copied..body]);
        guarded.push_str(GUARD);
        copied = body;
    }
    guarded + &query[copied..]
}

/// A part of a guarded query as it was written.
pub(crate) fn written(part: &str) -> String {
    part.replace(GUARD, "")
}

/// Where bodies begin: behind the colon of `def name:` and `def name(parameters):`.
fn find_bodies(query: &str, tokens: &[Token<&str>], bodies: &mut Vec<usize>) {
    for (index, Token(text, kind)) in tokens.iter().enumerate() {
        match kind {
            Tok::Word if *text == "def" => {
                let colon = tokens.iter().skip(index + 2).take(2).find(|token| token.as_str() == ":");
                bodies.extend(colon.map(|colon| load::span(query, colon.as_str()).end));
            }
            Tok::Block(inner) => find_bodies(query, inner, bodies),
            Tok::Str(parts) => {
                for part in parts {
                    if let StrPart::Term(Token(_, Tok::Block(inner))) = part {
                        find_bodies(query, inner, bodies);
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{guard, written};

    #[test]
    fn bodies_are_guarded_wherever_they_stand_and_nothing_else() {
        for (query, guarded) in [
            (".def, {def: 1}", ".def, {def: 1}"),
            ("\"def f: 1; \\(def f: 1; f)\"", "\"def f: 1; \\(def f: __stack| 1; f)\""),
            (
                "def f(g; $x): def h:1; [def @i: 2; @i]; f(1;2)",
                "def f(g; $x): __stack| def h: __stack|1; [def @i: __stack| 2; @i]; f(1;2)",
            ),
            ("def f: 1 § ", "def f: 1 § "),
            ("def", "def"),
            ("def f(def g: 1):", "def f(def g: __stack| 1): __stack|"),
        ] {
            assert_eq!(guard(query), guarded, "{query}");
            assert_eq!(written(guarded), query);
        }
    }
}
