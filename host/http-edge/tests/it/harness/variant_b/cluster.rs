//! A cluster that answers what it is told to.

use parking_lot::Mutex;

use agent_core::ports::{Cluster, ClusterAnswer, ClusterError, Forwarded};
use boxed_async::boxed_async;

pub(crate) struct FakeCluster {
    answer: Result<ClusterAnswer, ClusterError>,
    asked: Mutex<Vec<(String, String, String)>>,
}

impl FakeCluster {
    pub(crate) fn answering(status: u16, content_type: Option<&str>, body: &str) -> Self {
        let content_type = content_type.map(|text| text.as_bytes().to_vec());
        let body = body.into();
        let answer = ClusterAnswer { status, content_type, content_encoding: None, retry_after: None, body };
        Self { answer: Ok(answer), asked: Mutex::default() }
    }

    /// Adds a `Content-Encoding` to the answer.
    pub(crate) fn coded(mut self, coding: &str) -> Self {
        if let Ok(answer) = &mut self.answer {
            answer.content_encoding = Some(coding.into());
        }
        self
    }

    /// Adds a `Retry-After` to the answer.
    pub(crate) fn after(mut self, retry_after: &str) -> Self {
        if let Ok(answer) = &mut self.answer {
            answer.retry_after = Some(retry_after.into());
        }
        self
    }

    pub(crate) fn unreachable() -> Self {
        Self { answer: Err(ClusterError("connection refused".into())), asked: Mutex::default() }
    }

    /// Query, authorization and request id of everything that was forwarded.
    pub(crate) fn asked(&self) -> Vec<(String, String, String)> {
        self.asked.lock().clone()
    }
}

#[boxed_async]
impl Cluster for FakeCluster {
    async fn forward(&self, query: Forwarded<'_>) -> Result<ClusterAnswer, ClusterError> {
        let authorization = String::from_utf8(query.authorization.to_vec()).unwrap();
        self.asked.lock().push((query.query.into(), authorization, query.request_id.into()));
        self.answer.clone()
    }
}
