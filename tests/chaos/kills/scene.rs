//! What stands around the service and sees what it does: the model, which plays each job's steps, and the
//! server that tools act on. Both take their time, and both write down when they were asked and when they
//! answered. These are the counts that the table is made of; nothing is taken from the service's own log.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use acceptance::{Builder, Component, Model, Play, Request, Task, asks_for_all, says, serve, within};
use axum::Router;
use axum::extract::State;
use axum::http::Uri;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::plan::{CALL_TIME, CallAt, Moment, PlannedKill, REPLY_TIME, StepKind};

/// Something that was asked of the outside: a model call, or a tool's call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) step: usize,
    /// Which call of the step's reply; 0 for the model.
    pub(super) index: usize,
    /// Which of the calls that this one comes to; for the model, which reply of the step's child run.
    pub(super) nested: Option<usize>,
    pub(super) came: Instant,
    /// When the answer was sent.
    pub(super) answered: Option<Instant>,
}

/// What was asked on behalf of one job.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) model: Vec<Asked>,
    pub(super) tools: Vec<Asked>,
}

type SeenOfAll = BTreeMap<usize, Seen>;

/// How many builds of the tools serve in turn where they are swapped.
const BUILDS: u32 = 3;

/// The model and the server, for all jobs of a plan.
pub(super) struct Scene {
    model: Model,
    /// The components with the tools, each with its lines of the policy.
    components: Vec<(Component, String)>,
    /// Builds of the component that acts: where tools are swapped there are several, which behave alike.
    pub(super) builds: Vec<Component>,
    seen: Arc<watch::Sender<SeenOfAll>>,
    /// How many kills were made.
    made: AtomicUsize,
    /// How often another build came to serve.
    pub(super) swaps: AtomicUsize,
    _running: [Task<()>; 2],
}

/// A reply of the model that is due.
struct Due {
    at: Instant,
    job: usize,
    /// Which of the job's model calls.
    call: usize,
    opens: watch::Sender<bool>,
}

impl Asked {
    pub(super) fn call(&self) -> CallAt {
        CallAt { step: self.step, index: self.index, nested: self.nested }
    }
}

impl Seen {
    /// What had been asked and answered by then.
    pub(super) fn until(&self, end: Instant) -> Self {
        let until = |asked: &Asked| Asked { answered: asked.answered.filter(|at| *at <= end), ..*asked };
        let before =
            |all: &[Asked]| all.iter().filter(|asked| asked.came <= end).map(until).collect::<Vec<_>>();
        Self { model: before(&self.model), tools: before(&self.tools) }
    }

    /// When something was asked first after that.
    pub(super) fn first_after(&self, moment: Instant) -> Option<Instant> {
        let times = self.model.iter().chain(&self.tools).map(|asked| asked.came);
        times.filter(|came| *came > moment).min()
    }

    /// How often the model was asked for a step, or for a reply of its child run.
    pub(super) fn replies_asked(&self, step: usize, of_child: Option<usize>) -> usize {
        self.model.iter().filter(|asked| (asked.step, asked.nested) == (step, of_child)).count()
    }

    /// How often a call was made.
    pub(super) fn calls_made(&self, call: CallAt) -> usize {
        self.tools.iter().filter(|asked| asked.call() == call).count()
    }

    fn has_reached(&self, kill: &PlannedKill) -> bool {
        let all = match kill.moment {
            Moment::Accepted | Moment::Parked | Moment::Decided => return true,
            Moment::Asked | Moment::Replied => &self.model,
            Moment::Called | Moment::Returned => &self.tools,
        };
        let answered = matches!(kill.moment, Moment::Replied | Moment::Returned);
        all.iter().any(|asked| asked.step == kill.target && (!answered || asked.answered.is_some()))
    }
}

