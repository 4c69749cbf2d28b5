//! Reads one setting after the other and collects what is wrong with them, so that all of it is said at once.
//!
//! A method that fails has added to the problems and returns [`Reported`] as the proof of it. Its caller
//! reads all the variables of its concern before the first `?`, or the rest would go unread.

use std::path::PathBuf;
use std::time::Duration;

use agent_core::secret::Secret;

use super::context::{Environment, Variant};
use super::http_url::HttpUrl;
use super::number;
use super::problem::{Problem, Problems};
use super::process_env::EnvVars;
use super::setting::{Need, Setting};
use super::value_type::Kind;

/// A problem was found and noted.
#[derive(Debug, Clone, Copy)]
pub struct Reported;

/// Turns the values of variables into values of their types.
pub struct Reader<'a> {
    vars: &'a dyn EnvVars,
    /// Absent as long as it is not known: then only what every variant needs is asked for.
    variant: Option<Variant>,
    /// Absent as long as it is not known.
    environment: Option<Environment>,
    problems: Vec<Problem>,
    warnings: Vec<String>,
}

/// Reads with `read`, and gives either its result or every problem, in the order of `settings`.
pub fn collect<T>(
    vars: &dyn EnvVars,
    settings: &[&Setting],
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, Reported>,
) -> Result<T, Problems> {
    let mut reader =
        Reader { vars, variant: None, environment: None, problems: Vec::new(), warnings: Vec::new() };
    match read(&mut reader) {
        Ok(value) if reader.problems.is_empty() => Ok(value),
        Ok(_) | Err(Reported) => {
            let position =
                |problem: &Problem| settings.iter().position(|setting| setting.name == problem.variable);
            reader.problems.sort_by_key(position);
            Err(Problems(reader.problems))
        }
    }
}

