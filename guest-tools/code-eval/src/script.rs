//! Reading the code: is it JavaScript, and which expression is its answer?
//!
//! Models write scripts for a console, whose value is that of the last expression, and function bodies with
//! `return` and `await`, and mix them. So the code becomes the body of an async function, and `return` is put
//! before each expression statement that it ends in.

use std::convert::Infallible;
use std::ops::ControlFlow;

use agent_tool_sdk::Failure;
use boa_engine::Source;
use boa_engine::ast::declaration::Declaration;
use boa_engine::ast::visitor::{VisitWith as _, Visitor};
use boa_engine::ast::{Expression, Position, Spanned as _, Statement, StatementListItem};
use boa_engine::interner::Interner;
use boa_engine::parser::Parser;

use crate::syntax;

/// What the script's code is called in traces of its errors.
pub(crate) const SCRIPT: &str = "script";

/// What stands before the code. The code begins on a line of its own, so that columns stay what they are.
const BEFORE: &str = "(async () => {\n";
/// What stands behind it, on a line of its own in case the code ends in a comment.
const BEHIND: &str = "\n})()";
/// The lines before the code.
pub(crate) const LINES_BEFORE: u32 = 1;

/// Most brackets within brackets. The parser recurses, and what overflows its stack ends the call without a
/// word: in a component a bracket takes some ten kilobytes of one megabyte, so fifty fit and a hundred do
/// not.
const MOST_NESTED: usize = 40;

/// Makes of the code an expression whose value is a promise of the answer.
pub(crate) fn wrap(code: &str, interner: &mut Interner) -> Result<String, Failure> {
    refuse_deep_nesting(code)?;
    let body = Parser::new(Source::from_bytes(code))
        .parse_function_body(interner, false, true)
        .map_err(|error| syntax::failure(&error, code))?;
    let mut answers = Vec::new();
    find_answers(body.statements(), &mut answers);
    Ok([BEFORE, &insert_returns(code, answers), BEHIND].concat())
}

/// Counts brackets wherever they stand, in strings and comments too: a script that has so many more opening
/// than closing ones there is not written by anybody.
fn refuse_deep_nesting(code: &str) -> Result<(), Failure> {
    let mut depth = 0_usize;
    for byte in code.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MOST_NESTED {
            return Err(Failure::invalid_arguments(format!(
                "the code has more than {MOST_NESTED} brackets within one another: write it flatter, and give large data to \
                 JSON.parse as a string"
            )));
        }
    }
    Ok(())
}

/// Finds the expression statements that statements end in. Functions are declared before anything runs, so
/// those at the end do not count.
fn find_answers(statements: &[StatementListItem], answers: &mut Vec<Position>) {
    let last = statements.iter().rev().find(|item| match item {
        StatementListItem::Statement(statement) => !matches!(**statement, Statement::Empty),
        StatementListItem::Declaration(declaration) => {
            matches!(**declaration, Declaration::Lexical(_) | Declaration::ClassDeclaration(_))
        }
    });
    if let Some(StatementListItem::Statement(statement)) = last {
        find_answers_of(statement, answers);
    }
}

fn find_answers_of(statement: &Statement, answers: &mut Vec<Position>) {
    match statement {
        Statement::Expression(expression) => answers.push(start_of(expression)),
        Statement::Block(block) => find_answers(block.statement_list().statements(), answers),
        Statement::If(branches) => {
            find_answers_of(branches.body(), answers);
            if let Some(otherwise) = branches.else_node() {
                find_answers_of(otherwise, answers);
            }
        }
        Statement::Try(attempt) => {
            find_answers(attempt.block().statement_list().statements(), answers);
            if let Some(catch) = attempt.catch() {
                find_answers(catch.block().statement_list().statements(), answers);
            }
        }
        _ => {}
    }
}

/// Where an expression begins. Its own span does not say: that of `f(x)` begins at the bracket.
fn start_of(expression: &Expression) -> Position {
    let mut first = First(expression.span().start());
    let _ = first.visit_expression(expression);
    first.0
}

/// The first position of an expression and all those within it.
struct First(Position);

impl<'ast> Visitor<'ast> for First {
    type BreakTy = Infallible;

    fn visit_expression(&mut self, expression: &'ast Expression) -> ControlFlow<Infallible> {
        self.0 = self.0.min(expression.span().start());
        expression.visit_with(self)
    }
}

/// Puts `return` at each of these positions, which are in the order of the code.
fn insert_returns(code: &str, answers: Vec<Position>) -> String {
    let mut text = String::with_capacity(code.len() + 8 * answers.len());
    let mut answers = answers.into_iter().peekable();
    let mut line = 1;
    let mut column = 1;
    let mut characters = code.chars().peekable();
    while let Some(character) = characters.next() {
        if answers
            .next_if(|answer| (answer.line_number(), answer.column_number()) == (line, column))
            .is_some()
        {
            text.push_str("return ");
        }
        text.push(character);
        let ends_line = match character {
            '\n' | '\u{2028}' | '\u{2029}' => true,
            '\r' => characters.peek() != Some(&'\n'),
            _ => false,
        };
        (line, column) = if ends_line { (line + 1, 1) } else { (line, column + 1) };
    }
    text
}
