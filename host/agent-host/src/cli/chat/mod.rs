//! `agent-host chat`: a conversation with a running service, at the terminal. What was said goes along with
//! each question, so the service keeps nothing between two.

mod client;
mod events;
mod reconnection;
mod screen;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use agent_core::words::{LONGEST_HISTORY_MESSAGE, MOST_HISTORY_MESSAGES};
use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::{Value, json};
use tokio::signal::ctrl_c;
use tokio::sync::mpsc;
use url::Url;

use super::Exit;
use client::Client;
use events::{Event, Events};
use screen::Screen;

/// Most bytes of what was said that go along with a question. A service takes 100 KiB (`MAX_BODY_BYTES`) with
/// the question, unless it is set to take more.
const MOST_HISTORY_BYTES: usize = 64 << 10;

/// What a shell calls a program that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Talks with a running service.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// What to ask; without it, each line of the standard input
    message: Option<String>,
    /// The service
    #[arg(long, default_value = "http://127.0.0.1:3000")]
    url: Url,
    /// A file with a bearer token (see agent-host token): asks Variant B, /api/agent, in place of Variant A
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print events as lines of JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    let token = arguments.token_file.as_deref().map(|file| {
        let token = std::fs::read_to_string(file);
        token.with_context(|| format!("the token cannot be read from {}", file.display()))
    });
    let client = Client::new(&arguments.url, token.transpose()?.as_deref().map(str::trim))?;
    let mut chat = Chat { client, screen: Screen::new(arguments.json), history: vec![] };
    if let Some(message) = &arguments.message {
        return chat.ask(message).await;
    }
    let prompts = !arguments.json && io::stdin().is_terminal();
    let mut lines = lines_of_input();
    loop {
        if prompts {
            print_prompt()?;
        }
        let line = tokio::select! {
            line = lines.recv() => line,
            _ = ctrl_c() => None,
        };
        let Some(line) = line else { return Ok(Exit::Success) };
        let line = line.context("the standard input cannot be read")?;
        if line.trim().is_empty() {
            continue;
        }
        match chat.ask(&line).await {
            // What is wrong with one question is not wrong with the next.
            Err(error) if prompts => eprintln_error(&error),
            Ok(Exit::Code(code)) => return Ok(Exit::Code(code)),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
}

/// A thread of its own reads, because a read of a terminal cannot be given up: it ends with the process.
fn lines_of_input() -> mpsc::Receiver<io::Result<String>> {
    let (lines, received) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lines() {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    received
}

fn print_prompt() -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(b"> ")?;
    out.flush()
}

#[expect(clippy::print_stderr, reason = "a command speaks to whoever runs it")]
fn eprintln_error(error: &anyhow::Error) {
    eprintln!("{error:#}");
}

struct Chat {
    client: Client,
    screen: Screen,
    /// What was said, the oldest first: `{"role", "content"}` each.
    history: Vec<Value>,
}

impl Chat {
    /// Asks and shows the run. The first interrupt cancels the run, the second one leaves it. Before the
    /// service has said which run it is, the first one leaves.
    async fn ask(&mut self, message: &str) -> anyhow::Result<Exit> {
        forget_oldest(&mut self.history);
        // Once `ctrl_c` was called in this process SIGINT no longer ends it, so that every wait looks for it.
        // An interrupt counts once it is waited for, so that comes before the question is on its way.
        let begun = tokio::select! {
            biased;
            _ = ctrl_c() => return Ok(Exit::Code(INTERRUPTED)),
            begun = self.client.ask(message, &self.history) => begun?,
        };
        let mut events = Events::new(&self.client, begun);
        let mut is_cancelled = false;
        loop {
            let event = tokio::select! {
                event = events.next() => event?,
                _ = ctrl_c(), if is_cancelled => return Ok(Exit::Code(INTERRUPTED)),
                _ = ctrl_c() => {
                    is_cancelled = true;
                    tokio::select! {
                        biased;
                        _ = ctrl_c() => return Ok(Exit::Code(INTERRUPTED)),
                        cancelled = events.cancel() => cancelled?,
                    }
                    continue;
                }
            };
            let Some(event) = event else { bail!("the stream ended without the end of the run") };
            self.screen.show(&event)?;
            match event.name.as_str() {
                Event::ENDED => {
                    let answer = event.result()["output"].as_str().unwrap_or_default();
                    self.remember(message, answer);
                    return Ok(Exit::Success);
                }
                Event::FAILED => return Ok(Exit::Failure),
                _ => {}
            }
        }
    }

    fn remember(&mut self, message: &str, answer: &str) {
        // The service takes no empty message.
        if !answer.is_empty() {
            self.history.extend(turn(message, answer));
        }
    }
}

/// A question and its answer, as far as a service takes them along with the next question.
fn turn(question: &str, answer: &str) -> [Value; 2] {
    let cut = |text: &str| text.chars().take(LONGEST_HISTORY_MESSAGE).collect::<String>();
    [
        json!({ "role": "user", "content": cut(question) }),
        json!({ "role": "assistant", "content": cut(answer) }),
    ]
}

/// The oldest turns go when there are too many, or when they are too long.
fn forget_oldest(history: &mut Vec<Value>) {
    while history.len() > MOST_HISTORY_MESSAGES || bytes_of(history) > MOST_HISTORY_BYTES {
        history.drain(..history.len().min(2));
    }
}

fn bytes_of(history: &[Value]) -> usize {
    history.iter().map(|message| message.to_string().len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(turns: usize, bytes: usize) -> Vec<Value> {
        let turn = |number| [json!({ "content": number }), json!({ "content": "x".repeat(bytes) })];
        (0..turns).flat_map(turn).collect()
    }

    #[test]
    fn the_oldest_turns_go_before_a_service_refuses_the_question_for_their_size() {
        for (turns, bytes, left) in [
            (3, 1_000, 3),
            (30, 4 << 10, 15),
            (1, 100 << 10, 0),
            (MOST_HISTORY_MESSAGES, 1, MOST_HISTORY_MESSAGES / 2),
        ] {
            let mut history = said(turns, bytes);
            let last = history.last().cloned();
            forget_oldest(&mut history);
            assert_eq!(history.len(), 2 * left, "{turns} of {bytes}");
            assert!(history.is_empty() || history.last() == last.as_ref());
        }
    }

    #[test]
    fn an_answer_that_is_too_long_to_be_sent_back_goes_along_in_part() {
        let [question, answer] = turn("what?", &"ä".repeat(LONGEST_HISTORY_MESSAGE + 1));
        assert_eq!(question["content"], "what?");
        assert_eq!(answer["content"].as_str().unwrap().chars().count(), LONGEST_HISTORY_MESSAGE);
    }
}
