//! Every variable: the one table that the parser, its messages and the documentation are made from.
//!
//! The text of an entry is its doc comment, so it is written once. `interface` and `decisions` name the two
//! pages of the specification; a variable without either is ours. What a value means once it is read stands
//! beside the parser of its concern.

use super::variable::{
    Need, Variable, bytes, hidden, key, milliseconds, number, one_of, path, secret, special, text, url,
};

/// Every time limit can be an hour at most: more is a mistake in the unit.
const HOUR: u64 = 3_600_000;
const MIB: u64 = 1 << 20;

/// Declares each variable and collects all of them, so that none can be missing from the table.
macro_rules! variables {
    ($($(#[doc = $about:literal])+ $name:ident = $entry:expr;)+) => {
        $(
            $(#[doc = $about])+
            pub static $name: Variable =
                Variable { name: stringify!($name), about: concat!($($about),+), ..$entry };
        )+

        /// Every variable, in the order in which they are documented and reported.
        pub static ALL: &[&Variable] = &[$(&$name),+];
    };
}

variables! {
    // The service as a whole.

    /// The endpoints that are served. The requirements of every served variant apply.
    SERVICE_VARIANT = one_of(&["a", "b", "both"]).or("a");
    /// The environment the service runs in: the `environment` label of the metrics, the form of the log
    /// (JSON lines in production), and whether the demo model may be used. Variant A knows development,
    /// production and test; Variant B knows development, staging and production, and has no default.
    NODE_ENV = one_of(&["development", "staging", "production", "test"]).or("development").needed(Need::VariantB);
    /// Set by AWS Lambda: the address of its runtime interface.
    AWS_LAMBDA_RUNTIME_API = special("host:port");

    // HTTP.

    /// The address to listen on.
    HOST = special("an IP address or a host name").or("0.0.0.0");
    /// The port to listen on; 0 takes any free one, and the log says which.
    PORT = number(0, 65_535).or("3000");
    /// Most bytes a request body may have.
    MAX_BODY_BYTES = bytes(1, 100 * MIB).or("102400");
    /// How long a client may take to send a request body. Well below the 30 s after which a shutdown is forced.
    BODY_TIMEOUT_MS = milliseconds(1, HOUR).or("20000");
    /// How many proxies stand in front of the service and append to X-Forwarded-For. 0 believes none of it.
    TRUST_PROXY = number(0, 32).or("0");
    /// Most connections at once; when all are taken, a new one closes the one that has been idle for longest.
    MAX_CONNECTIONS = number(1, 1_000_000).or_derived("half of what the limit on open files leaves, at most 10000");
    /// The origins, separated by commas, whose pages may call from a browser. Pages of other origins are
    /// refused. A listener on a loopback address answers under their host names as well.
    CORS_ORIGINS = special("origins such as https://app.example or http://localhost:5173, separated by commas");
    /// Most requests of one address to what is under /api/ within its window; reading jobs counts.
    RATE_LIMIT_IP = number(1, 1_000_000_000).or("100");
    /// How many seconds the window of an address is long.
    RATE_LIMIT_IP_WINDOW_S = number(1, 86_400).or("900");
    /// Most requests of one user within their window.
    RATE_LIMIT_USER = number(1, 1_000_000_000).or("10");
    /// The same for users whose token has the tier premium.
    RATE_LIMIT_PREMIUM = number(1, 1_000_000_000).or("100");
    /// How many seconds the window of a user is long.
    RATE_LIMIT_USER_WINDOW_S = number(1, 86_400).or("60");
    /// How long connections are still accepted after a signal to stop, while readiness is already denied.
    SHUTDOWN_DRAIN_MS = milliseconds(0, 29_000).or("0");
    /// Signs and verifies the bearer tokens of Variant B.
    JWT_SECRET = secret().needed(Need::VariantB);

    // What an operator sees.

    /// The least serious entries that are logged.
    LOG_LEVEL = one_of(&["debug", "info", "warn", "error"]).or("info");
    /// Stands before the names of the default process metrics.
    METRICS_PREFIX = special("letters, digits, _ and :, not beginning with a digit").or("agent_");
    /// The key of the tracing service, sent as Authorization: Bearer and as X-API-Key. When it is set, traces are
    /// exported by OTLP over HTTP. A collector that wants no key takes any.
    TRACING_API_KEY = key();
    /// The project that traces are filed under, sent as Langsmith-Project and as the resource attribute project.
    TRACING_PROJECT = special("text that can stand in an HTTP header").or("production");
    /// The collector that traces are exported to: they are posted to /v1/traces below it.
    OTEL_EXPORTER_OTLP_ENDPOINT = url(&["https", "http"]).or("http://localhost:4318");
    /// The whole address that traces are posted to, where it is another one.
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT = url(&["https", "http"]);
    /// More headers of every export. They override those that follow from TRACING_API_KEY and TRACING_PROJECT.
    OTEL_EXPORTER_OTLP_HEADERS = hidden("name=value pairs, percent-encoded and separated by commas");
    /// The same, and overrides those.
    OTEL_EXPORTER_OTLP_TRACES_HEADERS = hidden("name=value pairs, percent-encoded and separated by commas");
    /// The protocol of the export. No other is spoken.
    OTEL_EXPORTER_OTLP_PROTOCOL = special("http/protobuf").or("http/protobuf");
    /// How long one export may take, retries included. Nobody waits for it.
    OTEL_EXPORTER_OTLP_TIMEOUT = milliseconds(1, HOUR).or("10000");
    /// The name of this service in traces.
    OTEL_SERVICE_NAME = text().or("agent-host");
    /// More attributes of every trace.
    OTEL_RESOURCE_ATTRIBUTES = special("name=value pairs, percent-encoded and separated by commas");
    /// Which traces are recorded. The sampled flag of a caller decides only with those that begin with parentbased.
    OTEL_TRACES_SAMPLER = one_of(&[
        "always_on",
        "always_off",
        "traceidratio",
        "parentbased_always_on",
        "parentbased_always_off",
        "parentbased_traceidratio",
    ]).or("always_on");
    /// The share of traces that traceidratio records.
    OTEL_TRACES_SAMPLER_ARG = special("a number from 0 to 1").or("1");
    /// Whether traces hold what users, models and tools say. They hold names, sizes and times in any case.
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT = one_of(&["true", "false"]).or("false");

    // Models.

    /// The key of the language-model provider.
    LLM_API_KEY = key().needed(Need::Always);
    /// The language model. A name without a provider is understood when it begins like those of OpenAI
    /// (gpt, o1, o3, o4, chatgpt) or Anthropic (claude). demo/… answers by rules and is for first contact.
    LLM_MODEL = special(super::model::ALLOWED).or("openai/gpt-4o-mini");
    /// The provider's address, for servers that speak its protocol elsewhere.
    LLM_BASE_URL = url(&["https", "http"]);
    /// The key of the second provider, which is asked when the first one fails.
    ALT_LLM_API_KEY = key();
    /// The second provider's language model. Setting it switches the second provider on.
    ALT_LLM_MODEL = special(super::model::ALLOWED);
    /// The second provider's address.
    ALT_LLM_BASE_URL = url(&["https", "http"]);
    /// How long one model call may take. When it is not set and AGENT_TIMEOUT_MS is more, that holds. The model's
    /// health check may take as long.
    LLM_TIMEOUT_MS = milliseconds(1, HOUR).or("30000");
    /// How often a failed model call is made again.
    LLM_RETRIES = number(0, 10).or("3");
    /// How long a good answer of the model's health check is kept; 0 asks every time. A reply to a run counts as
    /// one. A failure is kept for 5 s at most.
    LLM_HEALTH_TTL_MS = milliseconds(0, HOUR).or("30000");

    // The agent.

    /// How many agents may run at once, those of requests and jobs together. Variant A alone has no limit unless this
    /// is set.
    MAX_CONCURRENT_AGENTS = number(1, 100_000).or("10");
    /// How long a request waits for a free agent before it is turned away.
    ADMISSION_WAIT_MS = milliseconds(0, HOUR).or("5000");
    /// Most tokens all model calls of one request may use together.
    TOKEN_BUDGET_PER_REQUEST = number(1, 1_000_000_000).or("10000");
    /// How long one agent run may take, an attempt at a job included. The one setting to raise for a slow local
    /// model: LLM_TIMEOUT_MS follows it.
    AGENT_TIMEOUT_MS = milliseconds(1, HOUR).or("30000");
    /// How many runs the circuit breaker must have seen before it may open.
    CIRCUIT_MIN_VOLUME = number(0, 1_000_000).or("5");
    /// Whether results are kept and given again to the same question.
    RESULT_CACHE = one_of(&["on", "off"]).or("on");
    /// Where gateway requests of high priority go.
    AGENT_CLUSTER_URL = url(&["https", "http"]);

    // Tools.

    /// The folder of tool components: every *.wasm in it is one.
    TOOLS_DIR = path().or("tools");
    /// What the tools may do.
    TOOLS_POLICY = path().or_derived("<TOOLS_DIR>/policy.toml");
    /// The folder that compiled tools are kept in, and what a restart has to know of them.
    TOOLS_CACHE_DIR = path().or_derived("$XDG_CACHE_HOME/agent-host or $HOME/.cache/agent-host");
    /// How long one tool call may take.
    TOOL_TIMEOUT_MS = milliseconds(1, HOUR).or("10000");
    /// How much memory one tool call may use.
    TOOL_MEMORY_BYTES = bytes(MIB, 4096 * MIB).or("67108864");
    /// How much one tool call may return.
    TOOL_OUTPUT_BYTES = bytes(1, 1024 * MIB).or("1048576");
    /// How many calls of one component may run at the same time. Further ones wait their turn within their time,
    /// so that a component that hangs keeps only its own callers waiting. All components together run 128.
    TOOL_COMPONENT_CONCURRENCY = number(1, 128).or("32");
    /// Whether the instructions of tool calls are counted, at some cost.
    TOOL_FUEL_METERING = one_of(&["off", "on"]).or("off");

    // Stores.

    /// The relational database. A SQLite file is created if it is not there.
    DATABASE_URL = url(&["postgres", "postgresql", "sqlite"]).needed(Need::VariantB);
    /// The key-value store. memory:// keeps cache and rate windows in the process.
    REDIS_URL = url(&["redis", "rediss", "memory"]).needed(Need::VariantB);
    /// The document store: when set, run records and journals go there instead of the relational database. The
    /// servers are named one by one: mongodb+srv:// addresses are not looked up.
    MONGODB_URL = url(&["mongodb"]);
}

/// What is read beside the table: variables of the platform, which only lend a default and are not ours to
/// find fault with.
pub static AMBIENT: [&str; 2] = ["XDG_CACHE_HOME", "HOME"];
