//! `wasi:http` 0.2, outgoing: requests go through `tool-egress`, under the policy's lines for the component.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use tool_egress::{Call, EgressError, ErrorKind};
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::p2::bindings::http::types::{HostOutgoingRequest, Method, OutgoingRequest};
use wasmtime_wasi_http::{Error, RequestOptions, WasiHttpCtx, WasiHttpHooks, WasiHttpView};

use super::imports::Imports;
use super::log::LogState;

pub(super) const IMPORTS: Imports = Imports::Packages(&["wasi:http"], "0.2.");

/// Most bytes of one set of headers that a guest may make: as many as are sent.
const FIELD_BYTES: usize = 16 << 10;

/// The interface whose functions are replaced, as the library names it.
const TYPES: &str = "wasi:http/types@0.2.12";

/// Longest method and longest authority of a request, in bytes. Methods of RFCs have up to 17; a host name
/// has up to 253. The library keeps whatever the guest may move to the host at once, megabytes for each of a
/// call's requests.
const METHOD_BYTES: usize = 64;
const AUTHORITY_BYTES: usize = 512;

/// Failed requests of one call that have a line in the log each; the others are counted.
const MOST_LOGGED: u32 = 8;

/// Largest chunk that a guest writes of a body at once, in bytes.
const CHUNK: usize = 64 << 10;

type Body = UnsyncBoxBody<Bytes, Error>;
type Ended = Box<dyn Future<Output = Result<(), Error>> + Send>;

/// State of `wasi:http` for one call. Made when the guest first asks for it, which most never do.
pub(crate) struct HttpState {
    requests: Option<Arc<Call>>,
    log: LogState,
    made: Option<Box<(WasiHttpCtx, Outgoing)>>,
}

/// Sends the requests of one call.
pub(super) struct Outgoing {
    /// Absent where nothing is granted: a component that imports `wasi:http` is not loaded then, so this is
    /// what is left when the grant was taken away since.
    call: Option<Arc<Call>>,
    log: LogState,
    /// Requests that failed.
    failures: Arc<AtomicU32>,
    /// Set when the guest has ended, before its resources are dropped.
    guest_ended: Arc<AtomicBool>,
}

/// The body that a guest sends. Where the guest ended, or was ended, before it finished the body, the library
/// ends it as if it were whole, and a server would act on half of it.
struct GuestBody {
    inner: Body,
    guest_ended: Arc<AtomicBool>,
}

pub(super) fn link<T: WasiHttpView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    let bounded = bound_texts(linker);
    linker.allow_shadowing(false);
    bounded
}

/// Puts setters in the place of the library's that refuse what is longer than a request may have.
fn bound_texts<T: WasiHttpView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    let mut types = linker.instance(TYPES)?;
    types.func_wrap(
        "[method]outgoing-request.set-method",
        |mut store, (request, method): (Resource<OutgoingRequest>, Method)| {
            if matches!(&method, Method::Other(name) if name.len() > METHOD_BYTES) {
                return Ok((Err(()),));
            }
            Ok((store.data_mut().http().set_method(request, method)?,))
        },
    )?;
    types.func_wrap(
        "[method]outgoing-request.set-authority",
        |mut store, (request, authority): (Resource<OutgoingRequest>, Option<String>)| {
            if authority.as_ref().is_some_and(|authority| authority.len() > AUTHORITY_BYTES) {
                return Ok((Err(()),));
            }
            Ok((store.data_mut().http().set_authority(request, authority)?,))
        },
    )
}

impl HttpState {
    /// Refusals are lines of `log`.
    pub(crate) fn new(requests: Option<Arc<Call>>, log: LogState) -> Self {
        Self { requests, log, made: None }
    }

    /// The view that `wasi:http` works with.
    pub(crate) fn view<'a>(
        &'a mut self,
        table: &'a mut wasmtime::component::ResourceTable,
    ) -> wasmtime_wasi_http::WasiHttpCtxView<'a> {
        let (requests, log) = (&self.requests, &self.log);
        let made = self.made.get_or_insert_with(|| {
            let mut ctx = WasiHttpCtx::new();
            ctx.set_field_size_limit(FIELD_BYTES);
            Box::new((ctx, Outgoing::new(requests.clone(), log.clone())))
        });
        wasmtime_wasi_http::WasiHttpCtxView { hooks: &mut made.1, table, ctx: &mut made.0 }
    }
}

impl Outgoing {
    fn new(call: Option<Arc<Call>>, log: LogState) -> Self {
        Self { call, log, failures: Arc::default(), guest_ended: Arc::default() }
    }

    /// Counts a failed request, and writes a line about it unless there were many: a guest may make them in a
    /// loop.
    fn reporter(&self) -> impl Fn(&str) + Send + use<> {
        let (log, failures) = (self.log.clone(), self.failures.clone());
        move |why| {
            if failures.fetch_add(1, Ordering::Relaxed) < MOST_LOGGED {
                log.write_host_line("warn", &format!("a request failed: {why}"), &[]);
            }
        }
    }
}

