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

    /// A cluster with something about its answer changed.
    pub(crate) fn but(mut self, change: impl FnOnce(&mut ClusterAnswer)) -> Self {
        self.answer.as_mut().map(change).unwrap();
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
