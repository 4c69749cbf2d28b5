//! SQL's grammar, as much of it as there is here, and whether a query makes sense for the columns that there
//! are.

mod clauses;
mod expressions;
mod names;

use agent_tool_sdk::Failure;

use crate::lexer::{Refusal, Token, read_tokens};
use crate::query::{Aggregate, Expression, Query};

/// How deep expressions may be nested.
const DEPTH: usize = 50;

/// The most operators of a query. Each makes an expression one deeper.
const MOST_OPERATORS: usize = 300;

/// Reads a query about a table with these columns.
pub(crate) fn parse(sql: &str, columns: &[String]) -> Result<Query, Failure> {
    let parsed = read_tokens(sql).and_then(|tokens| {
        Parser { tokens, at: 0, columns, aliases: Vec::new(), aggregates: Vec::new(), depth: 0, operators: 0 }
            .query()
    });
    parsed.map_err(|Refusal { position, reason }| {
        Failure::invalid_arguments(format!("at character {position} of the query: {reason}"))
    })
}

/// The state of reading.
#[derive(Debug)]
struct Parser<'a> {
    tokens: Vec<(usize, Token)>,
    /// The index of the next token.
    at: usize,
    columns: &'a [String],
    /// The answer's columns, where they may be named.
    aliases: Vec<(String, Expression)>,
    aggregates: Vec<Aggregate>,
    depth: usize,
    operators: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> &Token {
        self.tokens.get(self.at + ahead).map_or(&Token::End, |(_, token)| token)
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn position(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |(position, _)| *position)
    }

    fn refuse(&self, reason: impl Into<String>) -> Refusal {
        Refusal { position: self.position(), reason: reason.into() }
    }

    /// What is expected is not there.
    fn refuse_token(&self, expected: &str) -> Refusal {
        let found = match self.peek() {
            Token::Word(word) | Token::Name(word) => format!("`{word}`"),
            Token::Text(text) => format!("'{text}'"),
            Token::Number(number) => format!("`{number}`"),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            Token::End => "the end".to_owned(),
        };
        self.refuse(format!("expected {expected}, found {found}"))
    }

    fn is_at_word(&self, keyword: &str) -> bool {
        matches!(self.peek(), Token::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    /// Takes a keyword if it is next.
    fn take_word(&mut self, keyword: &str) -> bool {
        let is_next = self.is_at_word(keyword);
        self.at += usize::from(is_next);
        is_next
    }

    /// Takes two keywords if they are next; the second one has to follow the first.
    fn take_words(&mut self, first: &str, second: &str) -> Result<bool, Refusal> {
        if !self.take_word(first) {
            return Ok(false);
        }
        if self.take_word(second) { Ok(true) } else { Err(self.refuse_token(second)) }
    }

    /// Takes a symbol if it is next.
    fn take_symbol(&mut self, symbol: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Symbol(next) if *next == symbol);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect_symbol(&mut self, symbol: &str) -> Result<(), Refusal> {
        if self.take_symbol(symbol) { Ok(()) } else { Err(self.refuse_token(&format!("`{symbol}`"))) }
    }
}
