//! The outbox of webhooks, and their receivers.

use std::time::{Duration, SystemTime};

use agent_core::ports::webhooks::{ClaimBounds, NewWebhook, WebhookMessage, WebhookReply};
use agent_core::ports::{WebhookError, WebhookOutbox, WebhookSender};
use agent_core::testing::TestOutbox;
use agent_core::words::{Webhook, WebhookState};
use boxed_async::boxed_async;

use super::Ported;
use crate::gate::{Call, Gate};
use crate::mutation::Mutation;

impl Ported<TestOutbox> {
    /// Takes note of a webhook that counts as submitted now although its job is there already.
    fn armed(&self, job_id: &str) {
        let world = &self.gate.world;
        if world.queue.find(job_id).is_some() {
            world.promises.lock().armed.insert(job_id.to_owned());
        }
    }
}

#[boxed_async]
impl WebhookOutbox for Ported<TestOutbox> {
    async fn put(&self, webhook: &NewWebhook<'_>) -> Result<(), WebhookError> {
        let NewWebhook { job_id, user_id, url } = *webhook;
        let owned = [job_id, user_id, url].map(str::to_owned);
        let this = self.clone();
        let put = async move {
            let [job_id, user_id, url] = &owned;
            this.armed(job_id);
            this.store.put(&NewWebhook { job_id, user_id, url }).await
        };
        self.gate.write(Call::step("webhook.put", job_id), WebhookError, put).await
    }

    async fn claim(
        &self,
        owner: &str,
        lease: Duration,
        bounds: ClaimBounds,
    ) -> Result<Vec<Webhook>, WebhookError> {
        let (this, owner) = (self.clone(), owner.to_owned());
        let claim = async move {
            let claimed = this.store.claim(&owner, lease, bounds).await?;
            if this.gate.world.has(Mutation::WebhookDropped) {
                for webhook in &claimed {
                    let delivered = Webhook { state: WebhookState::Delivered, ..webhook.clone() };
                    this.store.settle(&owner, &delivered, None).await?;
                }
                return Ok(Vec::new());
            }
            Ok(claimed)
        };
        self.gate.write(Call::poll("webhook.claim"), WebhookError, claim).await
    }

    async fn settle(
        &self,
        owner: &str,
        webhook: &Webhook,
        next: Option<Duration>,
    ) -> Result<bool, WebhookError> {
        let (store, owner, told) = (self.store.clone(), owner.to_owned(), webhook.clone());
        let settle = async move { store.settle(&owner, &told, next).await };
        let settled =
            self.gate.write(Call::step("webhook.settle", &webhook.job_id), WebhookError, settle).await;
        if settled == Ok(false) {
            self.gate.world.reached("a webhook was somebody else's by then");
        }
        settled
    }

    async fn read(&self, job_id: &str) -> Result<Option<Webhook>, WebhookError> {
        self.gate.pass(Call::step("webhook.read", job_id), WebhookError, self.store.read(job_id)).await
    }

    async fn replay(&self, job_id: &str) -> Result<bool, WebhookError> {
        self.gate.pass(Call::step("webhook.replay", job_id), WebhookError, self.store.replay(job_id)).await
    }

    async fn rearm(&self, job_id: &str, not_before: SystemTime) -> Result<bool, WebhookError> {
        let (this, id) = (self.clone(), job_id.to_owned());
        let rearm = async move {
            if this.gate.world.has(Mutation::WebhookNotArmed) {
                return Ok(true);
            }
            this.armed(&id);
            this.store.rearm(&id, not_before).await
        };
        self.gate.write(Call::step("webhook.rearm", job_id), WebhookError, rearm).await
    }
}

/// A receiver that confirms what reaches it.
pub struct Receiver(pub Gate);

#[boxed_async]
impl WebhookSender for Receiver {
    fn check(&self, _url: &str) -> Result<(), &'static str> {
        Ok(())
    }

    async fn send(&self, _user_id: &str, _url: &str, message: &WebhookMessage) -> WebhookReply {
        let call = Call::step("webhook.send", &message.id);
        let (world, received) = (self.0.world.clone(), message.clone());
        let sent = async move {
            world.promises.lock().delivered(&received);
            Ok(())
        };
        let outcome = self.0.write(call, |error| error, sent).await.map(|()| 200);
        WebhookReply { outcome, retry_after: None }
    }

    fn public_key(&self) -> &str {
        "whpk_simulated"
    }
}
