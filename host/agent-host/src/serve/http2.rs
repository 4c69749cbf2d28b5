//! HTTP/2 on the socket of HTTP/1, for clients that know beforehand that it is spoken (h2c with prior
//! knowledge): proxies, meshes, SDKs that keep one connection. Which of the two a connection speaks is told
//! by its first bytes.
//!
//! The streams of a connection are carried by the connection's own task, so what bounds and ends a connection
//! bounds and ends them. HTTP/1 has one request at a time, so [`MOST_BUFFERED`] is the only bound it needs
//! beside. HTTP/2 needs these:
//!
//! | a client that | is bounded by |
//! |---|---|
//! | opens streams | [`MOST_STREAMS`], and the permits behind the router |
//! | opens streams and resets them (CVE-2023-44487) | h2's bound on those reset before we saw them, and `Answers::flooded` on those after |
//! | provokes resets of ours | [`MOST_PROVOKED_RESETS`] |
//! | sends large or endless heads | [`MOST_HEADER_BYTES`], decoded; the frames that continue one are bounded by h2 |
//! | sends bodies that nobody reads | the windows; they are reset after a while (`unread_body.rs`) |
//! | takes nothing of an answer | [`Taking::stalls`], which resets the stream, and the socket's write timeout |
//! | is gone without a word | a ping each `Timeouts::unread`, answered within as long |
//! | asks for nothing more | `Timeouts::next_request`, then `GOAWAY` |

use parking_lot::Mutex;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use hyper::Request;
use hyper::header::{HOST, HeaderValue};
use hyper::rt::Executor;
use hyper_util::rt::TokioTimer;
use hyper_util::server::conn::auto;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::timeouts::Timeouts;

/// Most streams of a connection at once.
const MOST_STREAMS: u32 = 128;

/// Most streams that a client has reset and that we have not looked at: one more is `GOAWAY` with
/// `ENHANCE_YOUR_CALM`.
const MOST_PENDING_RESETS: usize = 20;

/// Most streams that we have reset because of the client's errors, over the life of a connection.
const MOST_PROVOKED_RESETS: usize = 256;

/// Most bytes of a request's head, decoded, each header counted with 32 bytes more.
const MOST_HEADER_BYTES: u32 = 64 << 10;

/// Most bytes of a request's head over HTTP/1: a larger one is a 431. hyper's own bound is 408 KiB
/// (`DEFAULT_MAX_BUFFER_SIZE`), which a client that never ends a head makes a connection hold; it takes none
/// below 8 KiB. The bound is that of the connection's buffers: a body is read through the same one, part by
/// part, and an answer of many parts is sent when as many bytes of it wait.
const MOST_BUFFERED: usize = 64 << 10;

/// How much of a body a client may send before it is read, of one stream and of all of a connection.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// How much of an answer is held for a client that does not take it, of each stream.
const SEND_BUFFER: usize = 64 << 10;

/// A request that is carried.
type Carried = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The two protocols, within their bounds.
pub(super) fn builder(streams: Streams, times: Timeouts) -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(streams);
    // The timeout runs from the last answer, so it is the one for idle connections as well.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(times.next_request)
        .max_buf_size(MOST_BUFFERED);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MOST_STREAMS)
        .max_pending_accept_reset_streams(MOST_PENDING_RESETS)
        .max_local_error_reset_streams(MOST_PROVOKED_RESETS)
        .max_header_list_size(MOST_HEADER_BYTES)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(times.unread)
        .keep_alive_timeout(times.unread);
    builder
}

/// Takes the streams of a connection from hyper. Clones are of the same connection.
#[derive(Clone)]
pub(super) struct Streams {
    begun: mpsc::UnboundedSender<Carried>,
    /// The answer of the request that was begun last. hyper hands a stream over right after it has asked for
    /// its answer.
    taking: Arc<Mutex<Option<Taking>>>,
    stall: Duration,
}

/// The streams that are to be carried.
pub(super) struct Begun(mpsc::UnboundedReceiver<Carried>);

impl Streams {
    /// A stream whose client takes nothing of its answer for `stall` is reset.
    pub(super) fn new(stall: Duration) -> (Self, Begun) {
        let (begun, received) = mpsc::unbounded_channel();
        (Self { begun, taking: Arc::default(), stall }, Begun(received))
    }

