//! What a run waits for, and what was decided about it, as both stand in journals.
//!
//! A wait begins with [`super::Event::Waiting`] and is over when the [`Decision`]s about it are complete. Who
//! may decide and what is complete are pure rules here, so that every door (HTTP, the command line, another
//! protocol) decides alike.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Principal, ToolHints, Usage};

/// A moment, in milliseconds since 1970.
type Millis = u64;

/// Separates a job's id from the call in [`Wait::id`].
const BEFORE_CALL: char = ':';

/// Separates the digest of the run from the call in [`Wait::id`].
const BEHIND_RUN: char = '-';

/// How many hexadecimal digits of a run's digest stand in an id: they tell the few runs of one job apart.
const RUN_DIGITS: usize = 8;

/// Separates the call from how often it was shown before.
const BEFORE_TIMES_SHOWN: char = '~';

/// Something that a run waits for before it goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wait {
    /// Names it within all runs of all jobs: `<job>:<run>-<model call>.<index>`, behind another `.` the
    /// number of a nested call, and behind `~` how often the call was shown before if that is not zero, as
    /// in `17:37ddff8e-1.0~2`. `<run>` is [`short_run`]: a job that is retried has another run, and a
    /// decision that was sent to the run before must not reach it. Older journals have ids without `<run>-`.
    pub id: String,
    /// Which call of the reply it is about, counted from 0.
    pub index: usize,
    /// The call of `index`, where that has come to something that waits: a call of another tool or a
    /// question. Absent where it waits itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<EnclosingCall>,
    /// Whether somebody is asked, or a time or an event is waited for.
    pub kind: WaitKind,
    /// The call that would be made. A decision carries its [digest](ShownCall::digest).
    pub shown: ShownCall,
    /// The JSON Schema that an answer has to meet; absent where anything may be answered, or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// Who may decide, and how many have to.
    pub deciders: Deciders,
    /// When the run began to wait.
    pub began_at: Millis,
    /// When it is decided by itself, as `on_expiry` says.
    pub expires_at: Millis,
    /// What is decided when the wait has expired.
    pub on_expiry: OnExpiry,
    /// What the run has cost so far.
    pub usage: Usage,
    /// The run whose end is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<ChildRun>,
}

/// A run that a run began, as its parent's wait names it. Both ids follow from the parent's run and the call,
/// so that whoever goes on with the parent begins no second one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildRun {
    pub job_id: String,
    pub run_id: String,
    /// Names of the tools that it has, all of them its parent's.
    pub tools: Vec<String>,
    /// Most tokens that it may use, which are its parent's as well.
    pub tokens: u64,
}

/// The call on whose behalf a run is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentCall {
    /// The run that made it.
    pub run_id: String,
    /// [`Wait::id`] of what that run waits for: the end of this one.
    pub wait: String,
    /// How deep the run is: 1 for that of a run that has no parent.
    pub depth: u32,
}

/// A call that has come to something that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnclosingCall {
    /// Name of the tool that was called.
    pub tool: String,
    /// Which of its nested calls and questions waits, counted from 0.
    pub number: u32,
}

/// A call of a reply, or one of the nested calls and questions of such a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallPlace {
    /// Which call of the reply, counted from 0.
    pub index: usize,
    /// Which of its nested calls and questions, counted from 0.
    pub nested: Option<u32>,
}

impl Wait {
    /// What of the reply it is about.
    pub fn place(&self) -> CallPlace {
        CallPlace { index: self.index, nested: self.within.as_ref().map(|within| within.number) }
    }

    /// The id of a wait for a call of a run's reply, which is counted from 1, when it is shown first.
    pub fn new_id(job_id: &str, run_id: &str, reply: u32, place: CallPlace) -> String {
        let run = short_run(run_id);
        let nested = place.nested.map(|number| format!(".{number}")).unwrap_or_default();
        format!("{job_id}{BEFORE_CALL}{run}{BEHIND_RUN}{reply}.{}{nested}", place.index)
    }

    /// The job that a wait of this id is of; `None` when it is the id of none.
    pub fn job_of(id: &str) -> Option<&str> {
        id.rsplit_once(BEFORE_CALL).map(|(job, _)| job)
    }

    /// The id that the wait had when its call was shown first.
    pub fn first_id(id: &str) -> &str {
        let call = id.rfind(BEFORE_CALL).unwrap_or_default();
        id[call..].find(BEFORE_TIMES_SHOWN).map_or(id, |mark| &id[..call + mark])
    }
}

/// Eight hexadecimal digits of the SHA-256 of a run's id: where a whole one would be too long.
pub fn short_run(run_id: &str) -> String {
    format!("{:.*x}", RUN_DIGITS, Sha256::digest(run_id))
}

