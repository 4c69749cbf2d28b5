//! People who decide what waits. Two of them look at one list.

use agent_core::words::{Principal, Verdict, Wait, WaitKind};
use futures::FutureExt as _;
use futures::future::join_all;
use http::StatusCode;
use run_service::invariants::ONE_DECISION;
use run_service::waits::{JobWait, NotDecided, ProposedDecision};
use serde_json::{Value, json};

use super::Client;
use super::http::ClientRequest;

impl Client {
    /// Decides whatever waits, perhaps over HTTP. Never ends.
    pub async fn decide_for_ever(mut self, is_over_http: bool) {
        if is_over_http {
            return self.decide_over_http().await;
        }
        let name = self.name.clone();
        let admin = Principal { role: Some("admin".into()), ..Principal::user(name) };
        let mut unsure = Vec::new();
        loop {
            self.pause(2_000).await;
            for wait in std::mem::take(&mut unsure) {
                self.decide(&admin, wait).await;
            }
            let caller = admin.clone();
            let listed = self.ask("client list waits", |service| {
                async move { service.waits.list_decidable(&caller, 20, None).await }.boxed()
            });
            let Some(Ok(page)) = listed.await else { continue };
            for wait in page.waits {
                if self.random.u32(0..4) > 0 {
                    unsure.extend(self.decide(&admin, wait).await);
                }
            }
        }
    }

    fn verdict(&mut self, kind: WaitKind) -> Verdict {
        match self.random.u32(0..6) {
            roll if kind == WaitKind::Question && roll > 0 => Verdict::Answer { answer: json!(self.name) },
            0 => Verdict::Reject { reason: None },
            1 => Verdict::Edit { arguments: json!({ "plan": 0, "by": self.name }) },
            _ => Verdict::Approve,
        }
    }

    async fn decide_over_http(mut self) {
        let name = self.name.clone();
        loop {
            self.pause(2_000).await;
            let (replica, path) = (self.replica(), "/api/agent/waits?of=decidable&limit=20".to_owned());
            let asked = ClientRequest { role: Some("admin"), ..ClientRequest::get(path, &name) };
            let Some(answer) = self.send(replica, "client get waits", asked).await else { continue };
            // silent-ok: an error has no waits.
            let page: Value = serde_json::from_str(&answer.body).unwrap_or_default();
            for wait in page["data"].as_array().into_iter().flatten() {
                let (Some(id), Some(digest)) = (wait["waitId"].as_str(), wait["digest"].as_str()) else {
                    continue;
                };
                if self.random.u32(0..4) > 0 && wait["kind"] == "approval" {
                    self.post_decision(&name, id, digest).await;
                }
            }
        }
    }

    async fn post_decision(&mut self, name: &str, id: &str, digest: &str) {
        let (verdict, tag) = (self.verdict(WaitKind::Approval), format!("\"{digest}\""));
        let body = match &verdict {
            Verdict::Edit { arguments } => json!({ "decision": "edit", "arguments": arguments }),
            Verdict::Reject { .. } => json!({ "decision": "reject" }),
            _ => json!({ "decision": "approve" }),
        };
        let headers = [("if-match", &*tag)];
        let path = format!("/api/agent/waits/{id}/decision");
        let asked = || ClientRequest {
            role: Some("admin"),
            headers: &headers,
            ..ClientRequest::post(path.clone(), name, body.clone())
        };
        // Some click twice.
        let clicks = if self.random.u32(0..4) == 0 { 2 } else { 1 };
        let replicas: Vec<_> = (0..clicks).map(|_| self.replica()).collect();
        let clicks = replicas.iter().map(|replica| self.send(*replica, "client post decision", asked()));
        for answer in join_all(clicks).await.into_iter().flatten() {
            if answer.status == StatusCode::OK {
                self.world.reached("a wait was decided over HTTP");
                self.decided(id, verdict.clone());
            }
        }
    }

    /// Takes note of a decision that was acknowledged.
    fn decided(&mut self, wait: &str, verdict: Verdict) {
        let before = self.world.promises.lock().decisions.insert(wait.to_owned(), verdict);
        // A job that was forgotten or tried again begins under its id, and its waits are decided anew.
        let is_anew = self.world.has_begun_anew(Wait::job_of(wait).unwrap_or_default());
        self.world.holds(before.is_none() || is_anew, ONE_DECISION, || format!("{wait} twice"));
    }

    /// Decides about a wait, which comes back when nobody knows whether it is decided now.
    async fn decide(&mut self, admin: &Principal, wait: JobWait) -> Option<JobWait> {
        let verdict = self.verdict(wait.open.wait.kind);
        let shown = wait.open.wait.shown.digest();
        let proposed = ProposedDecision { by: admin.clone(), shown, verdict: verdict.clone() };
        let id = wait.id.clone();
        let decided = self
            .ask("client decide", |service| async move { service.waits.decide(&id, &proposed).await }.boxed())
            .await;
        match decided {
            Some(Ok(_)) => self.decided(&wait.id, verdict),
            Some(Err(NotDecided::Already(_))) => self.world.reached("a decision came second"),
            Some(Err(NotDecided::Void(_))) => self.world.reached("a call was shown anew"),
            None | Some(Err(NotDecided::Failed(_))) => return Some(wait),
            _ => {}
        }
        None
    }
}