impl Drop for Outgoing {
    /// Says in the log what the call reached, however it ended.
    fn drop(&mut self) {
        self.guest_ended.store(true, Ordering::Release);
        let Some(call) = &self.call else { return };
        let receipt = call.receipt();
        if receipt.requests == 0 {
            return;
        }
        let hosts: Vec<_> = receipt.hosts.iter().map(|host| format!("{}:{}", host.host, host.port)).collect();
        let fields = [
            ("requests", receipt.requests.to_string()),
            ("hosts", hosts.join(",")),
            ("sent_bytes", receipt.sent_bytes.to_string()),
            ("received_bytes", receipt.received_bytes.to_string()),
            ("secrets", receipt.secrets.join(",")),
            ("redactions", receipt.redactions.to_string()),
            ("failures", self.failures.load(Ordering::Relaxed).to_string()),
        ];
        let fields = fields.map(|(key, value)| (key.to_owned(), value));
        self.log.write_host_line("info", "the call reached out", &fields);
    }
}

impl WasiHttpHooks for Outgoing {
    /// The way out sets it, from the URI that was checked.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        CHUNK
    }

    fn send_request(
        &mut self,
        request: Request<Body>,
        options: Option<RequestOptions>,
        _sent: Ended,
    ) -> Box<dyn Future<Output = Result<(Response<Body>, Ended), Error>> + Send> {
        let Some(call) = self.call.clone() else {
            self.reporter()("nothing is granted");
            return Box::new(std::future::ready(Err(Error::HttpRequestDenied)));
        };
        let options = options.unwrap_or_default();
        let times = call.times().shortened(
            options.connect_timeout,
            options.first_byte_timeout,
            options.between_bytes_timeout,
        );
        let guest_ended = self.guest_ended.clone();
        let request = request.map(|inner| GuestBody { inner, guest_ended });
        let (response, report) = (call.send(request, times), self.reporter());
        Box::new(async move {
            let response = response.await.map_err(|error| {
                report(&error.log_text());
                wasi_error(&error)
            })?;
            let ended: Ended = Box::new(std::future::ready(Ok(())));
            Ok((response.map(|body| body.map_err(|error| wasi_error(&error)).boxed_unsync()), ended))
        })
    }
}

impl http_body::Body for GuestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        if frame.is_none() && self.guest_ended.load(Ordering::Acquire) {
            return Poll::Ready(Some(Err(Error::HttpProtocolError)));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.inner.size_hint()
    }
}

