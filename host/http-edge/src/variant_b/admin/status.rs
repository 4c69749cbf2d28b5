//! `GET /admin/status`: how the service is and what its limits are, for people. Unlike `/health`, which
//! machines ask and everybody may read, it says why a check failed.

use std::sync::atomic::Ordering;
use std::time::SystemTime;

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use run_service::health::{Check, check_all};
use serde::Serialize;
use utoipa::ToSchema;

use super::super::state::Shared;
use super::super::timestamp::iso_8601;
use crate::answer;
use crate::dependencies::{RateLimit, Settings};
use crate::openapi::{Operation, tags};
use run_service::streams::MOST_STREAMS;

pub(super) fn describe() -> Operation {
    Operation::new("readStatus", tags::OPERATIONS, "Say how the service is and what its limits are")
        .about("The model is asked at most once per `LLM_HEALTH_TTL_MS`.")
        .answers::<Status>(StatusCode::OK, "How it is, also when it is not well")
}

/// `GET /admin/status`.
pub(super) async fn read(State(edge): State<Shared>) -> Response {
    let variant = &edge.variant;
    let probes = [&variant.database, &variant.key_value, &variant.llm].map(Clone::clone);
    let checks = check_all(&probes, edge.settings.probe_time_limit).await;
    let status = Status {
        version: env!("CARGO_PKG_VERSION"),
        timestamp: iso_8601(SystemTime::now()),
        uptime: edge.began.elapsed().as_secs_f64(),
        production: variant.production,
        prepared: variant.prepared.load(Ordering::Relaxed),
        checks: ["database", "redis", "llm"].into_iter().zip(&checks).map(CheckLine::from).collect(),
        limits: Limits::from(edge.settings),
        features: Features {
            openai: variant.openai.is_some(),
            webhooks: variant.webhooks.is_some(),
            cluster: variant.cluster.is_some(),
            result_cache: variant.cache.is_some(),
            tool_admin: variant.tool_admin.is_some(),
        },
    };
    answer::visible_json(StatusCode::OK, &status)
}

/// How the service is.
#[derive(Serialize, ToSchema)]
#[schema(as = ServiceStatus)]
struct Status {
    /// Of the program.
    #[schema(example = "0.1.0")]
    version: &'static str,
    /// When this was found.
    #[schema(format = DateTime, example = "2026-11-21T12:00:00.000Z")]
    timestamp: String,
    /// Seconds since this process began.
    #[schema(minimum = 0, example = 86_400.5)]
    uptime: f64,
    /// Whether `NODE_ENV` is `production`.
    #[schema(example = true)]
    production: bool,
    /// Whether the stores have the tables that are needed.
    #[schema(example = true)]
    prepared: bool,
    /// What it depends on.
    checks: Vec<CheckLine>,
    /// What callers may use up.
    limits: Limits,
    /// What is switched on.
    features: Features,
}

/// Something that the service depends on.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StatusCheck)]
struct CheckLine {
    /// As `/health` calls it.
    #[schema(example = "database")]
    name: &'static str,
    /// `ok` or `error`.
    #[schema(example = "ok")]
    status: &'static str,
    /// In milliseconds, when it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, example = 1.25)]
    latency_ms: Option<f64>,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "no answer within 5000 ms")]
    reason: Option<String>,
}

impl From<(&'static str, &Check)> for CheckLine {
    fn from((name, check): (&'static str, &Check)) -> Self {
        let line = Self { name, status: "ok", latency_ms: None, reason: None };
        match &check.outcome {
            Ok(latency) => Self { latency_ms: Some(latency.as_micros() as f64 / 1000.0), ..line },
            Err(error) => Self { status: "error", reason: Some(error.0.clone()), ..line },
        }
    }
}

/// What callers may use up.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ServiceLimits)]
struct Limits {
    /// Requests of one address.
    address: WindowLimit,
    /// Requests of one user.
    user: WindowLimit,
    /// Requests of a user whose token has the tier `premium`, within the same period.
    #[schema(example = 100)]
    premium_requests: u64,
    /// Most bytes of a body.
    #[schema(example = 102_400)]
    max_body_bytes: usize,
    /// Streams that a user may have at once.
    #[schema(example = 32)]
    streams_per_user: usize,
}

/// How many requests there may be within a period.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct WindowLimit {
    /// So many.
    #[schema(example = 10)]
    requests: u64,
    /// The period.
    #[schema(example = 60)]
    seconds: u64,
}

/// What is switched on.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ServiceFeatures)]
struct Features {
    /// Whether clients of OpenAI are answered.
    #[schema(example = true)]
    openai: bool,
    /// Whether the ends of jobs can be sent.
    #[schema(example = false)]
    webhooks: bool,
    /// Whether gateway requests of high priority go to a cluster.
    #[schema(example = false)]
    cluster: bool,
    /// Whether results are kept.
    #[schema(example = true)]
    result_cache: bool,
    /// Whether the versions of tools are looked after here.
    #[schema(example = true)]
    tool_admin: bool,
}

impl From<RateLimit> for WindowLimit {
    fn from(RateLimit { requests, period }: RateLimit) -> Self {
        Self { requests, seconds: period.as_secs() }
    }
}

impl From<Settings> for Limits {
    fn from(settings: Settings) -> Self {
        Self {
            address: settings.rates.address.into(),
            user: settings.rates.user.into(),
            premium_requests: settings.rates.premium_requests,
            max_body_bytes: settings.max_body_bytes,
            streams_per_user: MOST_STREAMS,
        }
    }
}
