//! From characters to tokens.

use num_bigint::BigInt;
use num_integer::Integer as _;
use num_rational::BigRational;
use num_traits::{One, Zero};

use super::Refusal;

/// The longest expression, in characters.
const LENGTH: usize = 2000;
/// The largest power of ten that a number may be written with, up or down.
const TEN_POWER: u32 = 10_000;

/// A token and the position of its first character, counted from 1.
pub(crate) type Placed = (usize, Token);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// An unsigned number.
    Number(BigRational),
    /// The name of a function or constant.
    Name(String),
    /// An operator, parenthesis or comma. `**` reads as `^`.
    Sign(char),
    /// The end of the expression.
    End,
}

/// Reads an expression into tokens, the last of which is [`Token::End`].
pub(crate) fn read_tokens(expression: &str) -> Result<Vec<Placed>, Refusal> {
    let characters: Vec<char> = expression.chars().collect();
    if characters.len() > LENGTH {
        let reason = format!("the expression is longer than {LENGTH} characters");
        return Err(Refusal { position: LENGTH + 1, reason });
    }
    let mut reader = Reader { characters: &characters, at: 0 };
    let mut tokens = Vec::new();
    loop {
        reader.skip_while(char::is_whitespace);
        let position = reader.at + 1;
        let token = reader.read_token().map_err(|reason| Refusal { position, reason })?;
        let is_last = token == Token::End;
        tokens.push((position, token));
        if is_last {
            return Ok(tokens);
        }
    }
}

struct Reader<'a> {
    characters: &'a [char],
    at: usize,
}

impl Reader<'_> {
    fn read_token(&mut self) -> Result<Token, String> {
        let Some(first) = self.peek(0) else { return Ok(Token::End) };
        match first {
            '0'..='9' | '.' => self.read_number(),
            'a'..='z' | 'A'..='Z' | '_' => Ok(Token::Name(self.read_name())),
            '*' if self.peek(1) == Some('*') => {
                self.at += 2;
                Ok(Token::Sign('^'))
            }
            '+' | '-' | '*' | '/' | '%' | '^' | '(' | ')' | ',' => {
                self.at += 1;
                Ok(Token::Sign(first))
            }
            _ => Err(refuse_character(first)),
        }
    }

    /// `12`, `12.5`, `12.`, `.5`, each with `e5`, `e+5` or `e-5` behind it or not.
    fn read_number(&mut self) -> Result<Token, String> {
        let mut digits = self.read_digits();
        let mut decimals = 0;
        if self.peek(0) == Some('.') {
            self.at += 1;
            let fraction = self.read_digits();
            decimals = fraction.len();
            digits.push_str(&fraction);
        }
        if digits.is_empty() {
            return Err("a point without digits".to_owned());
        }
        if self.peek(0) == Some('.') {
            return Err("a number with two points".to_owned());
        }
        let power = self.read_power()?;
        let value = digits.parse::<BigInt>().map_err(|problem| problem.to_string())?;
        Ok(Token::Number(scale(value, power - decimals as i64)))
    }

    /// The power of ten behind a number: only when digits follow the `e`, or it might be the constant.
    fn read_power(&mut self) -> Result<i64, String> {
        if !matches!(self.peek(0), Some('e' | 'E')) {
            return Ok(0);
        }
        let sign = self.peek(1).filter(|sign| matches!(sign, '+' | '-'));
        let start = if sign.is_some() { 2 } else { 1 };
        if !self.peek(start).is_some_and(|digit| digit.is_ascii_digit()) {
            return Ok(0);
        }
        self.at += start;
        let power = self.read_digits().parse::<u32>().ok().filter(|&power| power <= TEN_POWER);
        let power = power.ok_or_else(|| format!("a power of ten beyond {TEN_POWER}"))?;
        Ok(if sign == Some('-') { -i64::from(power) } else { i64::from(power) })
    }

    fn read_digits(&mut self) -> String {
        self.read_while(|character| character.is_ascii_digit())
    }

    fn read_name(&mut self) -> String {
        self.read_while(|character| character.is_ascii_alphanumeric() || character == '_')
    }

    fn read_while(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let start = self.at;
        self.skip_while(belongs);
        self.characters[start..self.at].iter().collect()
    }

    fn skip_while(&mut self, belongs: impl Fn(char) -> bool) {
        while self.peek(0).is_some_and(&belongs) {
            self.at += 1;
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }
}

fn scale(digits: BigInt, power: i64) -> BigRational {
    if digits.is_zero() {
        return BigRational::zero();
    }
    let tens = u32::try_from(power.unsigned_abs()).unwrap_or(u32::MAX);
    if power >= 0 {
        return BigRational::new_raw(digits * BigInt::from(10).pow(tens), BigInt::one());
    }
    divide_by_ten(digits, tens)
}

/// Digits over a power of ten, in lowest terms. They can share factors of 2 and of 5 only, and taking these
/// out is much less work than the greatest common divisor of numbers of thousands of digits.
fn divide_by_ten(mut digits: BigInt, tens: u32) -> BigRational {
    let twos = digits.trailing_zeros().unwrap_or(0).min(u64::from(tens));
    digits >>= twos;
    let (five, mut fives) = (BigInt::from(5), 0);
    while fives < tens {
        let (fifth, rest) = digits.div_rem(&five);
        if !rest.is_zero() {
            break;
        }
        (digits, fives) = (fifth, fives + 1);
    }
    BigRational::new_raw(digits, five.pow(tens - fives) << (u64::from(tens) - twos))
}

/// Refuses a character with what to write in its place, where people often write it.
fn refuse_character(character: char) -> String {
    let hint = match character {
        '×' | '·' | '∙' | '⋅' => "; write * to multiply",
        '÷' | ':' => "; write / to divide",
        '−' | '–' | '—' => "; write - (the ASCII hyphen) to subtract",
        '√' => "; write sqrt(x)",
        'π' => "; write pi",
        '²' => "; write ^2",
        '³' => "; write ^3",
        '!' => "; there are no factorials here",
        '=' | '<' | '>' => "; there are no comparisons here, only one value",
        '[' | ']' | '{' | '}' => "; group with ( and )",
        '$' | '€' | '£' | '¥' => "; leave units out",
        '_' | '\'' | '’' => "; write numbers without separators",
        _ => "",
    };
    format!("`{character}` has no meaning here{hint}")
}
