//! Variables that look like settings and are none: misspelt, or of another version.

use std::collections::BTreeMap;

use agent_core::nearest_word::{is_slip, nearest_word};

use super::all_settings;

/// How names begin that are ours and nobody else's. Prefixes that other software has too (`OTEL_`, `NODE_`,
/// `DATABASE_`) are not among them.
const PREFIXES: [&str; 11] = [
    "ADMISSION_",
    "AGENT_",
    "ALT_LLM_",
    "CIRCUIT_",
    "JOBS_RETENTION_",
    "LLM_",
    "RATE_LIMIT_",
    "RUNS_RETENTION_",
    "TOOLS_",
    "TOOL_",
    "WEBHOOK_",
];

/// What an operator should know of the variables of these names, by name: of those that begin like settings,
/// or differ by one letter from one.
pub(super) fn warnings(names: &[String]) -> BTreeMap<String, String> {
    let known: Vec<_> = all_settings::all().map(|setting| setting.name).collect();
    names
        .iter()
        .map(String::as_str)
        .filter(|name| !known.contains(name) && !is_of_kubernetes(name) && looks_like_ours(name, &known))
        .map(|name| (name.to_owned(), warning(name, &known)))
        .collect()
}

fn looks_like_ours(name: &str, known: &[&str]) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || known.iter().any(|known| is_slip(name, known))
}

/// Kubernetes tells each container of the services of its namespace: `<SERVICE>_SERVICE_HOST`,
/// `<SERVICE>_PORT` and their like.
fn is_of_kubernetes(name: &str) -> bool {
    ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT_"].iter().any(|part| name.contains(part))
        || name.ends_with("_PORT")
}

fn warning(name: &str, known: &[&str]) -> String {
    let meant = nearest_word(name, known).map(|meant| format!(": {meant} may be meant")).unwrap_or_default();
    format!("{name} is set, and there is no such setting{meant}; agent-host variables lists them all")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Option<String> {
        warnings(&[name.to_owned()]).remove(name)
    }

    #[test]
    fn a_name_that_looks_like_a_setting_is_said_with_the_one_that_is_meant() {
        for (name, meant) in [
            ("RATE_LIMIT_IPS", "RATE_LIMIT_IP"),
            ("PORTT", "PORT"),
            ("DATABASE_URI", "DATABASE_URL"),
            ("AGENT_TIMEOUT", "AGENT_TIMEOUT_MS"),
            ("TOOLS_DRI", "TOOLS_DIR"),
        ] {
            let warning = of(name).unwrap_or_else(|| panic!("{name}"));
            let expected = format!(
                "{name} is set, and there is no such setting: {meant} may be meant; agent-host variables"
            );
            assert!(warning.starts_with(&expected), "{warning}");
        }
        assert!(of("TOOLS_QQQ").is_some_and(|warning| warning.contains("no such setting")));
    }

    #[test]
    fn what_others_set_is_left_alone() {
        for name in [
            "PATH",
            "HOME",
            "HOSTNAME",
            "OTEL_METRICS_EXPORTER",
            "NODE_OPTIONS",
            "DATABASE_PASSWORD",
            "AGENT_HOST_SERVICE_HOST",
            "AGENT_HOST_PORT_3000_TCP_ADDR",
            "AGENT_HOST_PORT",
            "REDIS_PORT",
        ] {
            assert_eq!(of(name), None, "{name}");
        }
        for setting in all_settings::all() {
            assert_eq!(of(setting.name), None, "{}", setting.name);
        }
    }
}