impl Scene {
    /// Plays the steps of these jobs.
    pub(super) async fn of(plan: &[PlannedKill]) -> Self {
        let seen = Arc::new(watch::Sender::<SeenOfAll>::default());
        let router = Router::new().fallback(answer_tool).with_state(Arc::clone(&seen));
        let (address, serving) = serve(router).await;
        let (dues, due) = mpsc::unbounded_channel();
        let replying = Task::begin(reply_in_time(due, Arc::clone(&seen)));

        let steps: BTreeMap<_, _> = plan.iter().map(|kill| (kill.number, kill.steps.clone())).collect();
        let model = Model::openai().await;
        let noted = Arc::clone(&seen);
        model.always(move |request| {
            let text = request.user_text();
            let job = PlannedKill::number_in(&text).expect("a query of the plan");
            let of_child = PlannedKill::step_in(&text).map(|step| (step, replies_in(request)));
            let (step, nested) =
                of_child.map_or((replies_in(request), None), |(step, reply)| (step, Some(reply)));
            let asked = Asked { step, index: 0, nested, came: request.came, answered: None };
            let mut call = 0;
            noted.send_modify(|seen| {
                let calls = &mut seen.entry(job).or_default().model;
                call = calls.len();
                calls.push(asked);
            });
            let (opens, opened) = watch::channel(false);
            let due = Due { at: request.came + REPLY_TIME, job, call, opens };
            assert!(dues.send(due).is_ok(), "the task that replies lives as long as the scene");
            let url = format!("http://{address}/{job}/{step}");
            let play = match nested {
                None => reply(steps[&job][step], request, &url),
                Some(reply) => reply_of_child(reply, request, &url),
            };
            Play::Held(opened, Box::new(play))
        });
        let approve = if plan.iter().any(|kill| kill.waits) { "approve = \"always\"\n" } else { "" };
        let grants = format!(
            "{approve}[[component.http]]\nscheme = \"http\"\nhost = \"127.0.0.1\"\nport = {}\nmethods = [\"GET\", \"POST\"]\n\
             private = true\n",
            address.port()
        );
        let acts = Component::misbehaving("acts-outside");
        let builds = if plan.iter().any(|kill| kill.swaps) { BUILDS } else { 1 };
        let others: Vec<_> = (1..builds).map(|number| acts.clone().revision(number)).collect();
        let of_others: String = others.iter().map(|build| build.lines(&grants)).collect();
        let builds = [vec![acts.clone()], others].concat();
        let mut components = vec![(acts, grants + &of_others)];
        if plan.iter().any(|kill| kill.waits) {
            let scripts = "toolbox = true\nlimits = { timeout-ms = 20000 }".to_owned();
            components.push((Component::granted("code-eval"), scripts));
            components.push((Component::misbehaving("asks"), "ask = true".to_owned()));
        }
        let [made, swaps] = [const { AtomicUsize::new(0) }; 2];
        Self { model, components, builds, seen, made, swaps, _running: [serving, replying] }
    }

