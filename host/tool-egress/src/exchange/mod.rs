//! One request and its response, never on the guests' runtime.
//!
//! [`send`] is called on any runtime: it waits for its turn, begins the exchange, and awaits the head of the
//! response. Where guests compute, the exchange is a task on the service's runtime. Elsewhere `send` polls it
//! ([`poll_beside`]), which spares two changes of threads, and what is left of it becomes such a task. The
//! exchange owns the connection; when the caller drops what it waits for, it ends and the connection is
//! closed. A connection goes back to the pool before the guest sees the end of the body, so that its next
//! request finds it.

pub(crate) mod answered;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use outbound::{Connection, Destination, OwnedTask};
use tokio::runtime::Handle;
use tokio::sync::oneshot::error::RecvError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::allowed_hosts::Times;
use crate::answers::recording::{BoundedBody, Recording};
use crate::answers::{HttpMode, HttpRecorder};
use crate::body::{Accounts, BodyWatch, RequestBody, ResponseBody};
use crate::error::EgressError;
use crate::request::Prepared;
use crate::request::headers;
use crate::secret_scan::ScanStream;
use crate::state::{CallState, Permits};

/// Chunks of a response that wait for the guest, beside the one that it reads.
const WAITING_CHUNKS: usize = 1;

/// How often an exchange is looked at once the head is there. A body in one piece takes four turns: it is
/// asked for, it comes, it ends, and its connection is ready for another request.
const TURNS: usize = 6;

/// One request and its response.
struct Exchange {
    call: Arc<CallState>,
    to: Destination,
    times: Times,
    /// Names of the secrets in the request, which the server may repeat.
    secrets: Vec<String>,
    accounts: Accounts,
    /// When the time of the whole exchange is over.
    until: Instant,
    /// Where the host records what its tools ask and are answered.
    recording: Option<Recording>,
    /// Held while anything is sent or received.
    _permits: Permits,
}

/// Where the response goes.
struct Reply {
    head: oneshot::Sender<Result<Response<()>, EgressError>>,
    chunks: Chunks,
    /// Set when the body is complete.
    whole: Arc<AtomicBool>,
}

type Chunks = mpsc::Sender<Result<Bytes, EgressError>>;

/// Why a request got no response on a connection.
enum Unanswered {
    /// Nothing of it was sent.
    Unsent(Box<Request<RequestBody>>),
    Failed(EgressError),
}

/// Why a body was not handed on to its end.
enum Unread {
    /// Whoever reads it has gone.
    ReaderGone,
    Failed(EgressError),
}

/// Sends a request that was prepared.
pub(crate) async fn send<B>(
    call: &Arc<CallState>,
    prepared: Prepared<B>,
) -> Result<Response<ResponseBody>, EgressError>
where
    B: Body<Data = Bytes> + Send + 'static,
{
    let permits = call.permits(prepared.target.origin.host.as_str()).await?;
    let row = call.ledger.begun(&prepared.target.origin);
    let accounts = Accounts { budget: call.budget.clone(), ledger: call.ledger.clone(), row };
    let (mut body, watch) =
        RequestBody::new(prepared.body, prepared.length, call.grant.scanner().stream(), accounts.clone());
    let recording = recorder(call).zip(prepared.record).map(|(recorder, request)| {
        let sent = BoundedBody::default();
        body.record(sent.clone());
        if prepared.length.is_none() && [Method::GET, Method::HEAD].contains(&prepared.method) {
            // Sent without a body, which is not even asked for one then.
            sent.end();
        }
        Recording::new(recorder, call.name.clone(), request, sent)
    });
    let exchange = Exchange {
        call: call.clone(),
        to: Destination {
            owner: call.grant.digest.clone(),
            origin: prepared.target.origin,
            reach: prepared.reach,
        },
        times: prepared.times,
        secrets: prepared.secrets,
        accounts,
        recording,
        until: call.budget.deadline().min(Instant::now() + prepared.times.total),
        _permits: permits,
    };
    let mut request = Request::new(body);
    *request.method_mut() = prepared.method;
    *request.uri_mut() = prepared.uri;
    *request.headers_mut() = prepared.headers;
    *request.version_mut() = Version::HTTP_11;
    call.ledger.injected(&exchange.secrets);

    let (head, response) = oneshot::channel();
    let (chunks, waiting_chunks) = mpsc::channel(WAITING_CHUNKS);
    let whole = Arc::new(AtomicBool::new(false));
    let reply = Reply { head, chunks, whole: whole.clone() };
    let mut ended = call.ended.clone();
    let exchange = async move {
        tokio::select! {
            biased;
            _dropped = ended.changed() => {}
            () = exchange.run(request, watch, reply) => {}
        }
    };
    let (answered, task) = match call.egress.exchanges_here() {
        true => poll_beside(&call.egress.runtime, Box::pin(exchange), response).await,
        false => {
            let task = OwnedTask::begin(&call.egress.runtime, exchange);
            (response.await, Some(task))
        }
    };
    match answered {
        Ok(response) => Ok(response?.map(|()| ResponseBody::new(waiting_chunks, whole, task))),
        Err(_dropped) if call.ended.has_changed().is_err() => Err(EgressError::CallEnded),
        Err(_dropped) => Err(EgressError::Host("the task of the request ended early".to_owned())),
    }
}

