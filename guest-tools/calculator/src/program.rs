//! A parsed expression: steps for a stack machine. There is no tree to walk, so a long expression takes no
//! deep recursion.

use num_rational::BigRational;

use super::Refusal;
use super::functions::{Constant, Function};
use super::number::Number;
use super::obstacle::Obstacle;

/// Most work that is done exactly: for each operation of two numbers the square of their bits together, of
/// which a greatest common divisor takes some. Fractions of 2000 digits come to it after thirty operations.
const EXACT_WORK: u64 = 5_000_000_000;

/// Steps in the order in which they are done, each with the position of what it came from.
#[derive(Debug, Default)]
pub(crate) struct Program(Vec<(usize, Step)>);

/// What the machine does: takes its operands from the stack and pushes its value.
#[derive(Debug)]
pub(crate) enum Step {
    /// Pushes a number.
    Push(BigRational),
    /// Pushes a constant.
    Constant(Constant),
    /// Applies a function to that many operands.
    Call(&'static Function, usize),
    /// `-x`.
    Negate,
    /// `x + y`.
    Add,
    /// `x - y`.
    Subtract,
    /// `x * y`.
    Multiply,
    /// `x / y`.
    Divide,
    /// `x % y`.
    Remainder,
    /// `x ^ y`.
    Power,
}

impl Program {
    /// Adds a step to the end.
    pub(crate) fn push(&mut self, position: usize, step: Step) {
        self.0.push((position, step));
    }

    /// Runs the program and returns what it leaves on the stack.
    pub(crate) fn run(self) -> Result<Number, Refusal> {
        let mut stack = Vec::new();
        let mut work = 0;
        for (position, step) in self.0 {
            let value = run_step(step, &mut stack, &mut work)
                .map_err(|obstacle| Refusal { position, reason: obstacle.to_string() })?;
            stack.push(value);
        }
        Ok(take(&mut stack))
    }
}

fn run_step(step: Step, stack: &mut Vec<Number>, work: &mut u64) -> Result<Number, Obstacle> {
    match step {
        Step::Push(value) => return Number::settle(value),
        Step::Constant(constant) => return constant(),
        Step::Call(function, count) => {
            let operands = stack.split_off(stack.len().saturating_sub(count));
            return (function.apply)(&operands);
        }
        Step::Negate => return Ok(take(stack).negate()),
        Step::Add | Step::Subtract | Step::Multiply | Step::Divide | Step::Remainder | Step::Power => {}
    }
    let (mut right, mut left) = (take(stack), take(stack));
    *work += (left.exact_bits() + right.exact_bits()).pow(2);
    if *work > EXACT_WORK {
        // A call ends in its time whatever the numbers are; what is short stays exact.
        (left, right) = (left.round_long()?, right.round_long()?);
    }
    match step {
        Step::Add => left.add(&right),
        Step::Subtract => left.add(&right.negate()),
        Step::Multiply => left.multiply(&right),
        Step::Divide => left.divide(&right),
        Step::Remainder => left.remainder(&right),
        _ => left.power(&right),
    }
}

/// Takes an operand. The parser sees to it that there is one.
fn take(stack: &mut Vec<Number>) -> Number {
    stack.pop().unwrap_or_default()
}
