//! Expressions, by how tightly their operators bind: OR, AND, NOT, comparisons, sums, products, signs.

use super::{DEPTH, MOST_OPERATORS, Parser};
use crate::aggregate::Kind;
use crate::functions::Function;
use crate::lexer::{Refusal, Token};
use crate::query::{Aggregate, Expression, Item, Operator};
use crate::value::Value;

/// How tightly NOT and comparisons bind, after [`Operator::of_symbol`].
const COMPARISON: u8 = 4;

impl Parser<'_> {
    /// Reads an expression.
    pub(super) fn expression(&mut self) -> Result<Expression, Refusal> {
        self.nested(|parser| {
            let mut one = parser.conjunction()?;
            while parser.take_word("or") {
                one = parser.join(Operator::Or, one, Self::conjunction)?;
            }
            Ok(one)
        })
    }

    /// Reads with the answer's columns as names beside the table's.
    pub(super) fn with_aliases<T>(
        &mut self,
        items: &[Item],
        read: impl FnOnce(&mut Self) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.aliases = items.iter().map(|item| (item.name.clone(), item.expression.clone())).collect();
        let read = read(self);
        self.aliases.clear();
        read
    }

    fn nested(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Expression, Refusal>,
    ) -> Result<Expression, Refusal> {
        if self.depth == DEPTH {
            return Err(self.refuse(format!("the expression is nested more than {DEPTH} deep")));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// One expression, an operator that was just read, and another expression.
    fn join(
        &mut self,
        operator: Operator,
        one: Expression,
        another: impl FnOnce(&mut Self) -> Result<Expression, Refusal>,
    ) -> Result<Expression, Refusal> {
        self.operators += 1;
        if self.operators > MOST_OPERATORS {
            return Err(self.refuse(format!("the query has more than {MOST_OPERATORS} operators")));
        }
        Ok(Expression::Binary(operator, Box::new(one), Box::new(another(self)?)))
    }

    fn conjunction(&mut self) -> Result<Expression, Refusal> {
        let mut one = self.negation()?;
        while self.take_word("and") {
            one = self.join(Operator::And, one, Self::negation)?;
        }
        Ok(one)
    }

    fn negation(&mut self) -> Result<Expression, Refusal> {
        if self.take_word("not") {
            return self.nested(|parser| Ok(Expression::Not(Box::new(parser.negation()?))));
        }
        let one = self.comparison()?;
        if let Token::Symbol(symbol) = self.peek()
            && Operator::of_symbol(symbol).is_some_and(|(tightness, _)| tightness == COMPARISON)
        {
            return Err(self.refuse("comparisons cannot be chained: join two of them with AND"));
        }
        Ok(one)
    }

    fn comparison(&mut self) -> Result<Expression, Refusal> {
        let one = self.operation(COMPARISON + 1)?;
        if let Token::Symbol(symbol) = self.peek()
            && let Some((COMPARISON, operator)) = Operator::of_symbol(symbol)
        {
            self.at += 1;
            return Ok(Expression::Binary(
                operator,
                Box::new(one),
                Box::new(self.operation(COMPARISON + 1)?),
            ));
        }
        if self.take_word("is") {
            let is_negated = self.take_word("not");
            if !self.take_word("null") {
                return Err(self.refuse_token("NULL"));
            }
            return Ok(negate(Expression::IsNull(Box::new(one)), is_negated));
        }
        let is_negated = self.take_word("not");
        let compared = if self.take_word("in") {
            self.expect_symbol("(")?;
            if self.is_at_word("select") {
                return Err(self.refuse("there are no subqueries here: list the values"));
            }
            Expression::In(Box::new(one), self.list()?)
        } else if self.take_word("like") || self.take_word("ilike") {
            Expression::Like(Box::new(one), Box::new(self.operation(COMPARISON + 1)?))
        } else if self.take_word("between") {
            let low = self.operation(COMPARISON + 1)?;
            if !self.take_word("and") {
                return Err(self.refuse_token("AND"));
            }
            Expression::Between(Box::new(one), Box::new(low), Box::new(self.operation(COMPARISON + 1)?))
        } else if is_negated {
            return Err(self.refuse_token("IN, LIKE or BETWEEN after NOT"));
        } else {
            return Ok(one);
        };
        Ok(negate(compared, is_negated))
    }

    /// Operators that bind at least so tightly.
    fn operation(&mut self, least: u8) -> Result<Expression, Refusal> {
        let mut one = self.signed()?;
        while let Token::Symbol(symbol) = self.peek()
            && let Some((tightness, operator)) = Operator::of_symbol(symbol)
            && tightness >= least
        {
            self.at += 1;
            one = self.join(operator, one, |parser| parser.operation(tightness + 1))?;
        }
        Ok(one)
    }

    fn signed(&mut self) -> Result<Expression, Refusal> {
        if self.take_symbol("-") {
            return self.nested(|parser| {
                Ok(match parser.signed()? {
                    Expression::Value(Value::Number(number)) => Expression::Value(Value::Number(-number)),
                    other => Expression::Negative(Box::new(other)),
                })
            });
        }
        if self.take_symbol("+") {
            return self.nested(Self::signed);
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Expression, Refusal> {
        match self.peek().clone() {
            Token::Text(text) => {
                self.at += 1;
                Ok(Expression::Value(Value::Text(text)))
            }
            Token::Number(number) => {
                self.at += 1;
                Ok(Expression::Value(Value::Number(number)))
            }
            Token::Symbol("(") => {
                self.at += 1;
                if self.is_at_word("select") {
                    return Err(self.refuse("there are no subqueries here"));
                }
                let inner = self.expression()?;
                self.expect_symbol(")")?;
                Ok(inner)
            }
            Token::Word(word) if *self.peek_at(1) == Token::Symbol("(") => self.call(&word),
            Token::Word(word) if word.eq_ignore_ascii_case("case") => self.case(),
            Token::Word(word) if Self::is_reserved(&word) => {
                Err(self.refuse_token("a column, value or function"))
            }
            Token::Word(word) => {
                self.at += 1;
                let value = match word.to_ascii_lowercase().as_str() {
                    "null" => Value::Null,
                    "true" => Value::Bool(true),
                    "false" => Value::Bool(false),
                    _ => return self.name(&word, false),
                };
                Ok(Expression::Value(value))
            }
            Token::Name(name) => {
                self.at += 1;
                self.name(&name, true)
            }
            Token::Symbol(_) | Token::End => Err(self.refuse_token("a column, value or function")),
        }
    }

    /// A column, or an alias where these count; a table's name before it does not matter.
    fn name(&mut self, name: &str, is_quoted: bool) -> Result<Expression, Refusal> {
        if self.take_symbol(".") {
            return match self.advance() {
                Token::Word(column) | Token::Name(column) => {
                    Ok(Expression::Column(self.find_column(&column, is_quoted)?))
                }
                _ => Err(self.refuse("expected a column's name after `.`")),
            };
        }
        let alias = self.aliases.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name));
        if let Some((_, expression)) = alias {
            return Ok(expression.clone());
        }
        Ok(Expression::Column(self.find_column(name, is_quoted)?))
    }

    fn call(&mut self, name: &str) -> Result<Expression, Refusal> {
        let started = self.refuse("");
        self.at += 2;
        if name.eq_ignore_ascii_case("cast") {
            return self.cast();
        }
        let Some(kind) = Kind::find(name) else {
            let arguments = self.list()?;
            let function = Function::find(name, arguments.len());
            let function = function.map_err(|reason| Refusal { reason, ..started })?;
            return Ok(Expression::Call(function, arguments));
        };
        let outer = self.aggregates.len();
        let is_distinct = self.take_word("distinct");
        let argument = if self.take_symbol("*") {
            if kind != Kind::Count || is_distinct {
                return Err(self.refuse("only count takes *, and without DISTINCT"));
            }
            None
        } else {
            Some(self.within_aggregate()?)
        };
        if self.aggregates.len() > outer || argument.as_ref().is_some_and(Expression::has_aggregate) {
            return Err(Refusal { reason: "an aggregate cannot be of another one".to_owned(), ..started });
        }
        self.expect_symbol(")")?;
        if self.is_at_word("over") {
            return Err(self.refuse("there are no window functions here (OVER)"));
        }
        let aggregate = Aggregate { kind, argument, is_distinct };
        let known = self.aggregates.iter().position(|other| *other == aggregate);
        Ok(Expression::Aggregate(known.unwrap_or_else(|| {
            self.aggregates.push(aggregate);
            self.aggregates.len() - 1
        })))
    }

    /// The argument of an aggregate. A name in it is a column's before it is an alias, as in SQLite, so that
    /// `sum(amount) AS amount` can be sorted by `sum(amount)`.
    fn within_aggregate(&mut self) -> Result<Expression, Refusal> {
        let aliases = std::mem::take(&mut self.aliases);
        let others: Vec<_> =
            aliases.iter().filter(|(alias, _)| self.find_column(alias, false).is_err()).cloned().collect();
        self.aliases = others;
        let argument = self.expression();
        self.aliases = aliases;
        argument
    }

    fn cast(&mut self) -> Result<Expression, Refusal> {
        let inner = self.expression()?;
        if !self.take_word("as") {
            return Err(self.refuse_token("AS"));
        }
        let Token::Word(kind) = self.peek().clone() else { return Err(self.refuse_token("a type")) };
        let function = match kind.to_ascii_lowercase().as_str() {
            "int" | "integer" | "bigint" | "signed" => Function::Integer,
            "real" | "float" | "double" | "decimal" | "numeric" | "number" => Function::Number,
            "text" | "varchar" | "char" | "string" => Function::Text,
            _ => return Err(self.refuse_token("one of the types integer, decimal and text")),
        };
        self.at += 1;
        if self.take_symbol("(") {
            self.list()?;
        }
        self.expect_symbol(")")?;
        Ok(Expression::Call(function, vec![inner]))
    }

    fn case(&mut self) -> Result<Expression, Refusal> {
        self.at += 1;
        let subject = if self.is_at_word("when") { None } else { Some(self.expression()?) };
        let mut cases = Vec::new();
        while self.take_word("when") {
            let condition = self.expression()?;
            if !self.take_word("then") {
                return Err(self.refuse_token("THEN"));
            }
            let condition = match &subject {
                Some(subject) => {
                    Expression::Binary(Operator::Equal, Box::new(subject.clone()), Box::new(condition))
                }
                None => condition,
            };
            cases.push((condition, self.expression()?));
        }
        let otherwise =
            if self.take_word("else") { self.expression()? } else { Expression::Value(Value::Null) };
        if cases.is_empty() {
            return Err(self.refuse_token("WHEN"));
        }
        if !self.take_word("end") {
            return Err(self.refuse_token("WHEN, ELSE or END"));
        }
        Ok(Expression::Case(cases, Box::new(otherwise)))
    }

    /// Expressions up to the closing parenthesis.
    fn list(&mut self) -> Result<Vec<Expression>, Refusal> {
        let mut list = Vec::new();
        if self.take_symbol(")") {
            return Ok(list);
        }
        loop {
            list.push(self.expression()?);
            if !self.take_symbol(",") {
                self.expect_symbol(")")?;
                return Ok(list);
            }
        }
    }
}

fn negate(expression: Expression, is_negated: bool) -> Expression {
    if is_negated { Expression::Not(Box::new(expression)) } else { expression }
}