/// Polls an exchange until the head of its response is there, and a little longer: most bodies come with
/// their heads. A body that does not must neither wait until the guest reads it, nor keep the guest from
/// sending the rest of its request: what is left of the exchange becomes a task.
async fn poll_beside<T>(
    runtime: &Handle,
    mut exchange: Pin<Box<impl Future<Output = ()> + Send + 'static>>,
    mut response: oneshot::Receiver<T>,
) -> (Result<T, RecvError>, Option<OwnedTask>) {
    let mut has_ended = false;
    let answered = poll_fn(|context| {
        has_ended = has_ended || exchange.as_mut().poll(context).is_ready();
        Pin::new(&mut response).poll(context)
    });
    let answered = answered.await;
    for _ in 0..TURNS {
        if has_ended || answered.is_err() {
            break;
        }
        // The connection hands on what it has read when it has its turn.
        tokio::task::yield_now().await;
        has_ended = futures::poll!(&mut exchange).is_ready();
    }
    let task = (!has_ended).then(|| OwnedTask::begin(runtime, exchange));
    (answered, task)
}

/// Who is told of the exchange.
fn recorder(call: &CallState) -> Option<Arc<dyn HttpRecorder>> {
    match &call.egress.http {
        HttpMode::Network { recorder } => recorder.clone(),
        HttpMode::Answers(_) => None,
    }
}

impl Exchange {
    async fn run(self, request: Request<RequestBody>, mut watch: BodyWatch, reply: Reply) {
        let Reply { head: head_to, chunks, whole } = reply;
        let responded = self.in_time(async {
            let (response, connection) = self.respond(request, &mut watch).await?;
            let head = self.head(&response)?;
            Ok((head, response.into_body(), connection))
        });
        let (head, body, connection) = match responded.await {
            Ok(responded) => responded,
            Err(error) => {
                self.count(&error);
                // silent-ok: whoever asked has gone.
                let _ = head_to.send(Err(error));
                return;
            }
        };
        if head_to.send(Ok(head)).is_err() {
            return;
        }
        let mut scan = self.call.grant.scanner().stream();
        let handed_on = self.in_time(async {
            match self.hand_on(body, &watch, &mut scan, &chunks).await {
                Err(Unread::Failed(error)) => Err(error),
                Err(Unread::ReaderGone) => Ok(false),
                Ok(()) => Ok(true),
            }
        });
        match handed_on.await {
            Ok(false) => {}
            Ok(true) => self.finish(connection, scan, chunks, &whole).await,
            Err(error) => {
                self.count(&error);
                self.call.ledger.redacted(scan.matches());
                drop(connection);
                drop(self);
                // silent-ok: whoever reads has gone.
                let _ = chunks.send(Err(error)).await;
            }
        }
    }

    /// Ends it when its time is over.
    async fn in_time<T>(&self, work: impl Future<Output = Result<T, EgressError>>) -> Result<T, EgressError> {
        match tokio::time::timeout_at(self.until, work).await {
            Ok(done) => done,
            Err(_elapsed) if self.until < self.call.budget.deadline() => {
                Err(EgressError::TotalTimeout { host: self.host(), within: self.times.total })
            }
            Err(_elapsed) => Err(EgressError::Deadline(self.host())),
        }
    }

