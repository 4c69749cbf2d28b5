//! The clauses of a SELECT.

use super::Parser;
use crate::lexer::{Refusal, Token};
use crate::query::{Expression, Item, Query, Sorting};

/// What SQL has and this tool has not.
const MISSING: [&str; 15] = [
    "join",
    "inner",
    "left",
    "right",
    "full",
    "cross",
    "natural",
    "union",
    "intersect",
    "except",
    "window",
    "with",
    "fetch",
    "qualify",
    "exists",
];

impl Parser<'_> {
    /// Reads the whole query.
    pub(super) fn query(mut self) -> Result<Query, Refusal> {
        if !self.take_word("select") {
            return Err(self.refuse_token("SELECT; a query only reads, and there is one table"));
        }
        let is_distinct = self.take_word("distinct");
        // Items may not use aliases, and what follows may.
        let items = self.items()?;
        if self.take_word("from") {
            self.table()?;
        }
        let filter = if self.take_word("where") { Some(self.expression()?) } else { None };
        if filter.as_ref().is_some_and(Expression::has_aggregate) {
            return Err(
                self.refuse("WHERE is about single rows: move the condition on an aggregate to HAVING")
            );
        }
        let group_by =
            if self.take_words("group", "by")? { self.list_of_aliased(&items)? } else { Vec::new() };
        if group_by.iter().any(Expression::has_aggregate) {
            return Err(self.refuse("GROUP BY takes what has a value in every row, not an aggregate"));
        }
        let having = if self.take_word("having") { Some(self.aliased_expression(&items)?) } else { None };
        let order_by = if self.take_words("order", "by")? { self.sortings(&items)? } else { Vec::new() };
        let (limit, offset) = self.limit()?;
        if *self.peek() != Token::End {
            self.refuse_missing()?;
            return Err(self
                .refuse_token("the end, or a clause in the order WHERE, GROUP BY, HAVING, ORDER BY, LIMIT"));
        }
        let aggregates = std::mem::take(&mut self.aggregates);
        let query =
            Query { is_distinct, items, filter, group_by, having, order_by, limit, offset, aggregates };
        self.check_groups(&query)?;
        Ok(query)
    }

    fn items(&mut self) -> Result<Vec<Item>, Refusal> {
        let mut items = Vec::new();
        loop {
            if self.take_symbol("*") {
                let all = self.columns.iter().enumerate();
                items.extend(
                    all.map(|(index, name)| Item {
                        name: name.clone(),
                        expression: Expression::Column(index),
                    }),
                );
            } else {
                let from = self.at;
                let expression = self.expression()?;
                let written = self.write_tokens(from);
                let name = match self.take_alias()? {
                    Some(alias) => alias,
                    None => match &expression {
                        Expression::Column(index) => self.columns.get(*index).cloned().unwrap_or_default(),
                        _ => written,
                    },
                };
                items.push(Item { name, expression });
            }
            if !self.take_symbol(",") {
                return Ok(items);
            }
        }
    }

    /// What was read since a token, as a name for a column.
    fn write_tokens(&self, from: usize) -> String {
        let tokens = self.tokens.get(from..self.at).unwrap_or_default().iter();
        tokens.fold(String::new(), |mut name, (_, token)| {
            let text = match token {
                Token::Word(text) | Token::Name(text) => text.clone(),
                Token::Text(text) => format!("'{text}'"),
                Token::Number(number) => number.to_string(),
                Token::Symbol(symbol) => (*symbol).to_owned(),
                Token::End => String::new(),
            };
            let is_word = |one: Option<char>| one.is_some_and(|one| one.is_alphanumeric() || one == '\'');
            if is_word(name.chars().last()) && is_word(text.chars().next()) {
                name.push(' ');
            }
            name + &text
        })
    }

    /// The table's name, which does not matter, and its alias.
    fn table(&mut self) -> Result<(), Refusal> {
        match self.peek() {
            Token::Symbol("(") => return Err(self.refuse("there are no subqueries here: FROM takes a name")),
            Token::Word(word) if Self::is_reserved(word) => {
                return Err(self.refuse_token("a name after FROM"));
            }
            Token::Word(_) | Token::Name(_) | Token::Text(_) => self.at += 1,
            Token::Number(_) | Token::Symbol(_) | Token::End => {
                return Err(self.refuse_token("a name after FROM"));
            }
        }
        self.refuse_missing()?;
        self.take_alias()?;
        self.refuse_missing()
    }

    fn refuse_missing(&self) -> Result<(), Refusal> {
        if matches!(self.peek(), Token::Symbol(",")) {
            return Err(self.refuse("there is one table here; nothing can be joined"));
        }
        match MISSING.iter().find(|missing| self.is_at_word(missing)) {
            Some(missing) => {
                let missing = missing.to_uppercase();
                Err(self
                    .refuse(format!("there is no {missing} here: the query is one SELECT about one table")))
            }
            None => Ok(()),
        }
    }

    fn sortings(&mut self, items: &[Item]) -> Result<Vec<Sorting>, Refusal> {
        let mut sortings = Vec::new();
        loop {
            let expression = self.aliased_expression(items)?;
            let is_descending = self.take_word("desc");
            if !is_descending {
                self.take_word("asc");
            }
            if self.is_at_word("nulls") {
                return Err(self.refuse("there is no NULLS FIRST or LAST here: nulls are least"));
            }
            sortings.push(Sorting { expression, is_descending });
            if !self.take_symbol(",") {
                return Ok(sortings);
            }
        }
    }

    fn list_of_aliased(&mut self, items: &[Item]) -> Result<Vec<Expression>, Refusal> {
        let mut list = vec![self.aliased_expression(items)?];
        while self.take_symbol(",") {
            list.push(self.aliased_expression(items)?);
        }
        Ok(list)
    }

    /// An expression, in which the names and numbers of the answer's columns may stand alone. In HAVING they
    /// may stand before an operator too.
    fn aliased_expression(&mut self, items: &[Item]) -> Result<Expression, Refusal> {
        if let Token::Number(number) = self.peek()
            && matches!(self.peek_at(1), Token::Symbol(",") | Token::End | Token::Word(_))
        {
            let number = *number;
            let index = usize::try_from(number.mantissa()).ok().filter(|_| number.scale() == 0);
            let item = index.and_then(|index| items.get(index.checked_sub(1)?));
            let item = item.ok_or_else(|| {
                self.refuse(format!("there is no column {number} in the answer, which has {}", items.len()))
            })?;
            self.at += 1;
            return Ok(item.expression.clone());
        }
        self.with_aliases(items, Self::expression)
    }

    fn limit(&mut self) -> Result<(Option<usize>, usize), Refusal> {
        let mut limit = None;
        let mut offset = 0;
        if self.take_word("limit") {
            let first = self.count()?;
            if self.take_symbol(",") {
                offset = first;
                limit = Some(self.count()?);
            } else {
                limit = Some(first);
            }
        }
        if self.take_word("offset") {
            offset = self.count()?;
        }
        Ok((limit, offset))
    }

    fn count(&mut self) -> Result<usize, Refusal> {
        let count = match self.peek() {
            // More than fits is more rows than there are.
            Token::Number(number) if number.scale() == 0 => {
                Some(usize::try_from(number.mantissa()).unwrap_or(usize::MAX))
            }
            _ => None,
        };
        let count = count.ok_or_else(|| self.refuse_token("a whole number of rows"))?;
        self.at += 1;
        Ok(count)
    }

    /// In a group a column has one value only if the rows are grouped by it.
    fn check_groups(&self, query: &Query) -> Result<(), Refusal> {
        if !query.is_grouped() {
            return match &query.having {
                Some(_) => Err(self.refuse("HAVING is about groups: write WHERE, or add GROUP BY")),
                None => Ok(()),
            };
        }
        let items = query.items.iter().map(|item| &item.expression);
        let mut open: Vec<_> = items.chain(&query.having).collect();
        open.extend(query.order_by.iter().map(|sorting| &sorting.expression));
        while let Some(part) = open.pop() {
            if query.group_by.contains(part) {
                continue;
            }
            if let Expression::Column(index) = part {
                let name = self.columns.get(*index).map_or("", String::as_str);
                return Err(self.refuse(format!(
                    "`{name}` has many values in a group: add it to GROUP BY, or put it into an aggregate such as \
                     min or max"
                )));
            }
            open.extend(part.parts());
        }
        Ok(())
    }
}