/// What a run may wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// Whether the call may be made.
    Approval,
    /// What the model or a tool asks the user. The answer is the call's.
    Question,
    /// Nothing: the call is answered when its time has come.
    Timer,
    /// Nothing: the call is answered with an event that somebody delivers.
    Event,
    /// Nothing: the call is answered with the end of a run that it began.
    Child,
}

impl WaitKind {
    pub const ALL: [Self; 5] = [Self::Approval, Self::Question, Self::Timer, Self::Event, Self::Child];

    /// Whether the end of another run is waited for.
    pub fn is_child(self) -> bool {
        self == Self::Child
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }

    /// As it stands in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Question => "question",
            Self::Timer => "timer",
            Self::Event => "event",
            Self::Child => "child",
        }
    }
}

/// For which kinds of things a run waits, and since when: what its queue counts while the job is parked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenKinds {
    /// A bit for each kind, the first of [`WaitKind::ALL`] being the lowest. None where that is not known.
    pub bits: u8,
    /// When the first of these waits began.
    pub since: Millis,
}

impl OpenKinds {
    /// How many combinations of kinds there are.
    pub const COMBINATIONS: u8 = (1 << WaitKind::ALL.len()) - 1;

    /// Of waits that are not decided.
    pub fn of<'a>(waits: impl IntoIterator<Item = &'a Wait>) -> Self {
        waits.into_iter().fold(Self::default(), |of_all, wait| Self {
            bits: of_all.bits | wait.kind.bit(),
            since: if of_all.is_empty() { wait.began_at } else { of_all.since.min(wait.began_at) },
        })
    }

    /// Whether no kind is known.
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// The kinds, in the order of [`WaitKind::ALL`].
    pub fn kinds(self) -> impl Iterator<Item = WaitKind> {
        WaitKind::ALL.into_iter().filter(move |kind| self.bits & kind.bit() != 0)
    }
}

/// How many runs wait for something of a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WaitDepth {
    /// A queue may count no more than some thousands of them.
    pub runs: u64,
    /// For how long the one that has waited longest has waited.
    pub oldest: Option<Duration>,
}

impl WaitDepth {
    /// Runs of both counts together, and the older of the oldest.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { runs: self.runs + other.runs, oldest: self.oldest.max(other.oldest) }
    }
}

/// What is decided about a wait that has expired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExpiry {
    /// The call is not made, and the model is told so.
    #[default]
    Reject,
    /// The call is made as it was shown.
    Approve,
    /// The call is answered that its time has come.
    Answer,
}

impl OnExpiry {
    /// As it stands in JSON and in the policy.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reject => "reject",
            Self::Approve => "approve",
            Self::Answer => "answer",
        }
    }
}

/// A call as those who decide are shown it: what is carried out is this and nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownCall {
    /// Name of the tool that would be called.
    pub tool: String,
    /// Arguments of the call: a JSON object.
    pub arguments: Value,
    /// `component@sha256:…` whose code would run.
    pub component: String,
    /// Digest of the policy that it would run under.
    pub policy: String,
    /// What the tool says of itself.
    pub hints: ToolHints,
}

impl ShownCall {
    /// `sha256:…` of everything that is shown. Equal calls have one, whatever the order of their arguments'
    /// members.
    pub fn digest(&self) -> String {
        let mut digest = Sha256::new();
        // Members of objects are sorted in a `Value`, so equal calls are equal texts.
        // silent-ok: these types always have a JSON text.
        digest.update(serde_json::to_vec(self).unwrap_or_default());
        format!("sha256:{:x}", digest.finalize())
    }
}

/// Who may decide. Nobody is named by default; then the user whose run it is decides if `own` says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Deciders {
    /// Users by their ids, as tokens have them.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub users: BTreeSet<String>,
    /// Users by the tier in their tokens.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub tiers: BTreeSet<String>,
    /// Users by the role in their tokens.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub roles: BTreeSet<String>,
    /// How many of them have to agree, at least 1. One who rejects decides alone.
    pub count: u32,
    /// Whether the user whose run it is may be one of them.
    pub own: bool,
}

impl Default for Deciders {
    fn default() -> Self {
        Self { users: BTreeSet::new(), tiers: BTreeSet::new(), roles: BTreeSet::new(), count: 1, own: true }
    }
}

impl Deciders {
    /// Whether `who` may decide about a run of `owner`. Administrators may where nobody is named.
    pub fn allow(&self, who: &Principal, owner: &Principal) -> bool {
        if who.is_same_user(owner) {
            return self.own;
        }
        let names = |names: &BTreeSet<String>, name: &Option<String>| {
            name.as_ref().is_some_and(|name| names.contains(name))
        };
        let nobody_is_named = self.users.is_empty() && self.tiers.is_empty() && self.roles.is_empty();
        names(&self.users, &who.user_id)
            || names(&self.tiers, &who.tier)
            || names(&self.roles, &who.role)
            || (nobody_is_named && who.role.as_deref() == Some("admin"))
    }
}