/// The guest is told the kind, and in words why it was refused.
fn wasi_error(error: &EgressError) -> Error {
    match error.kind() {
        // The one kind of an unsent request that has room for words.
        ErrorKind::HttpRequestDenied | ErrorKind::DestinationIpProhibited | ErrorKind::ConfigurationError => {
            Error::InternalError(Some(error.to_string()))
        }
        ErrorKind::HttpRequestUriInvalid => Error::HttpRequestUriInvalid,
        ErrorKind::HttpRequestMethodInvalid => Error::HttpRequestMethodInvalid,
        ErrorKind::HttpRequestUriTooLong => Error::HttpRequestUriTooLong,
        ErrorKind::HttpRequestHeaderSectionSize => Error::HttpRequestHeaderSectionSize(None),
        ErrorKind::HttpRequestBodySize => Error::HttpRequestBodySize(None),
        ErrorKind::ConnectionLimitReached => Error::ConnectionLimitReached,
        ErrorKind::HttpResponseBodySize => Error::HttpResponseBodySize(None),
        ErrorKind::HttpResponseTimeout => Error::HttpResponseTimeout,
        ErrorKind::ConnectionTerminated => Error::ConnectionTerminated,
        ErrorKind::DnsError => Error::DnsError { rcode: None, info_code: None },
        ErrorKind::DnsTimeout => Error::DnsTimeout,
        ErrorKind::ConnectionRefused => Error::ConnectionRefused,
        ErrorKind::DestinationUnavailable => Error::DestinationUnavailable,
        ErrorKind::ConnectionTimeout => Error::ConnectionTimeout,
        ErrorKind::TlsCertificateError => Error::TlsCertificateError,
        ErrorKind::TlsProtocolError => Error::TlsProtocolError,
        ErrorKind::ConnectionReadTimeout => Error::ConnectionReadTimeout,
        ErrorKind::HttpResponseHeaderSectionSize => Error::HttpResponseHeaderSectionSize(None),
        ErrorKind::HttpResponseContentCoding => Error::HttpResponseContentCoding(None),
        ErrorKind::HttpResponseTransferCoding => Error::HttpResponseTransferCoding(None),
        ErrorKind::HttpUpgradeFailed => Error::HttpUpgradeFailed,
        ErrorKind::HttpResponseIncomplete => Error::HttpResponseIncomplete,
        ErrorKind::HttpProtocolError => Error::HttpProtocolError,
        ErrorKind::InternalError => Error::InternalError(None),
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::component::{Component, ResourceTable};
    use wasmtime::{Engine, Store};
    use wasmtime_wasi_http::WasiHttpCtxView;

    use super::*;

    /// Makes a request and gives it a method, or an authority, of so many bytes `a`.
    const GUEST: &str = r#"(component
        (import "wasi:http/types@0.2.0" (instance $types
            (export "fields" (type $fields (sub resource)))
            (export "outgoing-request" (type $request (sub resource)))
            (type $kind (variant (case "get") (case "head") (case "post") (case "put") (case "delete")
                (case "connect") (case "options") (case "trace") (case "patch") (case "other" string)))
            (export "method" (type $method (eq $kind)))
            (export "[constructor]fields" (func (result (own $fields))))
            (export "[constructor]outgoing-request"
                (func (param "headers" (own $fields)) (result (own $request))))
            (export "[method]outgoing-request.set-method"
                (func (param "self" (borrow $request)) (param "method" $method) (result (result))))
            (export "[method]outgoing-request.set-authority"
                (func (param "self" (borrow $request)) (param "authority" (option string)) (result (result))))))
        (core module $memory (memory (export "memory") 1))
        (core instance $memory (instantiate $memory))
        (core func $fields (canon lower (func $types "[constructor]fields")))
        (core func $request (canon lower (func $types "[constructor]outgoing-request")))
        (core func $method (canon lower (func $types "[method]outgoing-request.set-method")
            (memory $memory "memory")))
        (core func $authority (canon lower (func $types "[method]outgoing-request.set-authority")
            (memory $memory "memory")))
        (core module $guest
            (import "host" "memory" (memory 1))
            (import "host" "fields" (func $fields (result i32)))
            (import "host" "request" (func $request (param i32) (result i32)))
            (import "host" "method" (func $method (param i32 i32 i32 i32) (result i32)))
            (import "host" "authority" (func $authority (param i32 i32 i32 i32) (result i32)))
            (func $fill (param i32) (memory.fill (i32.const 0) (i32.const 97) (local.get 0)))
            (func (export "method") (param i32) (result i32)
                (call $fill (local.get 0))
                (call $method (call $request (call $fields)) (i32.const 9) (i32.const 0) (local.get 0)))
            (func (export "authority") (param i32) (result i32)
                (call $fill (local.get 0))
                (call $authority (call $request (call $fields)) (i32.const 1) (i32.const 0) (local.get 0))))
        (core instance $guest (instantiate $guest (with "host" (instance
            (export "memory" (memory $memory "memory"))
            (export "fields" (func $fields))
            (export "request" (func $request))
            (export "method" (func $method))
            (export "authority" (func $authority))))))
        (func (export "method") (param "bytes" u32) (result (result)) (canon lift (core func $guest "method")))
        (func (export "authority") (param "bytes" u32) (result (result))
            (canon lift (core func $guest "authority"))))"#;

    #[tokio::test]
    async fn a_body_that_ends_with_its_guest_is_broken_off_and_not_whole() {
        use wasmtime_wasi_http::p2::body::{HostOutgoingBody, StreamContext};
        for (is_over, is_whole) in [(false, true), (true, false)] {
            let guest_ended = Arc::new(AtomicBool::new(is_over));
            let (of_guest, inner) = HostOutgoingBody::new(StreamContext::Request, None, 1, CHUNK);
            // As the table of a guest that was interrupted is dropped.
            drop(of_guest);
            let sent = GuestBody { inner, guest_ended }.collect().await;
            assert_eq!(sent.is_ok(), is_whole);
        }
    }

    struct NoRequests;

    impl WasiHttpHooks for NoRequests {
        fn send_request(
            &mut self,
            _request: Request<Body>,
            _options: Option<RequestOptions>,
            _sent: Ended,
        ) -> Box<dyn Future<Output = Result<(Response<Body>, Ended), Error>> + Send> {
            unreachable!("the guest sends nothing")
        }
    }

    struct Guest {
        table: ResourceTable,
        ctx: WasiHttpCtx,
        hooks: NoRequests,
    }

    impl WasiHttpView for Guest {
        fn http(&mut self) -> WasiHttpCtxView<'_> {
            WasiHttpCtxView { hooks: &mut self.hooks, table: &mut self.table, ctx: &mut self.ctx }
        }
    }

    #[tokio::test]
    async fn a_method_and_an_authority_are_refused_before_they_are_kept_when_they_are_too_long() {
        let engine = Engine::default();
        let mut linker = Linker::new(&engine);
        link(&mut linker).unwrap();
        let guest = Guest { table: ResourceTable::new(), ctx: WasiHttpCtx::new(), hooks: NoRequests };
        let mut store = Store::new(&engine, guest);
        let component = Component::new(&engine, wat::parse_str(GUEST).unwrap()).unwrap();
        let instance = linker.instantiate_async(&mut store, &component).await.unwrap();
        for (function, most) in [("method", METHOD_BYTES), ("authority", AUTHORITY_BYTES)] {
            let set = instance.get_typed_func::<(u32,), (Result<(), ()>,)>(&mut store, function).unwrap();
            for (bytes, expected) in [(1, Ok(())), (most, Ok(())), (most + 1, Err(())), (60_000, Err(()))] {
                let (done,) = set.call_async(&mut store, (bytes as u32,)).await.unwrap();
                assert_eq!(done, expected, "{function} of {bytes} bytes");
            }
        }
    }
}
