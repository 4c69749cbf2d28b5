//! From tokens to a program, by recursive descent:
//!
//! ```text
//! expression = term   { ("+" | "-") term }
//! term       = signed { ("*" | "/" | "%") signed }
//! signed     = ("-" | "+") signed | power
//! power      = atom [ "^" signed ]
//! atom       = number | constant | function "(" expression { "," expression } ")" | "(" expression ")"
//! ```

use super::Refusal;
use super::functions::{self, Function};
use super::lexer::{Placed, Token};
use super::program::{Program, Step};

/// How deep parentheses, signs and powers may be nested. Each level takes a few frames of the stack.
const DEPTH: usize = 100;

/// Reads a whole expression.
pub(crate) fn parse(tokens: Vec<Placed>) -> Result<Program, Refusal> {
    let mut parser = Parser { tokens: tokens.into_iter().peekable(), program: Program::default(), depth: 0 };
    parser.read_expression()?;
    match parser.next() {
        (_, Token::End) => Ok(parser.program),
        (position, Token::Sign(')')) => refuse(position, "`)` without a `(` before it"),
        (position, Token::Sign(',')) => refuse(
            position,
            "`,` only stands between a function's arguments; write numbers without separators",
        ),
        (position, token) => {
            refuse(position, format!("an operator is missing before {}; write * to multiply", name(&token)))
        }
    }
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Placed>>,
    program: Program,
    depth: usize,
}

impl Parser {
    fn read_expression(&mut self) -> Result<(), Refusal> {
        self.read_term()?;
        while let Some((position, sign)) = self.next_sign(&['+', '-']) {
            self.read_term()?;
            self.emit(position, if sign == '+' { Step::Add } else { Step::Subtract });
        }
        Ok(())
    }

    fn read_term(&mut self) -> Result<(), Refusal> {
        self.read_signed()?;
        while let Some((position, sign)) = self.next_sign(&['*', '/', '%']) {
            self.refuse_percent(position, sign)?;
            self.read_signed()?;
            self.emit(
                position,
                match sign {
                    '*' => Step::Multiply,
                    '/' => Step::Divide,
                    _ => Step::Remainder,
                },
            );
        }
        Ok(())
    }

    fn read_signed(&mut self) -> Result<(), Refusal> {
        self.depth += 1;
        if self.depth > DEPTH {
            let position = self.tokens.peek().map_or(1, |(position, _)| *position);
            return refuse(position, format!("nested more than {DEPTH} levels deep"));
        }
        match self.next_sign(&['-', '+']) {
            Some((position, sign)) => {
                self.read_signed()?;
                if sign == '-' {
                    self.emit(position, Step::Negate);
                }
            }
            None => self.read_power()?,
        }
        self.depth -= 1;
        Ok(())
    }

    fn read_power(&mut self) -> Result<(), Refusal> {
        self.read_atom()?;
        if let Some((position, _)) = self.next_sign(&['^']) {
            self.read_signed()?;
            self.emit(position, Step::Power);
        }
        Ok(())
    }

    fn read_atom(&mut self) -> Result<(), Refusal> {
        match self.next() {
            (position, Token::Number(number)) => self.emit(position, Step::Push(number)),
            (position, Token::Name(name)) => self.read_named(position, &name)?,
            (position, Token::Sign('(')) => {
                self.read_expression()?;
                self.close(position)?;
            }
            (position, Token::End) => return refuse(position, "a number is missing at the end"),
            (position, token) => {
                return refuse(position, format!("a number is missing before {}", name(&token)));
            }
        }
        Ok(())
    }

    fn read_named(&mut self, position: usize, name: &str) -> Result<(), Refusal> {
        if let Some(constant) = functions::find_constant(name) {
            self.emit(position, Step::Constant(constant));
            return Ok(());
        }
        let Some(function) = functions::find_function(name) else {
            return refuse(position, functions::refuse_name(name));
        };
        let Some((open, _)) = self.next_sign(&['(']) else {
            return refuse(position, format!("`{name}` needs its argument in parentheses: {name}(…)"));
        };
        let mut count = 1;
        self.read_expression()?;
        while self.next_sign(&[',']).is_some() {
            self.read_expression()?;
            count += 1;
        }
        self.close(open)?;
        self.call(position, function, count)
    }

    fn call(&mut self, position: usize, function: &'static Function, count: usize) -> Result<(), Refusal> {
        if !function.arguments.contains(&count) {
            let wanted = match (function.arguments.start(), function.arguments.end()) {
                (&1, &1) => "one argument".to_owned(),
                (&least, &usize::MAX) => format!("at least {least} argument"),
                (least, most) => format!("{least} to {most} arguments"),
            };
            return refuse(position, format!("`{}` takes {wanted}, not {count}", function.name));
        }
        self.emit(position, Step::Call(function, count));
        Ok(())
    }

    /// `50%` is read as a remainder without a divisor: say what to write for per cent.
    fn refuse_percent(&mut self, position: usize, sign: char) -> Result<(), Refusal> {
        match self.tokens.peek() {
            Some((_, Token::End | Token::Sign(')' | '+' | '*' | '/' | ','))) if sign == '%' => {
                refuse(position, "`%` is the remainder of a division, not per cent; write / 100")
            }
            _ => Ok(()),
        }
    }

    fn close(&mut self, open: usize) -> Result<(), Refusal> {
        match self.next() {
            (_, Token::Sign(')')) => Ok(()),
            (position, Token::End) => refuse(position, format!("the `(` at character {open} is not closed")),
            (position, token) => refuse(
                position,
                format!("an operator or `)` is missing before {}; write * to multiply", name(&token)),
            ),
        }
    }

    fn emit(&mut self, position: usize, step: Step) {
        self.program.push(position, step);
    }

    fn next_sign(&mut self, wanted: &[char]) -> Option<(usize, char)> {
        let found =
            self.tokens.next_if(|(_, token)| matches!(token, Token::Sign(sign) if wanted.contains(sign)));
        match found {
            Some((position, Token::Sign(sign))) => Some((position, sign)),
            _ => None,
        }
    }

    fn next(&mut self) -> Placed {
        self.tokens.next().unwrap_or((1, Token::End))
    }
}

fn name(token: &Token) -> String {
    match token {
        Token::Number(_) => "this number".to_owned(),
        Token::Name(name) => format!("`{name}`"),
        Token::Sign(sign) => format!("`{sign}`"),
        Token::End => "the end".to_owned(),
    }
}

fn refuse<T>(position: usize, reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { position, reason: reason.into() })
}
