//! `wasi:http` 0.2, outgoing: requests go through `egress/`, under the policy's lines for the component.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use wasmtime::component::Linker;
use wasmtime_wasi_http::{Error, RequestOptions, WasiHttpCtx, WasiHttpHooks, WasiHttpView};

use super::imports::Imports;
use super::log::LogState;
use crate::egress::{Call, EgressError, ErrorKind};

pub(super) const IMPORTS: Imports = Imports::Packages(&["wasi:http"], "0.2.");

/// Most bytes of one set of headers that a guest may make: as many as are sent.
const FIELD_BYTES: usize = 16 << 10;

/// Failed requests of one call that have a line in the log each; the others are counted.
const MOST_LOGGED: u32 = 8;

/// Largest chunk that a guest writes of a body at once, in bytes.
const CHUNK: usize = 64 << 10;

type Body = UnsyncBoxBody<bytes::Bytes, Error>;
type Ended = Box<dyn Future<Output = Result<(), Error>> + Send>;

/// What a call has of HTTP.
pub(crate) struct HttpState {
    pub(super) ctx: WasiHttpCtx,
    pub(super) hooks: Outgoing,
}

/// Sends the requests of one call.
pub(super) struct Outgoing {
    /// Absent where nothing is granted: a component that imports `wasi:http` is not loaded then, so this is what is left when
    /// the grant was taken away since.
    call: Option<Arc<Call>>,
    log: LogState,
    /// Requests that failed.
    failures: Arc<AtomicU32>,
}

pub(super) fn link<T: WasiHttpView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)
}

impl HttpState {
    /// Refusals are lines of `log`.
    pub(crate) fn new(call: Option<Arc<Call>>, log: LogState) -> Self {
        let mut ctx = WasiHttpCtx::new();
        ctx.set_field_size_limit(FIELD_BYTES);
        Self { ctx, hooks: Outgoing { call, log, failures: Arc::default() } }
    }

    /// The view that `wasi:http` works with.
    pub(crate) fn view<'a>(
        &'a mut self,
        table: &'a mut wasmtime::component::ResourceTable,
    ) -> wasmtime_wasi_http::WasiHttpCtxView<'a> {
        wasmtime_wasi_http::WasiHttpCtxView { hooks: &mut self.hooks, table, ctx: &mut self.ctx }
    }
}

impl Outgoing {
    /// Counts a failed request, and writes a line about it unless there were many: a guest may make them in a loop.
    fn reporter(&self) -> impl Fn(&str) + Send + use<> {
        let (log, failures) = (self.log.clone(), self.failures.clone());
        move |why| {
            if failures.fetch_add(1, Ordering::Relaxed) < MOST_LOGGED {
                log.write_host_line("warn", &format!("a request failed: {why}"), &[]);
            }
        }
    }
}

impl Drop for HttpState {
    /// Says in the log what the call reached, however it ended.
    fn drop(&mut self) {
        let Some(call) = &self.hooks.call else { return };
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
            ("failures", self.hooks.failures.load(Ordering::Relaxed).to_string()),
        ];
        let fields = fields.map(|(key, value)| (key.to_owned(), value));
        self.hooks.log.write_host_line("info", "the call reached out", &fields);
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
