//! SQL text as tokens.

use rust_decimal::Decimal;

use crate::value::read_number;

/// The longest query, in bytes.
const LONGEST: usize = 8 << 10;

/// Longer symbols first.
const SYMBOLS: [&str; 18] =
    ["<>", "!=", "<=", ">=", "==", "||", "=", "<", ">", "(", ")", ",", "*", "+", "-", "/", "%", "."];

/// A part of a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    /// A keyword, or a name without quotes.
    Word(String),
    /// A name in double quotes, backticks or brackets.
    Name(String),
    Text(String),
    Number(Decimal),
    Symbol(&'static str),
    End,
}

/// Why a query is refused, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// In characters, from 1.
    pub(crate) position: usize,
    pub(crate) reason: String,
}

/// Reads tokens with their positions. The last one is [`Token::End`].
pub(crate) fn read_tokens(sql: &str) -> Result<Vec<(usize, Token)>, Refusal> {
    if sql.len() > LONGEST {
        let reason = format!("the query is longer than {LONGEST} bytes");
        return Err(Refusal { position: 1, reason });
    }
    let mut tokens = Vec::new();
    let mut rest = sql;
    loop {
        let position = sql.chars().count() - rest.chars().count() + 1;
        let Some(first) = rest.chars().next() else {
            tokens.push((position, Token::End));
            return Ok(tokens);
        };
        let refuse = |reason: String| Refusal { position, reason };
        let token = if first.is_whitespace() {
            rest = rest.trim_start();
            continue;
        } else if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, behind)| behind);
            continue;
        } else if first == ';' {
            if rest.trim_start_matches([';', ' ', '\n', '\r', '\t']).is_empty() {
                rest = "";
                continue;
            }
            return Err(refuse("there is more than one statement; run one at a time".to_owned()));
        } else if let Some(close) = closing_quote(first) {
            let inner = rest.get(first.len_utf8()..).unwrap_or_default();
            let (text, behind) = read_quoted(inner, close)
                .ok_or_else(|| refuse(format!("what begins with {first} has no {close} at its end")))?;
            rest = behind;
            if first == '\'' { Token::Text(text) } else { Token::Name(text) }
        } else if first.is_alphabetic() || first == '_' {
            let (word, behind) = split_where(rest, |one| !one.is_alphanumeric() && one != '_' && one != '$');
            rest = behind;
            Token::Word(word.to_owned())
        } else if first.is_ascii_digit()
            || (first == '.' && rest.chars().nth(1).is_some_and(|one| one.is_ascii_digit()))
        {
            let (number, behind) = split_number(rest);
            rest = behind;
            let value = read_number(number)
                .ok_or_else(|| refuse(format!("`{number}` is no number of up to 28 digits")))?;
            Token::Number(value)
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            rest = rest.get(symbol.len()..).unwrap_or_default();
            Token::Symbol(symbol)
        } else {
            return Err(refuse(format!("`{first}` has no place in a query")));
        };
        tokens.push((position, token));
    }
}

fn closing_quote(open: char) -> Option<char> {
    match open {
        '\'' | '"' | '`' => Some(open),
        '[' => Some(']'),
        _ => None,
    }
}

/// Reads up to the closing quote; two of them stand for one.
fn read_quoted(text: &str, close: char) -> Option<(String, &str)> {
    let mut read = String::new();
    let mut rest = text;
    loop {
        let (before, behind) = rest.split_once(close)?;
        read.push_str(before);
        rest = behind;
        match rest.strip_prefix(close) {
            Some(behind) => {
                read.push(close);
                rest = behind;
            }
            None => return Some((read, rest)),
        }
    }
}

fn split_where(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

/// Digits, a point, digits, and an exponent if there are digits behind it.
fn split_number(text: &str) -> (&str, &str) {
    let (mantissa, behind) = split_where(text, |one| !one.is_ascii_digit() && one != '.');
    let exponent =
        behind.strip_prefix(['e', 'E']).map(|behind| behind.strip_prefix(['+', '-']).unwrap_or(behind));
    match exponent {
        Some(digits) if digits.starts_with(|one: char| one.is_ascii_digit()) => {
            let (_, behind) = split_where(digits, |one| !one.is_ascii_digit());
            text.split_at(text.len() - behind.len())
        }
        _ => text.split_at(mantissa.len()),
    }
}
