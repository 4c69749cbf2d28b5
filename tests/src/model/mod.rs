//! A fake provider: an HTTP server that speaks a protocol, plays a script, and holds every request against
//! what the real provider is known to demand.
//!
//! Nobody has to ask afterwards whether all was well: dropping it fails the test when a request broke a rule,
//! when there was one too many, or when a part of the script was not asked for.

mod anthropic;
mod openai;
mod play;
mod request;
mod rules;
mod serve;

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use play::{Gate, Play, asks_for, asks_for_all, order, says};
pub use request::Request;

use serve::State;
use test_servers::within;

/// Whose protocol is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// OpenAI chat completions.
    OpenAi,
    /// Anthropic Messages.
    Anthropic,
}

/// A provider with one model.
pub struct Model {
    address: SocketAddr,
    state: Arc<State>,
    _serving: JoinSet<()>,
}

impl Model {
    /// One that speaks OpenAI's protocol.
    pub async fn openai() -> Self {
        Self::start(Protocol::OpenAi).await
    }

    /// One that speaks OpenAI's protocol and [obeys](Self::obeys).
    pub async fn obeying() -> Self {
        let model = Self::openai().await;
        model.obeys();
        model
    }

    /// One that speaks OpenAI's protocol and says this when it is asked first.
    pub async fn saying(text: &str) -> Self {
        let model = Self::openai().await;
        model.says(text);
        model
    }

    /// One that speaks OpenAI's protocol and says this whenever it is asked.
    pub async fn always_saying(text: &'static str) -> Self {
        let model = Self::openai().await;
        model.always(move |_| says(text));
        model
    }

    /// One that speaks Anthropic's protocol.
    pub async fn anthropic() -> Self {
        Self::start(Protocol::Anthropic).await
    }

    async fn start(protocol: Protocol) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("any free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        // The port makes keys of two providers in one test differ.
        let key = format!("sk-never-to-be-seen-{}", address.port());
        let state = Arc::new(State::new(protocol, key));
        let mut serving = JoinSet::new();
        serving.spawn(serve::serve(listener, Arc::clone(&state)));
        Self { address, state, _serving: serving }
    }

    /// For `LLM_MODEL`.
    pub fn name(&self) -> String {
        let provider = match self.state.protocol {
            Protocol::OpenAi => "openai",
            Protocol::Anthropic => "anthropic",
        };
        format!("{provider}/test-model")
    }

    /// For `LLM_API_KEY`.
    pub fn key(&self) -> &str {
        &self.state.key
    }

    /// For `LLM_BASE_URL`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Does this when it is asked next.
    pub fn plays(&self, play: Play) -> &Self {
        self.state.script().push_back(play);
        self
    }

    /// Says this when it is asked next.
    pub fn says(&self, text: &str) -> &Self {
        self.plays(says(text))
    }

    /// Asks for a tool when it is asked next.
    pub fn asks_for(&self, tool: &str, arguments: Value) -> &Self {
        self.plays(asks_for(tool, arguments))
    }

    /// Answers with this, whatever it is, when it is asked next.
    pub fn answers(&self, status: u16, headers: &[(&'static str, &str)], body: &str) -> &Self {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.plays(Play::Whole { status, headers, body: body.to_owned() })
    }

    /// Answers never when it is asked next.
    pub fn hangs(&self) -> &Self {
        self.plays(Play::Hang)
    }

    /// Does this when it is asked next, but only once the gate is open.
    pub fn holds(&self, play: Play) -> Gate {
        let gate = Gate::closed();
        self.plays(Play::Held(gate.opened(), Box::new(play)));
        gate
    }

    /// Streams the words of that reply when it is asked next, and its end once the gate is open.
    pub fn pauses(&self, play: Play) -> Gate {
        let gate = Gate::closed();
        self.plays(Play::Paused(gate.opened(), Box::new(play)));
        gate
    }

    /// Does what the rule says whenever it is asked and the script has come to its end.
    pub fn always(&self, rule: impl Fn(&Request) -> Play + Send + Sync + 'static) -> &Self {
        *self.state.rule.lock() = Some(Box::new(rule));
        self
    }

    /// Does from now on what users tell it: calls the tool of their [`order`] and says what it returns.
    pub fn obeys(&self) -> &Self {
        self.always(play::obey)
    }

    /// Adds from now on with the calculator what it is told to `add one to`, and says of all else that it
    /// heard it.
    pub fn adds_or_hears(&self) -> &Self {
        self.always(|request| {
            let query = request.user_text();
            match (query.strip_prefix("add one to "), request.tool_results().last()) {
                (Some(_), Some(result)) => says(result),
                (Some(number), None) => {
                    asks_for("calculate", json!({ "expression": format!("{number} + 1") }))
                }
                (None, _) => says(&format!("heard {query}")),
            }
        })
    }

    /// Does this when a health check asks next. Without it health checks are answered well.
    pub fn checks_play(&self, play: Play) -> &Self {
        self.state.check_script.lock().push_back(play);
        self
    }

    /// Is going to be asked without tools, because the service has none.
    pub fn expects_no_tools(&self) -> &Self {
        self.state.expect_no_tools();
        self
    }

    /// Is going to be asked with tools and without.
    pub fn expects_any_tools(&self) -> &Self {
        self.state.expect_any_tools();
        self
    }

    /// Is going to be asked by a client that is not agent-host and has no tools.
    pub fn expects_a_peer(&self) -> &Self {
        self.state.expect_peer();
        self
    }

    /// Is going to be asked with temperatures that callers chose.
    pub fn expects_any_temperature(&self) -> &Self {
        self.state.expect_any_temperature();
        self
    }

    /// Is going to be asked for hours, and keeps nothing of it: each request holds the schemas of all tools.
    pub fn forgets_calls(&self) -> &Self {
        self.state.forget_calls();
        self
    }

    /// What it was asked so far, health checks apart.
    pub fn calls(&self) -> Vec<Request> {
        self.state.calls.borrow().clone()
    }

    /// The health checks so far.
    pub fn checks(&self) -> Vec<Request> {
        self.state.checks.borrow().clone()
    }

    /// Waits until it was asked that many times, health checks apart.
    pub async fn was_asked(&self, times: usize) {
        wait_for(&self.state.calls, times, "calls of the model").await;
    }

    /// Waits until that many health checks have come.
    pub async fn was_checked(&self, times: usize) {
        wait_for(&self.state.checks, times, "health checks of the model").await;
    }
}

async fn wait_for(requests: &watch::Sender<Vec<Request>>, count: usize, what: &str) {
    let mut received = requests.subscribe();
    let enough = received.wait_for(|requests| requests.len() >= count);
    within(&format!("{count} {what}"), enough).await.expect("the model holds the sender");
}

impl Drop for Model {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let violations = self.state.violations.lock();
        assert!(violations.is_empty(), "requests to the provider broke its rules: {violations:#?}");
        let left = self.state.script().len() + self.state.check_script.lock().len();
        assert_eq!(left, 0, "{left} parts of the script were not asked for");
    }
}