    /// A request has come, whose stream is handed over next.
    pub(super) fn begin(&self) -> Taking {
        let taking = Taking::default();
        *self.taking.lock() = Some(taking.clone());
        taking
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let taking = self.taking.lock().take();
        let stall = self.stall;
        let carried = async move {
            let stalls = async {
                match taking {
                    Some(taking) => taking.stalls(stall).await,
                    None => pending().await,
                }
            };
            // Dropping a stream resets it.
            tokio::select! {
                biased;
                () = stream => {}
                () = stalls => tracing::debug!("a client took nothing of its answer: the stream was reset"),
            }
        };
        // Sending fails only when the connection has ended.
        let _ended = self.begun.send(Box::pin(carried));
    }
}

impl Begun {
    /// Carries the streams; never ends. Polled by the task of the connection.
    pub(super) async fn carry(mut self) {
        let mut streams = FuturesUnordered::new();
        let mut is_open = true;
        poll_fn::<(), _>(|cx| {
            while is_open && let Poll::Ready(begun) = self.0.poll_recv(cx) {
                match begun {
                    Some(stream) => streams.push(stream),
                    None => is_open = false,
                }
            }
            while let Poll::Ready(Some(())) = streams.poll_next_unpin(cx) {}
            Poll::Pending
        })
        .await;
    }
}

/// Names the host of a request in the header that HTTP/1 has for it: nobody further in has to tell the two
/// apart. The target counts before a header (RFC 9113, section 8.3.1).
pub(super) fn name_host<B>(request: &mut Request<B>) {
    if let Some(authority) = request.uri().authority()
        && let Ok(host) = HeaderValue::try_from(authority.as_str())
    {
        request.headers_mut().insert(HOST, host);
    }
}

/// How an answer is taken. Clones are of the same answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Taking(Arc<Parts>);

#[derive(Debug, Default)]
struct Parts {
    given: AtomicU64,
    /// A part was given, and the next one was not asked for.
    is_taken: AtomicBool,
}

impl Taking {
    /// There is room for the next part.
    pub(super) fn asked(&self) {
        self.0.is_taken.store(false, Ordering::Relaxed);
    }

    /// A part was handed over.
    pub(super) fn given(&self) {
        self.0.given.fetch_add(1, Ordering::Relaxed);
        self.0.is_taken.store(true, Ordering::Relaxed);
    }

    /// Resolves when the client had no room for the next part for `limit`, or up to twice that. An answer
    /// that has nothing more to give waits for us, not for the client.
    async fn stalls(&self, limit: Duration) {
        loop {
            let before = self.0.given.load(Ordering::Relaxed);
            sleep(limit).await;
            if self.0.is_taken.load(Ordering::Relaxed) && self.0.given.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::time::timeout;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    async fn waits(stalls: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        timeout(3 * LIMIT, stalls).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_answer_that_is_not_taken_stalls() {
        let taking = Taking::default();
        let mut stalls = Box::pin(taking.stalls(LIMIT));
        assert!(waits(&mut stalls).await, "it has not begun");
        taking.asked();
        taking.given();
        taking.asked();
        assert!(waits(&mut stalls).await, "nothing more is there to be taken");
        taking.given();
        assert!(!waits(&mut stalls).await, "nobody asks for more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_stalls_is_dropped_and_the_others_go_on() {
        let (streams, begun) = Streams::new(LIMIT);
        let (mut carrying, (stalled, dropped)) =
            (Box::pin(begun.carry()), tokio::sync::oneshot::channel::<()>());
        streams.begin().given();
        streams.execute(async move {
            let _held = stalled;
            pending().await
        });
        let (ended, end) = tokio::sync::oneshot::channel();
        let _other = streams.begin();
        streams.execute(async move {
            sleep(5 * LIMIT).await;
            let _received = ended.send(());
        });
        assert!(carrying.as_mut().now_or_never().is_none());
        tokio::select! {
            () = carrying.as_mut() => panic!("it never ends"),
            dropped = dropped => assert!(dropped.is_err(), "it was dropped"),
        }
        tokio::select! {
            () = carrying => panic!("it never ends"),
            end = end => assert!(end.is_ok(), "it was carried to its end"),
        }
    }
}