    pub(super) fn note_kill(&self) {
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells once a minute how many kills were made.
    pub(super) async fn tell_progress(&self, tell: impl Fn(usize)) -> Infallible {
        loop {
            sleep(Duration::from_mins(1)).await;
            tell(self.made.load(Ordering::Relaxed));
        }
    }

    /// A service that asks this model and has the tools that act on this server, and no window that would
    /// end.
    pub(super) fn around(&self, service: Builder) -> Builder {
        let service = service.without_windows();
        let nothing: [Component; 0] = [];
        let service = match self.components.len() {
            1 => service,
            // Runs may begin runs, and nobody works on the queue who would know nothing of that.
            _ => service
                .env("WAIT_TOOLS", "on")
                .env("NODE_WORKERS", "off")
                .env("TOKEN_BUDGET_PER_REQUEST", "1000000"),
        };
        let service = service.model(&self.model).tools(nothing);
        match &self.components[..] {
            [(acts, grants)] => service.granting([(acts, grants)]),
            [(acts, grants), (scripts, of_scripts), (asks, of_asks)] => {
                service.granting([(acts, grants), (scripts, of_scripts), (asks, of_asks)])
            }
            _ => unreachable!("there is one component, or there are three"),
        }
    }

    /// What was asked on behalf of a job so far.
    pub(super) fn seen(&self, job: usize) -> Seen {
        self.seen.borrow().get(&job).cloned().unwrap_or_default()
    }

    /// Waits until the model was asked more often than that on behalf of a job, and says how often.
    pub(super) async fn asked_more_than(&self, times: usize, job: usize) -> usize {
        let asked = |seen: &SeenOfAll| seen.get(&job).map_or(0, |seen| seen.model.len());
        let mut seen = self.seen.subscribe();
        let more = seen.wait_for(|seen| asked(seen) > times).await;
        let more = more.expect("the scene holds the sender");
        asked(&more)
    }

    /// Waits until the moment has come that a kill is aimed at.
    pub(super) async fn reaches(&self, kill: &PlannedKill) {
        let mut seen = self.seen.subscribe();
        let reached = seen.wait_for(|seen| {
            let none = Seen::default();
            seen.get(&kill.number).unwrap_or(&none).has_reached(kill)
        });
        let what = format!("the moment of {kill:?}");
        drop(within(&what, reached).await.expect("the scene holds the sender"));
    }
}

/// The model has replied once for each message of the assistant.
fn replies_in(request: &Request) -> usize {
    let messages = request.body["messages"].as_array().into_iter().flatten();
    messages.filter(|message| message["role"] == "assistant").count()
}

/// The last reply repeats everything that tools have returned, so that an answer that got lost on the way is
/// missed in it.
fn reply(kind: StepKind, request: &Request, url: &str) -> Play {
    if kind == StepKind::Answer {
        let returned = Value::from(request.tool_results());
        return says(&returned.to_string());
    }
    let text = request.user_text();
    let step = url.rsplit('/').next().unwrap_or_default();
    let tools = kind.tools().iter().enumerate();
    asks_for_all(tools.map(|(index, tool)| {
        let arguments = match kind {
            StepKind::Script => json!({ "code": script(&format!("{url}/{index}")) }),
            StepKind::Ask => json!({ "thing": format!("{text}/{step}") }),
            StepKind::Child => json!({ "task": format!("{text}/{step}"), "tools": ["look", "act"] }),
            _ => json!({ "url": format!("{url}/{index}") }),
        };
        (*tool, arguments)
    }))
}

/// A script that looks and then acts, and says what came of each.
fn script(url: &str) -> String {
    format!(
        "const made = (name, number) => {{ try {{ return tools[name]({{url: `{url}/${{number}}`}}); }} \
         catch (error) {{ return String(error); }} }}; JSON.stringify([made('look', 0), made('act', 1)])"
    )
}

/// A child run calls what its parent's script would, and repeats what was returned.
fn reply_of_child(reply: usize, request: &Request, url: &str) -> Play {
    if reply > 0 {
        return says(&Value::from(request.tool_results()).to_string());
    }
    let tools = StepKind::Child.nested().iter().enumerate();
    asks_for_all(tools.map(|(number, tool)| (*tool, json!({ "url": format!("{url}/0/{number}") }))))
}

/// What a call returns, as the answer of the run repeats it.
pub(super) fn returned_by(job: usize, call: CallAt) -> String {
    let CallAt { step, index, nested } = call;
    let nested = nested.map(|number| format!("/{number}")).unwrap_or_default();
    format!("done {job}/{step}/{index}{nested}.")
}

/// The colour that somebody answers to the tool that asks.
pub(super) fn colour_of(job: usize, step: usize) -> String {
    format!("blue {job}/{step}")
}

/// All take the same time, so those that came first are due first.
async fn reply_in_time(mut dues: mpsc::UnboundedReceiver<Due>, seen: Arc<watch::Sender<SeenOfAll>>) {
    while let Some(due) = dues.recv().await {
        sleep_until(due.at).await;
        seen.send_modify(|seen| {
            let call = seen.get_mut(&due.job).and_then(|seen| seen.model.get_mut(due.call));
            call.expect("a call that was noted").answered = Some(Instant::now());
        });
        // Whoever waited for it may have been killed.
        let _ = due.opens.send(true);
    }
}

async fn answer_tool(State(seen): State<Arc<watch::Sender<SeenOfAll>>>, uri: Uri) -> String {
    let parts: Vec<usize> = uri.path().split('/').filter_map(|part| part.parse().ok()).collect();
    let (job, made) = match parts[..] {
        [job, step, index] => (job, CallAt { step, index, nested: None }),
        [job, step, index, number] => (job, CallAt { step, index, nested: Some(number) }),
        _ => return "nothing is here".to_owned(),
    };
    let CallAt { step, index, nested } = made;
    let asked = Asked { step, index, nested, came: Instant::now(), answered: None };
    let mut call = 0;
    seen.send_modify(|seen| {
        let calls = &mut seen.entry(job).or_default().tools;
        call = calls.len();
        calls.push(asked);
    });
    sleep(CALL_TIME).await;
    seen.send_modify(|seen| {
        let call = seen.get_mut(&job).and_then(|seen| seen.tools.get_mut(call));
        call.expect("a call that was noted").answered = Some(Instant::now());
    });
    returned_by(job, made)
}
