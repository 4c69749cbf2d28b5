//! The words, the ports and the pure agent run that the rest of agent-host is built around.
//!
//! - [`words`]: plain data, below everything else: messages, replies, tools, events, jobs, results.
//! - [`agent_loop`]: the agent loop as a value. No async, no clock, no I/O.
//! - [`ports`]: one trait and its error per file: what a run and its service need from the outside.
//! - [`journal_format`]: the stored form of an event, with its version.
//! - [`chosen_tools`]: the tools that a caller chose, as a tool set of its own.
//! - [`circuit_breaker`]: a circuit breaker as a value, and one that many calls pass through.
//! - [`backoff`]: the pauses between tries, for the whole workspace.
//! - [`event_stream`]: server-sent events, read.
//! - [`trace`]: which trace a request, a job and each step belong to.
//! - [`error_chain`], [`nearest_word`](mod@nearest_word), [`secret`], [`terminal_text`]: texts: an error with
//!   its causes, which word was meant, one that cannot be printed by accident, one that a terminal may show.
//! - `testing`: scripted fakes of the ports behind the feature of that name.
//!
//! What does not belong here: carrying a run out, which is `run-service`'s; HTTP, WebAssembly, databases,
//! environment variables, status codes.

pub mod agent_loop;
pub mod backoff;
pub mod chosen_tools;
pub mod circuit_breaker;
pub mod error_chain;
pub mod event_stream;
pub mod journal_format;
pub mod nearest_word;
pub mod ports;
pub mod secret;
pub mod terminal_text;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod trace;
pub mod words;
