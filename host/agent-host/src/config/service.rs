//! Which service this is, and where it runs.

use std::fmt;

use url::Url;

use super::reader::{Reader, Reported};
use super::variable::either;
use super::variables::{AWS_LAMBDA_RUNTIME_API, NODE_ENV, SERVICE_VARIANT};

/// Which service this is.
#[derive(Debug, Clone)]
pub struct Service {
    /// `SERVICE_VARIANT`.
    pub variant: Variant,
    /// `NODE_ENV`.
    pub environment: Environment,
    /// `AWS_LAMBDA_RUNTIME_API`: present when the process runs as a Lambda function.
    pub lambda_runtime_api: Option<String>,
}

/// The endpoints that are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// Variant A, the primary service.
    A,
    /// Variant B, the extended service.
    B,
    /// Both.
    Both,
}

/// The environment the service runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Environment {
    /// A developer's machine.
    Development,
    /// The rehearsal for production (Variant B only).
    Staging,
    /// The real thing.
    Production,
    /// A test run (Variant A only).
    Test,
}

impl Service {
    /// Has to be read first: what the other variables may be depends on it.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let variant = reader.value(&SERVICE_VARIANT, Variant::parse);
        if let Ok(variant) = variant {
            reader.serve(variant);
        }
        let environment = Environment::read(reader);
        if let Ok(environment) = environment {
            reader.run_in(environment);
        }
        let lambda = reader.optional(&AWS_LAMBDA_RUNTIME_API, parse_authority);
        Ok(Self { variant: variant?, environment: environment?, lambda_runtime_api: lambda? })
    }
}

impl Variant {
    /// Whether Variant A is among what is served.
    pub fn serves_a(self) -> bool {
        matches!(self, Self::A | Self::Both)
    }

    /// Whether Variant B is among what is served.
    pub fn serves_b(self) -> bool {
        matches!(self, Self::B | Self::Both)
    }

    fn parse(word: &str) -> Option<Self> {
        match word {
            "a" => Some(Self::A),
            "b" => Some(Self::B),
            "both" => Some(Self::Both),
            _ => None,
        }
    }
}

impl Environment {
    const ALL: [Self; 4] = [Self::Development, Self::Staging, Self::Production, Self::Test];

    /// The environment, as the variants that are served know it.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let variant = reader.variant();
        let known: Vec<_> =
            Self::ALL.into_iter().filter(|one| variant.is_none_or(|v| one.exists(v))).collect();
        let words: Vec<_> = known.iter().map(|one| one.as_str()).collect();
        let parse = |word: &str| known.iter().copied().find(|one| one.as_str() == word);
        reader.narrowed(&NODE_ENV, &either(&words, ""), parse)
    }

    /// The word in `NODE_ENV`, and in the label of the metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Development => "development",
            Self::Staging => "staging",
            Self::Production => "production",
            Self::Test => "test",
        }
    }

    /// The sets of the two variants differ (interface, "Configuration"). Where both are served, a value must
    /// be in both sets.
    fn exists(self, variant: Variant) -> bool {
        match self {
            Self::Development | Self::Production => true,
            Self::Staging => !variant.serves_a(),
            Self::Test => !variant.serves_b(),
        }
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `host:port`, as Lambda gives it.
fn parse_authority(text: &str) -> Option<String> {
    let url = Url::parse(&format!("http://{text}")).ok()?;
    // What is not all of the address would show up elsewhere in the URL.
    let whole = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let plain = url.username().is_empty() && url.password().is_none() && !text.ends_with('/');
    (whole && plain).then(|| text.to_owned())
}
