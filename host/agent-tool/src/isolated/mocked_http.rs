//! Answers the requests of a component under test, by the lines of a case or with trouble.

use parking_lot::Mutex;
use std::time::Duration;

use boxed_async::boxed_async;
use tool_host::{CallKey, HttpAnswers, HttpOutcome, HttpRequestRecord};
use tool_kit::upstream::{HttpLine, Mock, Trouble, Upstream};

/// What answers.
#[derive(Debug, Default)]
enum Mode {
    /// Nobody: every connection is refused.
    #[default]
    Nobody,
    /// The lines of a case, each once.
    Lines(Upstream),
    /// One trouble for every request.
    Trouble(Trouble),
}

/// Answers in place of the network.
#[derive(Debug, Default)]
pub(crate) struct MockedHttp(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    mode: Mode,
    /// Methods of the requests, in their order.
    asked: Vec<String>,
}

impl MockedHttp {
    /// The requests of the next call are answered with these.
    pub(crate) fn answer_with(&self, lines: &[HttpLine]) {
        self.0.lock().mode = Mode::Lines(Upstream::new(lines.to_vec()));
    }

    /// All requests are in trouble from now on.
    pub(crate) fn trouble_with(&self, trouble: Trouble) {
        self.0.lock().mode = Mode::Trouble(trouble);
    }

    /// Nobody answers from now on.
    pub(crate) fn answer_nothing(&self) {
        self.0.lock().mode = Mode::Nobody;
    }

    /// What went otherwise than the lines say.
    pub(crate) fn problems(&self) -> Vec<String> {
        match &self.0.lock().mode {
            Mode::Lines(upstream) => upstream.problems(),
            Mode::Nobody | Mode::Trouble(_) => vec![],
        }
    }

    /// The methods of the requests since they were taken last.
    pub(crate) fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().asked)
    }

    /// What answers this request, and when; nothing where no answer comes.
    fn next(&self, method: &str, url: &str) -> Result<Option<(Mock, Duration)>, String> {
        let mut state = self.0.lock();
        state.asked.push(method.to_owned());
        match &mut state.mode {
            Mode::Nobody => Ok(Some((Mock::Fails("connection-refused".to_owned()), Duration::ZERO))),
            Mode::Trouble(trouble) => Ok(trouble.answer().map(|answer| (answer, Duration::ZERO))),
            Mode::Lines(upstream) => {
                let line = upstream.answer(method, url)?;
                Ok(Some((line.answer, Duration::from_millis(line.delay_ms))))
            }
        }
    }
}

#[boxed_async]
impl HttpAnswers for MockedHttp {
    async fn answer(&self, _call: CallKey<'_>, request: &HttpRequestRecord) -> Result<HttpOutcome, String> {
        let Some((answer, delay)) = self.next(&request.method, &request.url)? else {
            return std::future::pending().await;
        };
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        Ok(match answer {
            Mock::Response { status, headers, body } => {
                HttpOutcome::Response { status, headers, body, cut: false }
            }
            Mock::Fails(reason) => HttpOutcome::Failed(reason),
        })
    }
}
