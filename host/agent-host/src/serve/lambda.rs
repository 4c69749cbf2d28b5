//! The same router as an AWS Lambda function: requests come from Lambda's runtime interface, not from a socket.
//!
//! A function is frozen between requests, so nothing that goes on by itself (working off the queue) is started
//! there; see `cli/serve.rs`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::Router;
use axum::extract::ConnectInfo;
use lambda_http::request::RequestContext;
use lambda_http::{Request, RequestExt as _, Service as _};

/// Answers Lambda's events until the platform ends the process.
///
/// API Gateway (both versions), function URLs and load balancers are understood. Its environment variables are
/// read by the library: the platform sets all of them.
pub async fn run(router: Router) -> Result<(), lambda_http::Error> {
    let handler = lambda_http::service_fn(move |mut event: Request| {
        let caller = SocketAddr::new(caller(&event), 0);
        event.extensions_mut().insert(ConnectInfo(caller));
        let mut router = router.clone();
        async move { router.call(event).await }
    });
    lambda_http::run(handler).await
}

/// Who the front of the platform says is calling. A load balancer says nothing: its callers are told apart by
/// `TRUST_PROXY` and the header it writes.
fn caller(event: &Request) -> IpAddr {
    let named = match event.request_context_ref() {
        Some(RequestContext::ApiGatewayV1(context)) => context.identity.source_ip.as_deref(),
        Some(RequestContext::ApiGatewayV2(context)) => context.http.source_ip.as_deref(),
        Some(_) | None => None,
    };
    named.and_then(|address| address.parse().ok()).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}
