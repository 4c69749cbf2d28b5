//! What tests a tool before it is shipped, as far as it needs no I/O: the command line (`agent-tool test` and
//! `agent-tool check`) makes the calls, and everything that decides what to call and what the answers mean is
//! here.
//!
//! - `cases`: the case file, read with all its problems at once. `expectation`: an answer held against a
//!   case.
//! - `people`: answers to the questions of a case.
//! - `upstream`: mocked answers to the requests of a case. `case_policy`: the policy that a case needs.
//! - `generate`: arguments made from a JSON Schema, valid and invalid, and how they are made smaller.
//! - `lint`: what is wrong with a description before anything is called. `promises`: hints against what was
//!   seen.
//! - `cost`: what calls cost, as a table and against budgets. `finding`, `command`: how all of it is said.
//!
//! The invariant: nothing here reads a clock, a file, an environment or a network; with one seed everything
//! is made again in the same way.

pub mod case_policy;
pub mod cases;
pub mod command;
pub mod cost;
pub mod expectation;
pub mod finding;
pub mod generate;
pub mod lint;
pub mod people;
pub mod promises;
pub mod upstream;
