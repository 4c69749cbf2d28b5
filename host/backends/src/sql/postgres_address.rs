//! The address of a PostgreSQL server, as the driver is given it: without the parameters that the driver does
//! not know. It would log them with their values, and one may be a secret: `sslpassword` is among those that
//! other clients of PostgreSQL know.

use std::str::FromStr as _;

use sqlx::postgres::PgConnectOptions;

/// The parameters that the driver knows, beside `options[…]`.
const KNOWN: [&str; 18] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "ssl-root-cert",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "statement-cache-capacity",
    "user",
];

/// Reads the address that a setting has, and logs the names of the parameters that are left out of it.
pub(super) fn parse(url: &str, setting: &'static str) -> sqlx::Result<PgConnectOptions> {
    let (url, unknown) = without_unknown(url);
    for parameter in unknown {
        tracing::warn!(setting, parameter, "a parameter of an address is not known and has no effect");
    }
    PgConnectOptions::from_str(&url)
}

/// The address without parameters that are not known, and their names.
fn without_unknown(url: &str) -> (String, Vec<&str>) {
    let Some((address, query)) = url.split_once('?') else { return (url.to_owned(), vec![]) };
    let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
    let (known, unknown): (Vec<_>, Vec<_>) = parameters.partition(|parameter| is_known(name_of(parameter)));
    let named = unknown.into_iter().map(|parameter| name_to_log(parameter, query));
    (format!("{address}?{}", known.join("&")), named.collect())
}

/// The parameter's name. Any other text may be part of a password, of which a `?` or an `&` was not
/// escaped.
fn name_to_log<'a>(parameter: &'a str, query: &str) -> &'a str {
    match parameter.split_once('=') {
        Some((name, _)) if !query.contains('@') => name,
        _ => "(without a name)",
    }
}

fn name_of(parameter: &str) -> &str {
    parameter.split_once('=').map_or(parameter, |(name, _)| name)
}

/// Brackets may be written as they are or escaped.
fn is_known(name: &str) -> bool {
    let is_option = ["options[", "options%5B", "options%5b"].iter().any(|begin| name.starts_with(begin));
    is_option || KNOWN.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_does_not_know_is_named_without_its_value_and_the_rest_reaches_it() {
        let url = "postgres://u:p@h/d?sslmode=require&sslpassword=hunter2&&connect_timeout=5&options[a]=1&options%5Bb%5D=2";
        let (rest, unknown) = without_unknown(url);
        assert_eq!(rest, "postgres://u:p@h/d?sslmode=require&options[a]=1&options%5Bb%5D=2");
        assert_eq!(unknown, ["sslpassword", "connect_timeout"]);
        let options = parse(url, "DATABASE_URL").unwrap();
        assert_eq!(options.get_options(), Some("-c a=1 -c b=2"));
        for url in
            ["postgres://u@h/d", "postgres:///d?host=/run/postgresql", "postgres://h/d?application_name=x"]
        {
            assert_eq!(without_unknown(url), (url.to_owned(), vec![]));
        }
        for url in [
            "postgres://u:hunter?2@h/d",
            "postgres://u:hunter?2=x@h/d",
            "postgres://u:hun@ter?2=@h/d?sslmode=require",
            "postgres:///d?password=hunter&2",
        ] {
            assert_eq!(without_unknown(url).1, ["(without a name)"], "{url}");
        }
    }
}
