//! Which column a name means.

use strsim::levenshtein;

use super::Parser;
use crate::lexer::{Refusal, Token};

/// Words that begin something else than a name, and what there is here in their place.
const RESERVED: [&str; 24] = [
    "from", "where", "group", "having", "order", "limit", "offset", "and", "or", "as", "asc", "desc", "by",
    "in", "is", "like", "between", "then", "when", "else", "end", "union", "join", "on",
];

/// The most columns that a refusal names.
const NAMED: usize = 30;

impl Parser<'_> {
    /// Whether a word is one of SQL's own.
    pub(super) fn is_reserved(word: &str) -> bool {
        RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
    }

    /// The column of that name, which was just read.
    pub(super) fn find_column(&self, name: &str, is_quoted: bool) -> Result<usize, Refusal> {
        let ways: [fn(&str, &str) -> bool; 3] = [
            |one, another| one == another,
            |one, another| one.to_lowercase() == another.to_lowercase(),
            is_same_name,
        ];
        for is_same in ways {
            if let Some(index) = self.columns.iter().position(|column| is_same(column, name)) {
                return Ok(index);
            }
        }
        let mut reason = format!("there is no column `{name}`");
        match nearest(name, self.columns) {
            Some(near) => reason.push_str(&format!(": did you mean `{near}`?")),
            None => reason.push('.'),
        }
        let named: Vec<_> = self.columns.iter().take(NAMED).map(|column| format!("`{column}`")).collect();
        let more = if self.columns.len() > NAMED { " and more" } else { "" };
        reason.push_str(&format!(" The columns are {}{more}", named.join(", ")));
        if is_quoted {
            reason.push_str(&format!("; a text stands in single quotes: '{name}'"));
        }
        // The name was taken already.
        let position = self.tokens.get(self.at.saturating_sub(1)).map_or(1, |(position, _)| *position);
        Err(Refusal { position, reason })
    }

    /// A name of the query's own: after AS, or right behind an expression.
    pub(super) fn take_alias(&mut self) -> Result<Option<String>, Refusal> {
        let is_wanted = self.take_word("as");
        match self.peek() {
            Token::Word(word) if !Self::is_reserved(word) => {}
            Token::Name(_) => {}
            Token::Text(_) if is_wanted => {}
            _ if is_wanted => return Err(self.refuse_token("a name")),
            _ => return Ok(None),
        }
        Ok(match self.advance() {
            Token::Word(name) | Token::Name(name) | Token::Text(name) => Some(name),
            _ => None,
        })
    }
}

/// `Unit price (€)` may be written `unit_price`.
fn is_same_name(column: &str, name: &str) -> bool {
    let plain = |text: &str| {
        let parts = text.split(|one: char| !one.is_alphanumeric()).filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("_").to_lowercase()
    };
    plain(column) == plain(name)
}

/// The column that takes the fewest changes of a letter to make, if they are few.
fn nearest<'a>(name: &str, columns: &'a [String]) -> Option<&'a str> {
    let compared = |name: &str| name.to_lowercase().chars().take(64).collect::<String>();
    let name = compared(name);
    let near = columns.iter().map(|column| (levenshtein(&name, &compared(column)), column));
    let (changes, column) = near.min_by_key(|(changes, _)| *changes)?;
    (changes <= 1 + name.chars().count() / 4).then_some(column)
}

#[cfg(test)]
mod tests {
    use super::{is_same_name, nearest};

    #[test]
    fn the_nearest_column_is_named_when_it_is_near() {
        let columns = ["City".to_owned(), "Country".to_owned()];
        assert_eq!(nearest("ctiy", &columns), Some("City"));
        assert_eq!(nearest("amount", &columns), None);
        assert!(is_same_name("Unit price (€)", "unit_price"));
        assert!(!is_same_name("Unit price", "price"));
    }
}
