//! People who decide what waits. Two of them look at one list.

use agent_core::words::{Principal, Verdict};
use futures::FutureExt as _;
use run_service::invariants::ONE_DECISION;
use run_service::waits::{JobWait, NotDecided, ProposedDecision};
use serde_json::json;

use super::Client;

impl Client {
    /// Decides whatever waits. Never ends.
    pub async fn decide_for_ever(mut self) {
        let name = self.name.clone();
        let admin = Principal { role: Some("admin".into()), ..Principal::user(name) };
        loop {
            self.pause(2_000).await;
            let caller = admin.clone();
            let listed = self.ask("client list waits", |service| {
                async move { service.waits.list_decidable(&caller, 20, None).await }.boxed()
            });
            let Some(Ok(page)) = listed.await else { continue };
            for wait in page.waits {
                if self.random.u32(0..4) > 0 {
                    self.decide(&admin, wait).await;
                }
            }
        }
    }

    async fn decide(&mut self, admin: &Principal, wait: JobWait) {
        let verdict = match self.random.u32(0..6) {
            0 => Verdict::Reject { reason: None },
            1 => Verdict::Edit { arguments: json!({ "plan": 0, "by": self.name }) },
            _ => Verdict::Approve,
        };
        let shown = wait.open.wait.shown.digest();
        let proposed = ProposedDecision { by: admin.clone(), shown, verdict: verdict.clone() };
        let id = wait.id.clone();
        let decided = self
            .ask("client decide", |service| async move { service.waits.decide(&id, &proposed).await }.boxed())
            .await;
        match decided {
            Some(Ok(_)) => {
                let before = self.world.promises.lock().decisions.insert(wait.id.clone(), verdict);
                self.world.holds(before.is_none(), ONE_DECISION, || format!("{} twice", wait.id));
            }
            Some(Err(NotDecided::Already(_))) => self.world.reached("a decision came second"),
            Some(Err(NotDecided::Void(_))) => self.world.reached("a call was shown anew"),
            _ => {}
        }
    }
}
