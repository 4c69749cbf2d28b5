//! A tool's progress as notifications of the protocol (`notifications/progress`), for a client that named a
//! token.

use std::pin::pin;
use std::time::Duration;

use agent_core::words::ToolProgress;
use rmcp::model::{NumberOrString, ProgressNotificationParam, ProgressToken, RequestMetaObject};
use run_service::latest_progress::LatestProgress;
use tokio::time::timeout;

/// Longest token, in bytes: it is in every notification.
const TOKEN_BYTES: usize = 256;

/// How long an answer waits for the last notification, which a client may be too slow to take.
const LAST_NOTICE: Duration = Duration::from_secs(1);

/// By how much the value grows where the tool does not say by how much.
const LEAST_STEP: f64 = 1e-6;

/// The notifications of one call.
#[derive(Debug)]
pub(crate) struct ProgressNotices {
    token: ProgressToken,
    values: Values,
}

impl ProgressNotices {
    /// Notices for a client that asks for them in `meta`.
    pub(crate) fn asked_for(meta: &RequestMetaObject) -> Option<Self> {
        let token = meta.get_progress_token()?;
        let is_short = match &token.0 {
            NumberOrString::Number(_) => true,
            NumberOrString::String(text) => text.len() <= TOKEN_BYTES,
        };
        is_short.then(|| Self { token, values: Values::default() })
    }

    /// Waits for a call and notifies the client of its progress meanwhile, with `send`, which is done when a
    /// notification is on its way to the client. Each of them, the last one too, is sent before this returns,
    /// so none comes after the answer. A client that does not read holds no call up and reads the latest
    /// report when it goes on.
    pub(crate) async fn follow<T, S: Future<Output = ()>>(
        mut self,
        latest: &LatestProgress,
        call: impl Future<Output = T>,
        mut send: impl FnMut(ProgressNotificationParam) -> S,
    ) -> T {
        let mut call = pin!(call);
        let answer = loop {
            let progress = tokio::select! {
                biased;
                answer = &mut call => break answer,
                progress = latest.next() => progress,
            };
            let mut sent = pin!(send(self.notice(&progress)));
            tokio::select! {
                biased;
                answer = &mut call => {
                    in_time(sent).await;
                    break answer;
                }
                () = &mut sent => {}
            }
        };
        if let Some(last) = latest.take() {
            in_time(send(self.notice(&last))).await;
        }
        answer
    }

    fn notice(&mut self, progress: &ToolProgress) -> ProgressNotificationParam {
        let (value, total) = self.values.next(progress.fraction);
        let mut notice = ProgressNotificationParam::new(self.token.clone(), value);
        notice.total = total;
        if progress.message.is_empty() { notice } else { notice.with_message(&*progress.message) }
    }
}

/// Waits for a notification that the answer stands behind.
async fn in_time(sent: impl Future<Output = ()>) {
    // silent-ok: the client is about to read that the call has ended.
    let _ = timeout(LAST_NOTICE, sent).await;
}

/// The numbers of the notifications, each greater than the one before as the protocol has it, whatever the
/// tool says: shares of 1 when the first report has one, else how many reports there were.
#[derive(Debug, Default)]
struct Values {
    last: f64,
    has_total: Option<bool>,
}

impl Values {
    /// Value and total of the next one.
    fn next(&mut self, fraction: Option<f64>) -> (f64, Option<f64>) {
        let has_total = *self.has_total.get_or_insert(fraction.is_some());
        self.last = match (has_total, fraction) {
            (false, _) => self.last + 1.0,
            (true, Some(fraction)) if fraction > self.last => fraction,
            (true, _) => self.last + LEAST_STEP,
        };
        (self.last, has_total.then_some(1.0))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use agent_core::ports::ProgressSink as _;
    use tokio::time::sleep;

    use super::*;

    /// The values that a client was sent by when it was answered, which takes `send` for each. The call
    /// reports at its beginning and, 10 ms later, at its end.
    async fn sent_before_the_answer(send: Duration) -> Vec<f64> {
        let token = ProgressToken(NumberOrString::Number(1));
        let (notices, latest) =
            (ProgressNotices { token, values: Values::default() }, LatestProgress::default());
        let report = || latest.report(ToolProgress { message: "a step".into(), fraction: None });
        let sent = RefCell::new(Vec::new());
        let call = async {
            report();
            sleep(Duration::from_millis(10)).await;
            report();
        };
        let record = |notice: ProgressNotificationParam| {
            let sent = &sent;
            async move {
                sleep(send).await;
                sent.borrow_mut().push(notice.progress);
            }
        };
        notices.follow(&latest, call, record).await;
        sent.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn every_notification_is_on_its_way_before_the_answer() {
        for send in [Duration::ZERO, Duration::from_millis(15), LAST_NOTICE / 2] {
            assert_eq!(sent_before_the_answer(send).await, [1.0, 2.0], "{send:?}");
        }
        assert_eq!(sent_before_the_answer(LAST_NOTICE * 2).await, [0.0; 0], "a client that does not read");
    }

    #[test]
    fn values_grow_whatever_a_tool_reports() {
        let values = |reports: &[Option<f64>]| {
            let mut values = Values::default();
            reports.iter().map(|report| values.next(*report)).collect::<Vec<_>>()
        };
        let whole = Some(1.0);
        assert_eq!(values(&[Some(0.25), Some(1.0)]), [(0.25, whole), (1.0, whole)]);
        assert_eq!(values(&[None, Some(0.5), None]), [(1.0, None), (2.0, None), (3.0, None)]);
        for back in [Some(0.0), Some(0.5), None] {
            let told = values(&[Some(0.5), back, Some(0.75)]);
            assert!(told[0].0 < told[1].0 && told[1].0 < 0.6 && told[2] == (0.75, whole), "{told:?}");
        }
        assert!(values(&[Some(0.0)])[0].0 > 0.0, "the first one says something as well");
    }
}
