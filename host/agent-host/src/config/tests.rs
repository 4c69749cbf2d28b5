//! One table per rule. A row says what is set beside the least that must be.

mod every_setting;
mod models;
mod properties;
mod servers;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use agent_core::ports::RetentionBounds;
use tool_host::PolicyFile;

use super::*;

type Map = BTreeMap<String, OsString>;

/// The least that a variant needs, and `more`. An empty value takes a variable away.
fn vars(variant: &str, more: &[(&str, &str)]) -> Map {
    let mut map = Map::new();
    let mut set = |name: &str, value: &str| map.insert(name.to_owned(), value.into());
    set("LLM_API_KEY", "sk-1");
    set("SERVICE_VARIANT", variant);
    if variant != "a" {
        set("NODE_ENV", "development");
        set("DATABASE_URL", "sqlite://agent.db");
        set("REDIS_URL", "memory://");
        set("JWT_SECRET", "hush");
    }
    for (name, value) in more {
        set(name, value);
    }
    map
}

fn read(variant: &str, more: &[(&str, &str)]) -> Config {
    Config::from_vars(&vars(variant, more)).unwrap()
}

/// The names of the variables that are found fault with.
fn faults(vars: &impl EnvVars) -> Vec<&'static str> {
    match Config::from_vars(vars) {
        Ok(_) => vec![],
        Err(problems) => problems.all().iter().map(|problem| problem.variable).collect(),
    }
}

#[track_caller]
fn check(variant: &str, more: &[(&str, &str)], expected: &[&str]) {
    assert_eq!(faults(&vars(variant, more)), expected, "{variant} with {more:?}");
}