    /// Sends the request on a connection that waits, or on a new one.
    async fn respond(
        &self,
        mut request: Request<RequestBody>,
        watch: &mut BodyWatch,
    ) -> Result<(Response<Incoming>, Connection<RequestBody>), EgressError> {
        let dialer = &self.call.egress.dialer;
        if let Some(connection) = dialer.kept(&self.to) {
            let again = self.again(&request);
            match self.respond_on(connection, request, watch).await {
                Ok(responded) => return Ok(responded),
                // The server closed it while it waited.
                Err(Unanswered::Unsent(unsent)) => request = *unsent,
                // Or at the moment when the request went out.
                Err(Unanswered::Failed(EgressError::Terminated { host })) => match again {
                    Some(again) => (request, *watch) = again,
                    None => return Err(EgressError::Terminated { host }),
                },
                Err(Unanswered::Failed(error)) => return Err(error),
            }
        }
        let connection = dialer.connect(&self.to, self.times.resolve, self.times.connect).await;
        let connection = connection.map_err(|why| EgressError::Unreachable { host: self.host(), why })?;
        match self.respond_on(connection, request, watch).await {
            Ok(responded) => Ok(responded),
            Err(Unanswered::Failed(error)) => Err(error),
            Err(Unanswered::Unsent(_)) => Err(EgressError::Terminated { host: self.host() }),
        }
    }

    /// The request once more, if the server may get it twice: RFC 9110, 9.2.2, and nothing of a guest's body.
    fn again(&self, request: &Request<RequestBody>) -> Option<(Request<RequestBody>, BodyWatch)> {
        let safe = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
        if !safe || !request.body().is_end_stream() {
            return None;
        }
        let scan = self.call.grant.scanner().stream();
        let (body, watch) = RequestBody::new(Empty::new(), None, scan, self.accounts.clone());
        let mut again = Request::new(body);
        *again.method_mut() = request.method().clone();
        *again.uri_mut() = request.uri().clone();
        *again.headers_mut() = request.headers().clone();
        Some((again, watch))
    }

    async fn respond_on(
        &self,
        mut connection: Connection<RequestBody>,
        request: Request<RequestBody>,
        watch: &mut BodyWatch,
    ) -> Result<(Response<Incoming>, Connection<RequestBody>), Unanswered> {
        self.call.ledger.connected(self.accounts.row, connection.address.ip());
        let head_bytes = request.method().as_str().len()
            + request.uri().path_and_query().map_or(0, |asked| asked.as_str().len())
            + headers::bytes_of(request.headers());
        self.accounts.spend_sent(head_bytes).map_err(Unanswered::Failed)?;
        connection.bound_reading(self.accounts.budget.most_on_connection());
        let BodyWatch { sent, failure } = watch;
        let too_late = async {
            // The sender of `sent` is dropped with the body.
            let _sent = sent.await;
            tokio::time::sleep(self.times.first_byte).await;
        };
        let answered = {
            let mut sending = pin!(connection.sender.try_send_request(request));
            tokio::select! {
                biased;
                answered = &mut sending => Some(answered),
                () = too_late => None,
            }
        };
        match answered {
            Some(Ok(response)) => Ok((response, connection)),
            Some(Err(mut unsent)) => Err(match (failure.get(), unsent.take_message()) {
                (Some(failure), _) => Unanswered::Failed(failure.clone()),
                (None, Some(request)) => Unanswered::Unsent(Box::new(request)),
                (None, None) => Unanswered::Failed(self.http_error(unsent.error(), false)),
            }),
            None => {
                let within = self.times.first_byte;
                Err(Unanswered::Failed(EgressError::FirstByteTimeout { host: self.host(), within }))
            }
        }
    }

