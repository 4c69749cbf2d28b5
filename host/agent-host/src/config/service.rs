//! Which service this is, and where it runs. Its settings are read first, because others depend on them.

use url::Url;

use super::context::{Environment, Variant};
use super::reader::{Reader, Reported};
use super::setting::{Need, one_of, settings, special};
use super::value_type::either;

settings! {
    /// The endpoints that are served. The requirements of every served variant apply.
    SERVICE_VARIANT = one_of(&["a", "b", "both"]).or("a");
    /// The environment the service runs in: the `environment` label of the metrics, the form of the log
    /// (JSON lines in production), and whether the demo model may be used. Variant A knows development,
    /// production and test; Variant B knows development, staging and production, and has no default.
    NODE_ENV = one_of(&["development", "staging", "production", "test"]).or("development").needed(Need::VariantB);
    /// Set by AWS Lambda: the address of its runtime interface.
    AWS_LAMBDA_RUNTIME_API = special("host:port");
}

#[derive(Debug, Clone)]
pub struct Service {
    /// `SERVICE_VARIANT`.
    pub variant: Variant,
    /// `NODE_ENV`.
    pub environment: Environment,
    /// `AWS_LAMBDA_RUNTIME_API`: present when the process runs as a Lambda function.
    pub lambda_runtime_api: Option<String>,
}

impl Service {
    /// Has to be read first: what the other variables may be depends on it.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let variant = reader.value(&SERVICE_VARIANT, Variant::parse);
        if let Ok(variant) = variant {
            reader.serve(variant);
        }
        let environment = read_environment(reader);
        if let Ok(environment) = environment {
            reader.run_in(environment);
        }
        let lambda = reader.optional(&AWS_LAMBDA_RUNTIME_API, parse_authority);
        Ok(Self { variant: variant?, environment: environment?, lambda_runtime_api: lambda? })
    }
}

/// The environment, one of those that every served variant knows.
fn read_environment(reader: &mut Reader<'_>) -> Result<Environment, Reported> {
    let variant = reader.variant();
    let known: Vec<_> =
        Environment::ALL.into_iter().filter(|one| variant.is_none_or(|v| one.exists(v))).collect();
    let words: Vec<_> = known.iter().map(|one| one.as_str()).collect();
    let parse = |word: &str| known.iter().copied().find(|one| one.as_str() == word);
    reader.narrowed(&NODE_ENV, &either(&words, ""), parse)
}

/// `host:port`, as Lambda gives it.
fn parse_authority(text: &str) -> Option<String> {
    let url = Url::parse(&format!("http://{text}")).ok()?;
    // What is not all of the address would show up elsewhere in the URL.
    let whole = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let plain = url.username().is_empty() && url.password().is_none() && !text.ends_with('/');
    (whole && plain).then(|| text.to_owned())
}