#[test]
fn what_is_not_set_has_the_default_of_the_interface() {
    let config = read("a", &[]);
    insta::assert_debug_snapshot!((config.service, config.http, config.observe, config.stores), @r#"
    (
        Service {
            variant: A,
            environment: Development,
            lambda_runtime_api: None,
        },
        Http {
            host: "0.0.0.0",
            port: 3000,
            max_body_bytes: 102400,
            body_timeout: 20s,
            trusted_proxies: 0,
            max_connections: None,
            serving_threads: None,
            max_websockets: 256,
            origins: Origins(
                [],
            ),
            rates: RateLimits {
                address: RateLimit {
                    requests: 100,
                    period: 900s,
                },
                user: RateLimit {
                    requests: 10,
                    period: 60s,
                },
                premium_requests: 100,
            },
            timeouts: Timeouts {
                drain: 0ns,
                force: 30s,
                first_request: 10s,
                next_request: 65s,
                unread: 20s,
            },
        },
        Observe {
            log: Log {
                level: Info,
                format: Text,
            },
            metrics_prefix: "agent_",
            tracing: None,
        },
        Stores {
            database: None,
            database_direct: None,
            key_value: None,
            mongodb: None,
        },
    )
    "#);
}

#[test]
fn what_has_ended_is_kept_for_days_and_any_number_of_it_unless_that_is_set() {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    let bounds = |days: Option<u32>, count| RetentionBounds { age: days.map(|days| days * DAY), count };
    let retention = |more: &[(&'static str, &'static str)]| {
        let Retention { jobs, runs } = read("a", more).retention;
        (jobs, runs)
    };
    assert_eq!(retention(&[]), (bounds(Some(7), None), bounds(Some(30), None)));
    let set = [
        ("JOBS_RETENTION_DAYS", "0"),
        ("JOBS_RETENTION_COUNT", "1000"),
        ("RUNS_RETENTION_DAYS", "365"),
        ("RUNS_RETENTION_COUNT", "5"),
    ];
    assert_eq!(retention(&set), (bounds(None, Some(1000)), bounds(Some(365), Some(5))));
}

#[test]
fn a_shutdown_goes_on_for_a_second_after_its_drain_at_least() {
    let set = |drain, timeout| vars("a", &[("SHUTDOWN_DRAIN_MS", drain), ("SHUTDOWN_TIMEOUT_MS", timeout)]);
    let timeouts = Config::from_vars(&set("4000", "5000")).unwrap().http.timeouts;
    assert_eq!((timeouts.drain.as_secs(), timeouts.force.as_secs()), (4, 5));
    let problems = Config::from_vars(&set("4001", "5000")).unwrap_err();
    let text = problems.to_string();
    assert!(
        text.contains(
            "SHUTDOWN_TIMEOUT_MS: found 5000, which is less than a second more than SHUTDOWN_DRAIN_MS"
        ),
        "{text}"
    );
    let times = read("a", &[]).http.timeouts;
    assert_eq!((times.force.as_secs(), times.next_request.as_secs()), (30, 65));
}

#[test]
fn more_time_for_a_run_is_more_time_for_a_model_call_unless_that_is_set() {
    let timeout = |more: &[(&'static str, &'static str)]| read("a", more).models.timeout.as_millis();
    assert_eq!(timeout(&[("AGENT_TIMEOUT_MS", "300000")]), 300_000);
    assert_eq!(timeout(&[("AGENT_TIMEOUT_MS", "1000")]), 30_000);
    assert_eq!(timeout(&[("AGENT_TIMEOUT_MS", "300000"), ("LLM_TIMEOUT_MS", "5000")]), 5_000);
}

#[test]
fn models_agent_and_tools_have_defaults_too() {
    let config = read("a", &[("XDG_CACHE_HOME", "/cache")]);
    insta::assert_debug_snapshot!((config.models, config.agent, config.tools), @r#"
    (
        Models {
            first: ModelAccess {
                id: ModelId {
                    provider: Remote(
                        Provider(openai),
                    ),
                    name: "gpt-4o-mini",
                },
                api_key: Secret(…),
                base_url: None,
            },
            second: None,
            timeout: 30s,
            retries: 3,
            health_ttl: 30s,
        },
        Agent {
            max_concurrent: None,
            job_workers: 5,
            admission_wait: 5s,
            token_budget: 10000,
            timeout: 30s,
            circuit_min_volume: 5,
            result_cache: true,
            instructions: None,
            wait_tools: false,
            cluster_url: None,
        },
        Tools {
            folder: "tools",
            is_default_folder: true,
            policy: Beside(
                "tools",
            ),
            cache: Some(
                "/cache/agent-host",
            ),
            needs_approval: false,
            timeout: 10s,
            memory_bytes: 67108864,
            output_bytes: 1048576,
            component_concurrency: 32,
            fuel_metering: false,
            record_http: false,
            registry: None,
        },
    )
    "#);
}

#[test]
fn variant_a_alone_limits_its_agents_only_when_told_to() {
    let set: &[_] = &[("MAX_CONCURRENT_AGENTS", "7")];
    for (variant, vars, expected) in [
        ("a", &[][..], None),
        ("a", set, Some(7)),
        ("b", &[], Some(10)),
        ("both", &[], Some(10)),
        ("b", set, Some(7)),
    ] {
        assert_eq!(read(variant, vars).agent.max_concurrent, expected, "{variant} {vars:?}");
    }
}

#[test]
fn required_variables_depend_on_the_variant() {
    let b = ["NODE_ENV", "JWT_SECRET", "LLM_API_KEY", "DATABASE_URL", "REDIS_URL"];
    for (variant, expected) in [("a", &["LLM_API_KEY"][..]), ("b", &b), ("both", &b)] {
        let nothing = BTreeMap::from([("SERVICE_VARIANT", variant)]);
        assert_eq!(faults(&nothing), expected, "{variant}");
        let empty: Vec<_> = b.iter().map(|name| (*name, "")).collect();
        check(variant, &empty, expected);
        check(variant, &[], &[]);
    }
    assert_eq!(faults(&Map::new()), ["LLM_API_KEY"], "Variant A is the default");
}

#[test]
fn an_unknown_variant_is_reported_without_guessing_its_needs() {
    let unknown = BTreeMap::from([("SERVICE_VARIANT", "c"), ("NODE_ENV", "staging"), ("PORT", "x")]);
    assert_eq!(faults(&unknown), ["SERVICE_VARIANT", "PORT", "LLM_API_KEY"]);
}

#[test]
fn environments_are_those_of_every_served_variant() {
    for (variant, environment, expected) in [
        ("a", "development", true),
        ("a", "production", true),
        ("a", "test", true),
        ("a", "staging", false),
        ("b", "development", true),
        ("b", "production", true),
        ("b", "staging", true),
        ("b", "test", false),
        ("both", "development", true),
        ("both", "production", true),
        ("both", "staging", false),
        ("both", "test", false),
        ("a", "Production", false),
        ("a", " production", false),
    ] {
        let expected: &[_] = if expected { &[] } else { &["NODE_ENV"] };
        check(variant, &[("NODE_ENV", environment)], expected);
    }
    assert_eq!(read("a", &[]).service.environment, Environment::Development);
    assert_eq!(read("b", &[("NODE_ENV", "staging")]).service.environment.to_string(), "staging");
}

#[test]
fn clients_of_openai_are_answered_where_there_are_tokens() {
    let openai =
        |variant: &str, more: &[(&str, &str)]| read(variant, more).variant_b.map(|needs| needs.openai);
    for variant in ["b", "both"] {
        assert_eq!(openai(variant, &[]), Some(true));
        assert_eq!(openai(variant, &[("OPENAI_API", "on")]), Some(true));
        assert_eq!(openai(variant, &[("OPENAI_API", "off")]), Some(false));
    }
    assert_eq!(openai("a", &[("OPENAI_API", "off")]), None);
    check("a", &[("OPENAI_API", "on")], &["OPENAI_API"]);
    check("b", &[("OPENAI_API", "yes")], &["OPENAI_API"]);
}

#[test]
fn what_an_operator_should_know_is_a_warning() {
    for (variant, set, expected) in [
        ("a", &[][..], &[][..]),
        (
            "a",
            &[("ALT_LLM_API_KEY", "k")],
            &["ALT_LLM_API_KEY is set and ALT_LLM_MODEL is not: there is no second provider"],
        ),
        ("b", &[], &["AGENT_CLUSTER_URL is not set: gateway requests of high priority are handled here"]),
        ("b", &[("AGENT_CLUSTER_URL", "http://cluster")], &[]),
        (
            "a",
            &[("RATE_LIMIT_IPS", "3")],
            &[
                "RATE_LIMIT_IPS is set, and there is no such setting: RATE_LIMIT_IP may be meant; agent-host variables lists \
               them all",
            ],
        ),
        (
            "a",
            &[("DATABASE_URL", "sqlite://x"), ("DATABASE_DIRECT_URL", "postgres://h/d")],
            &[
                "DATABASE_DIRECT_URL is set and has no effect: DATABASE_URL does not name PostgreSQL; unset one or set the \
               other",
            ],
        ),
        ("a", &[("DATABASE_URL", "postgres://p/d"), ("DATABASE_DIRECT_URL", "postgres://h/d")], &[]),
    ] {
        assert_eq!(read(variant, set).all_warnings(), expected, "{variant} {set:?}");
    }
}

#[test]
fn variables_that_the_policy_reads_secrets_from_are_named_as_the_operator_likes() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.toml");
    let server = "[[mcp]]\nname = \"wiki\"\nurl = \"https://wiki.test/mcp\"\nallow = [\"search\"]\n";
    let secret = "[[mcp.secret]]\nname = \"key\"\nenv = \"TOOLS_WIKI_KEY\"\nheader = \"Authorization\"\n";
    let policy_file = policy.to_str().unwrap();
    let set = [("TOOLS_POLICY", policy_file), ("TOOLS_WIKI_KEY", "k"), ("AGENT_OTHER_KEY", "k")];
    let warned = |text: &str| {
        std::fs::write(&policy, text).unwrap();
        let config = read("a", &set);
        let names = config.all_warnings().into_iter().map(|text| text.split(' ').next().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(warned(&format!("{server}{secret}")), ["AGENT_OTHER_KEY"]);
    assert_eq!(warned(server), ["AGENT_OTHER_KEY", "TOOLS_WIKI_KEY"]);
    // The start ends, and says why.
    assert_eq!(warned("[[mcp"), ["AGENT_OTHER_KEY", "TOOLS_WIKI_KEY"]);
}

#[test]
fn keys_lose_surrounding_space_and_may_not_hold_control_characters() {
    for (key, expected) in [
        ("k", &[][..]),
        (" sk-1\n", &[]),
        ("two words", &[]),
        ("sk-1\nsk-2", &["LLM_API_KEY"]),
        (" \n", &["LLM_API_KEY"]),
    ] {
        check("a", &[("LLM_API_KEY", key)], expected);
    }
    assert_eq!(read("a", &[("LLM_API_KEY", " sk-1\n")]).models.first.api_key.expose(), "sk-1");
    // Tokens are signed elsewhere with every byte of it.
    let signing = read("b", &[("JWT_SECRET", " a\nb ")]).variant_b.unwrap().jwt_secret;
    assert_eq!(signing.expose(), " a\nb ");
}

#[test]
fn values_of_other_kinds_are_checked_as_well() {
    for (name, good, bad) in [
        ("HOST", &["::1", "localhost"][..], &["[::1]", "a b"][..]),
        ("METRICS_PREFIX", &["agent_", "a:b_", "_x1"], &["1a", "a-b", "ä_", "a b"]),
        ("LLM_BASE_URL", &["http://localhost:1/v1"], &["localhost:1", "http://u:p@host"]),
        ("AGENT_CLUSTER_URL", &["https://cluster"], &["cluster"]),
        ("AWS_LAMBDA_RUNTIME_API", &["127.0.0.1:9001"], &["http://x", "a b", "a/b", "a/", "u@h:1", "h:1?x"]),
        ("DATABASE_URL", &["postgres://h/d", "sqlite://x"], &["mysql://h", "x"]),
        ("DATABASE_DIRECT_URL", &["postgres://h/d", "postgresql://h/d"], &["sqlite://x", "x"]),
        (
            "REDIS_URL",
            &[
                "redis://h",
                "memory://",
                "redis+sentinel://h1:26379,h2:26379/main",
                "redis+cluster://h1:6379,h2",
            ],
            &["memory://x", "localhost", "redis+sentinel://h1", "redis+cluster://h1/0"],
        ),
        ("MONGODB_URL", &["mongodb://a,b/d"], &["http://h"]),
        ("RESULT_CACHE", &["on", "off"], &["true", "0"]),
        ("OTEL_TRACES_SAMPLER", &["always_off"], &["jaeger_remote"]),
        ("OTEL_TRACES_SAMPLER_ARG", &["0.5"], &["2"]),
        ("OTEL_EXPORTER_OTLP_HEADERS", &["a=b"], &["hunter2"]),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &["http://localhost:4318"], &["localhost:4318"]),
    ] {
        for value in good {
            check("a", &[(name, value)], &[]);
        }
        for value in bad {
            check("a", &[(name, value)], &[name]);
        }
    }
    // A platform may set the protocol for whatever it starts: without a key it does not matter.
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    check("a", &[grpc], &[]);
    check("a", &[grpc, ("TRACING_API_KEY", "k")], &["OTEL_EXPORTER_OTLP_PROTOCOL"]);
}

#[test]
fn the_cache_folder_follows_the_platform() {
    for (set, expected) in [
        (&[("TOOLS_CACHE_DIR", "here"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h")][..], Some("here")),
        (&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")], Some("/x/agent-host")),
        (&[("XDG_CACHE_HOME", "relative"), ("HOME", "/h")], Some("/h/.cache/agent-host")),
        (&[("XDG_CACHE_HOME", ""), ("HOME", "/h")], Some("/h/.cache/agent-host")),
        (&[("HOME", "relative")], None),
        (&[], None),
    ] {
        assert_eq!(read("a", set).tools.cache.as_deref(), expected.map(Path::new), "{set:?}");
    }
}

#[test]
fn the_policy_lies_beside_the_tools_folder_unless_it_is_elsewhere() {
    let policy = |set: &[(&str, &str)]| read("a", set).tools.policy;
    assert_eq!(policy(&[]), PolicyFile::Beside("tools".into()));
    assert_eq!(policy(&[("TOOLS_DIR", "/t")]), PolicyFile::Beside("/t".into()));
    assert_eq!(policy(&[("TOOLS_DIR", "/t"), ("TOOLS_POLICY", "p")]), PolicyFile::At("p".into()));
}

#[test]
fn a_command_about_tools_needs_no_model() {
    let some = BTreeMap::from([("TOOL_TIMEOUT_MS", "5"), ("PORT", "x")]);
    assert_eq!(Tools::from_vars(&some).unwrap().timeout, Duration::from_millis(5));
    assert!(Tools::from_vars(&BTreeMap::from([("TOOL_TIMEOUT_MS", "x")])).is_err());
    let log = Log { level: LogLevel::Debug, format: LogFormat::Text };
    assert_eq!(Log::from_vars(&BTreeMap::from([("LOG_LEVEL", "debug"), ("NODE_ENV", "?")])), Ok(log));
}

#[test]
fn a_command_asks_for_approvals_where_the_service_does() {
    for (environment, approval, expected) in [
        ("production", "", true),
        ("production", "off", false),
        ("development", "", false),
        ("development", "on", true),
        ("", "", false),
    ] {
        let set = [(service::NODE_ENV.name, environment), ("TOOLS_APPROVAL", approval)];
        let of_command = Tools::from_vars(&BTreeMap::from(set)).unwrap().needs_approval;
        assert_eq!((of_command, read("a", &set).tools.needs_approval), (expected, expected), "{set:?}");
    }
    assert!(!Tools::from_vars(&BTreeMap::from([("NODE_ENV", "?")])).unwrap().needs_approval);
}

#[test]
fn production_logs_for_machines() {
    let format = |environment| read("b", &[("NODE_ENV", environment)]).observe.log.format;
    assert_eq!(format("production"), LogFormat::Json);
    assert_eq!(format("staging"), LogFormat::Text);
    assert_eq!(format("development"), LogFormat::Text);
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let mut map = vars(
        "both",
        &[
            ("NODE_ENV", "staging"),
            ("PORT", "http"),
            ("HOST", "two\nlines"),
            ("JWT_SECRET", ""),
            ("LLM_MODEL", "llama3"),
            ("ALT_LLM_MODEL", "gpt-5"),
            ("MAX_CONCURRENT_AGENTS", "0"),
            ("DATABASE_URL", "mysql://root:hunter2@db/agents"),
            ("REDIS_URL", "hunter2@cache:6379"),
        ],
    );
    map.remove("LLM_API_KEY");
    map.insert("METRICS_PREFIX".into(), std::os::unix::ffi::OsStringExt::from_vec(vec![0xff]));
    insta::assert_snapshot!(Config::from_vars(&map).unwrap_err(), @r#"
    11 problems with the environment variables:
      NODE_ENV: found "staging"; allowed: development or production
      HOST: found "two\nlines"; allowed: an IP address or a host name
      PORT: found "http"; allowed: a whole number from 0 to 65535
      JWT_SECRET: empty, but needed when SERVICE_VARIANT is b or both; allowed: at least one character
      METRICS_PREFIX: found bytes that are not UTF-8; allowed: letters, digits, _ and :, not beginning with a digit
      LLM_API_KEY: not set, but always needed; allowed: at least one character, and no control characters
      LLM_MODEL: found "llama3"; allowed: anthropic/<model>, openai/<model> or, except in production, demo/<model>; without a provider only a name that begins with gpt, o1, o3, o4, chatgpt or claude
      ALT_LLM_API_KEY: not set, but needed because ALT_LLM_MODEL is; allowed: at least one character, and no control characters
      MAX_CONCURRENT_AGENTS: found "0"; allowed: a whole number from 1 to 100000
      DATABASE_URL: found a mysql:// address (not shown); allowed: a URL that starts with postgres://, postgresql:// or sqlite://
      REDIS_URL: found a value (not shown); allowed: a URL that starts with redis://, rediss://, redis+sentinel://, rediss+sentinel://, redis+cluster://, rediss+cluster:// or memory://
    "#);
}

#[test]
fn one_problem_is_not_called_several() {
    insta::assert_snapshot!(Config::from_vars(&Map::new()).unwrap_err(), @r#"
    1 problem with the environment variables:
      LLM_API_KEY: not set, but always needed; allowed: at least one character, and no control characters
    "#);
}

#[test]
fn a_variable_can_be_looked_up_in_either_map_and_in_the_environment() {
    let hashed = std::collections::HashMap::from([("LLM_API_KEY", "k")]);
    assert_eq!(faults(&hashed), Vec::<&str>::new());
    assert!(EnvVars::get(&ProcessEnv, "PATH").is_some() && EnvVars::get(&ProcessEnv, "").is_none());
}