impl Reader<'_> {
    /// From now on the needs of this variant apply.
    pub fn serve(&mut self, variant: Variant) {
        self.variant = Some(variant);
    }

    /// The variant whose needs apply.
    pub fn variant(&self) -> Option<Variant> {
        self.variant
    }

    /// From now on this is known to be the environment.
    pub fn run_in(&mut self, environment: Environment) {
        self.environment = Some(environment);
    }

    /// Takes the environment from `NODE_ENV`, for commands, whose concerns do not declare it. A word that is
    /// no environment leaves it unknown and is no problem: only the server refuses it.
    pub fn run_in_named_environment(&mut self) {
        let word = self.vars.get(Environment::VARIABLE);
        self.environment = word.and_then(|word| Environment::parse(word.to_str()?));
    }

    /// Whether this is certainly production.
    pub fn is_production(&self) -> bool {
        self.environment == Some(Environment::Production)
    }

    /// Notes a problem.
    pub fn report(&mut self, problem: Problem) -> Reported {
        self.problems.push(problem);
        Reported
    }

    /// Notes something that an operator should know and that does not keep the service from starting.
    pub fn warn(&mut self, warning: &str) {
        self.warnings.push(warning.to_owned());
    }

    /// The names of all variables that are set.
    pub fn names(&self) -> Vec<String> {
        self.vars.names()
    }

    /// The warnings so far.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Whether the variable has a value, right or wrong.
    pub fn is_set(&self, setting: &Setting) -> bool {
        self.vars.get(setting.name).is_some_and(|value| !value.is_empty())
    }

    /// A value with a default.
    pub fn value<T>(
        &mut self,
        setting: &Setting,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Reported> {
        let value = self.optional(setting, parse)?;
        // Without a default the table and the parser of the concern do not belong together. A test reads
        // every variable unset, so this is a message that nobody has seen.
        value.ok_or_else(|| self.report(Problem::missing(setting, false)))
    }

    /// A value that may be absent, unless the table says that it is needed.
    pub fn optional<T>(
        &mut self,
        setting: &Setting,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Reported> {
        let Some(text) = self.text(setting)? else { return Ok(None) };
        match parse(&text) {
            Some(value) => Ok(Some(value)),
            None => Err(self.report(Problem::refused(setting, &text))),
        }
    }

    /// A value that a command cannot do without, whatever the variant.
    pub fn needed<T>(
        &mut self,
        setting: &Setting,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Reported> {
        let value = self.optional(setting, parse)?;
        value.ok_or_else(|| self.report(Problem::missing_for_command(setting)))
    }

    /// A value with a default, where less is allowed than the table says.
    pub fn narrowed<T>(
        &mut self,
        setting: &Setting,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Reported> {
        let before = self.problems.len();
        let value = self.value(setting, parse);
        for problem in self.problems.iter_mut().skip(before) {
            allowed.clone_into(&mut problem.allowed);
        }
        value
    }

    /// A number within the range of the table.
    pub fn number<T: TryFrom<u64>>(&mut self, setting: &Setting) -> Result<T, Reported> {
        self.value(setting, |text| within(setting, text))
    }

    /// A number within the range of the table, if one is set.
    pub fn optional_number<T: TryFrom<u64>>(&mut self, setting: &Setting) -> Result<Option<T>, Reported> {
        self.optional(setting, |text| within(setting, text))
    }

    /// A number of milliseconds.
    pub fn duration(&mut self, setting: &Setting) -> Result<Duration, Reported> {
        self.number(setting).map(Duration::from_millis)
    }

    /// `on` or `off`.
    pub fn switch(&mut self, setting: &Setting) -> Result<bool, Reported> {
        self.value(setting, |word| match word {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        })
    }

    /// A text that is not shown, taken as it is.
    pub fn secret(&mut self, setting: &Setting) -> Result<Option<Secret>, Reported> {
        self.optional(setting, |text| Some(Secret::new(text)))
    }

    /// A key that goes into a header. White space around it, as files and shells leave it, cannot be sent and
    /// is dropped; a control character within it comes from pasting more than the key.
    pub fn key(&mut self, setting: &Setting) -> Result<Option<Secret>, Reported> {
        self.optional(setting, |text| {
            let key = text.trim();
            let usable = !key.is_empty() && !key.contains(char::is_control);
            usable.then(|| Secret::new(key))
        })
    }

    /// The address of an HTTP server.
    pub fn http_url(&mut self, setting: &Setting) -> Result<Option<HttpUrl>, Reported> {
        self.optional(setting, HttpUrl::parse)
    }

    /// A path, if one is set.
    pub fn path(&mut self, setting: &Setting) -> Result<Option<PathBuf>, Reported> {
        self.optional(setting, |text| Some(PathBuf::from(text)))
    }

    /// An absolute folder that a variable of the platform names. The XDG specification wants relative ones
    /// ignored.
    pub fn platform_folder(&self, name: &str) -> Option<PathBuf> {
        self.vars.get(name).map(PathBuf::from).filter(|folder| folder.is_absolute())
    }

    /// The text that is set, or the default's. An empty variable counts as one that is not set: that is how
    /// compose files and unit files switch a variable off.
    fn text(&mut self, setting: &Setting) -> Result<Option<String>, Reported> {
        let found = self.vars.get(setting.name);
        let empty = found.as_ref().is_some_and(|value| value.is_empty());
        match found {
            Some(value) if !empty => {
                let text = value.into_string();
                text.map(Some).map_err(|_| self.report(Problem::not_text(setting)))
            }
            _ if self.needs(setting) => Err(self.report(Problem::missing(setting, empty))),
            _ => Ok(setting.default.text()),
        }
    }

    fn needs(&self, setting: &Setting) -> bool {
        match setting.need {
            Need::Always => true,
            Need::VariantB => self.variant.is_some_and(Variant::serves_b),
            Need::Never => false,
        }
    }
}

fn within<T: TryFrom<u64>>(setting: &Setting, text: &str) -> Option<T> {
    let Kind::Number { least, most, .. } = setting.kind else { return None };
    let number = number::whole(text).filter(|number| (least..=most).contains(number))?;
    T::try_from(number).ok()
}
