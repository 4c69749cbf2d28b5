//! Equal requests to agent-host and to the Node deployment that clients use today (`tests/peers`), and their
//! answers compared header by header and field by field. What may differ stands in one table,
//! `differences.rs`, each row with the decision that made it; anything else that differs fails the test.

mod answers;
mod bodies;
mod comparison;
mod differences;
mod pair;
mod reports;
mod routes;
mod tokens;
mod windows;