/// What somebody decided about a wait, or its expiry did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// Who decided; absent when the wait expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// At what time that was decided.
    pub at: Millis,
    /// [`ShownCall::digest`] of what they were shown.
    pub shown: String,
    /// What becomes of the call.
    pub verdict: Verdict,
    /// Tells the decision from another one that is alike. Journals take an event that they have already for
    /// the caller's own, and of two equal decisions at the same millisecond only one is. Empty when no person
    /// decided, and in older journals.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub nonce: String,
}

/// What may be decided about a wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "decision")]
pub enum Verdict {
    /// The call may be made as it was shown.
    Approve,
    /// The call is not made, and the model is told so.
    Reject {
        /// What the model is told besides.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The call is made with these arguments, which are the decider's and not the model's.
    Edit {
        /// A JSON object that the tool's schema allows.
        arguments: Value,
    },
    /// The call is not made: this is its answer.
    Answer {
        /// Any JSON. A text is given to the model as it is.
        answer: Value,
    },
    /// The child run has ended, which nobody decides.
    Ended {
        /// What the model is told: the answer of the run, or why there is none.
        answer: String,
        /// Whether it has an answer.
        is_answered: bool,
        /// What it cost, which its parent pays.
        usage: Usage,
    },
}

impl Verdict {
    /// As it stands in JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject { .. } => "reject",
            Self::Edit { .. } => "edit",
            Self::Answer { .. } => "answer",
            Self::Ended { .. } => "ended",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{shown, wait};

    #[test]
    fn equal_calls_have_one_digest_and_others_have_others() {
        let call = shown(json!({ "to": "ada", "euros": 5 }));
        assert_eq!(call.digest(), shown(json!({ "euros": 5, "to": "ada" })).digest());
        for other in [
            shown(json!({ "to": "ada", "euros": 6 })),
            ShownCall { tool: "gift".into(), ..call.clone() },
            ShownCall { component: "bank@sha256:9".into(), ..call.clone() },
            ShownCall { policy: "sha256:9".into(), ..call.clone() },
        ] {
            assert_ne!(call.digest(), other.digest(), "{other:?}");
        }
    }

    #[test]
    fn an_id_names_the_job_the_run_and_the_call() {
        let place = |nested| CallPlace { index: 2, nested };
        let id = Wait::new_id("repeat:x", "run_1", 1, place(None));
        assert_eq!(id, "repeat:x:37ddff8e-1.2");
        assert_eq!(Wait::new_id("7", "run_1", 3, place(Some(4))), "7:37ddff8e-3.2.4");
        assert_ne!(id, Wait::new_id("repeat:x", "run_2", 1, place(None)), "the run of a retry");
        // Ids of before have no run.
        for id in [id.as_str(), "repeat:x:1.2"] {
            let anew = format!("{id}~1");
            assert_eq!((Wait::job_of(&anew), Wait::first_id(&anew)), (Some("repeat:x"), id));
        }
    }

    #[test]
    fn of_several_waits_each_kind_is_known_and_when_the_first_began() {
        let of = |kind, began_at| Wait { began_at, ..wait("1:1.0", kind, shown(json!({}))) };
        let waits = [of(WaitKind::Child, 7), of(WaitKind::Approval, 5), of(WaitKind::Child, 6)];
        let open = OpenKinds::of(&waits);
        assert_eq!(open.kinds().collect::<Vec<_>>(), [WaitKind::Approval, WaitKind::Child]);
        assert_eq!((open.since, OpenKinds::of([]).kinds().count()), (5, 0));
        let all = OpenKinds { bits: OpenKinds::COMBINATIONS, since: 0 };
        assert_eq!(all.kinds().collect::<Vec<_>>(), WaitKind::ALL);
    }

    #[test]
    fn who_may_decide() {
        let (owner, other) = (Principal::user("ada"), Principal::user("bob"));
        let admin = Principal { role: Some("admin".into()), ..Principal::user("eve") };
        let by_default = Deciders::default();
        let not_own = Deciders { own: false, ..Deciders::default() };
        let named = Deciders { users: ["bob".to_owned()].into(), own: false, ..Deciders::default() };
        let roles = Deciders { roles: ["auditor".to_owned()].into(), ..Deciders::default() };
        for (deciders, may) in [
            (by_default, [true, false, true]),
            (not_own, [false, false, true]),
            (named, [false, true, false]),
            (roles, [true, false, false]),
        ] {
            let found = [&owner, &other, &admin].map(|who| deciders.allow(who, &owner));
            assert_eq!(found, may, "{deciders:?}");
        }
        assert!(
            !Deciders::default().allow(&Principal::default(), &Principal::default()),
            "nobody is no owner"
        );
    }
}