    /// The head as the guest gets it, if the response is one that is handed on.
    fn head(&self, response: &Response<Incoming>) -> Result<Response<()>, EgressError> {
        let (scanner, fields) = (self.call.grant.scanner(), response.headers());
        self.accounts.spend_received(headers::bytes_of(fields))?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(EgressError::Upgrade { host: self.host() });
        }
        headers::check_coding(fields, self.to.origin.host.as_str(), scanner)?;
        self.accounts.budget.expect(response.body().size_hint().lower())?;
        let rewritten = !scanner.is_empty() && !response.body().is_end_stream();
        let (scanned, replaced) = headers::for_response(fields, scanner, &self.secrets, rewritten);
        self.call.ledger.redacted(replaced.all);
        self.accounts.meet_secrets(replaced.unused)?;
        let mut head = Response::new(());
        *head.status_mut() = response.status();
        *head.headers_mut() = scanned;
        if let Some(recording) = &self.recording {
            recording.head(&head);
        }
        Ok(head)
    }

    /// Hands the body on, but for what the scan holds back at its end.
    async fn hand_on(
        &self,
        mut body: Incoming,
        watch: &BodyWatch,
        scan: &mut ScanStream,
        chunks: &Chunks,
    ) -> Result<(), Unread> {
        let within = self.times.between_bytes;
        loop {
            let frame = match tokio::time::timeout(within, body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => return Ok(()),
                Ok(Some(Err(error))) => {
                    let failure = watch.failure.get().cloned();
                    return Err(Unread::Failed(failure.unwrap_or_else(|| self.http_error(&error, true))));
                }
                Err(_elapsed) => {
                    let timeout = EgressError::BetweenBytesTimeout { host: self.host(), within };
                    return Err(Unread::Failed(timeout));
                }
            };
            // Trailers are not handed on.
            let Ok(data) = frame.into_data() else { continue };
            self.accounts.spend_received(data.len()).map_err(Unread::Failed)?;
            let before = scan.matches_beside(&self.secrets);
            let scanned = scan.push(data);
            let met = scan.matches_beside(&self.secrets) - before;
            self.accounts.meet_secrets(met).map_err(Unread::Failed)?;
            if let Some(recording) = &self.recording {
                recording.received(&scanned);
            }
            if !scanned.is_empty() && chunks.send(Ok(scanned)).await.is_err() {
                return Err(Unread::ReaderGone);
            }
        }
    }

    /// Gives the connection back, and then ends the body.
    async fn finish(
        self,
        connection: Connection<RequestBody>,
        mut scan: ScanStream,
        chunks: Chunks,
        whole: &AtomicBool,
    ) {
        let before = scan.matches_beside(&self.secrets);
        let rest = scan.finish();
        self.call.ledger.redacted(scan.matches());
        if let Err(error) = self.accounts.meet_secrets(scan.matches_beside(&self.secrets) - before) {
            self.count(&error);
            drop(self);
            // silent-ok: whoever reads has gone.
            let _ = chunks.send(Err(error)).await;
            return;
        }
        self.call.egress.dialer.keep(self.to.clone(), connection).await;
        if let Some(recording) = &self.recording {
            recording.received(&rest);
            recording.ended();
        }
        // The next request of the call need not wait until the guest has read the rest.
        drop(self);
        whole.store(true, Ordering::Release);
        if !rest.is_empty() {
            // silent-ok: whoever reads has gone.
            let _ = chunks.send(Ok(rest)).await;
        }
    }

    fn host(&self) -> String {
        self.to.origin.host.as_str().to_owned()
    }

    fn count(&self, error: &EgressError) {
        if let Some(recording) = &self.recording {
            recording.failed(error.kind());
        }
        self.call.ledger.failed(self.accounts.row);
        if error.is_refusal() {
            self.call.ledger.refused(error);
        }
    }

    /// `begun` says that the head of the response was there.
    fn http_error(&self, error: &hyper::Error, begun: bool) -> EgressError {
        let host = self.host();
        if outbound::is_beyond_bound(error) {
            self.accounts.budget.bytes_spent()
        } else if error.is_parse_too_large() {
            EgressError::ResponseHeadTooLarge { host }
        } else if error.is_parse() {
            EgressError::Protocol { host, problem: error.to_string() }
        } else if begun {
            EgressError::Incomplete { host }
        } else {
            EgressError::Terminated { host }
        }
    }
}
