//! Reads one variable after the other and keeps what is wrong with them, so that all of it is said at once.
//!
//! A method that fails has added to the problems and returns [`Reported`] as the proof of it. Its caller
//! reads all the variables of its concern before the first `?`, or the rest would go unread.

use std::path::PathBuf;
use std::time::Duration;

use super::http_url::HttpUrl;
use super::number;
use super::problem::{Problem, Problems};
use super::service::{Environment, Variant};
use super::variable::{Fallback, Kind, Need, Variable};
use super::variables;
use super::vars::Vars;
use agent_core::secret::Secret;

/// A problem was found and noted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reported;

/// Turns variables into values.
pub(super) struct Reader<'a> {
    vars: &'a dyn Vars,
    /// Absent as long as it is not known: then only what every variant needs is asked for.
    variant: Option<Variant>,
    /// Absent as long as it is not known.
    environment: Option<Environment>,
    problems: Vec<Problem>,
    warnings: Vec<String>,
}

/// Reads with `read` and gives either its result or everything that was wrong.
pub(super) fn collect<T>(
    vars: &dyn Vars,
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, Reported>,
) -> Result<T, Problems> {
    let mut reader =
        Reader { vars, variant: None, environment: None, problems: Vec::new(), warnings: Vec::new() };
    match read(&mut reader) {
        Ok(value) if reader.problems.is_empty() => Ok(value),
        Ok(_) | Err(Reported) => {
            let place =
                |problem: &Problem| variables::ALL.iter().position(|known| known.name == problem.variable);
            reader.problems.sort_by_key(place);
            Err(Problems(reader.problems))
        }
    }
}

impl Reader<'_> {
    /// From now on the needs of this variant apply.
    pub(super) fn serve(&mut self, variant: Variant) {
        self.variant = Some(variant);
    }

    /// The variant whose needs apply.
    pub(super) fn variant(&self) -> Option<Variant> {
        self.variant
    }

    /// From now on this is known to be the environment.
    pub(super) fn run_in(&mut self, environment: Environment) {
        self.environment = Some(environment);
    }

    /// Whether this is certainly production.
    pub(super) fn is_production(&self) -> bool {
        self.environment == Some(Environment::Production)
    }

    /// Notes a problem.
    pub(super) fn report(&mut self, problem: Problem) -> Reported {
        self.problems.push(problem);
        Reported
    }

    /// Notes something that an operator should know and that does not keep the service from starting.
    pub(super) fn warn(&mut self, warning: &str) {
        self.warnings.push(warning.to_owned());
    }

    /// The warnings so far.
    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Whether the variable has a value, right or wrong.
    pub(super) fn is_set(&self, variable: &Variable) -> bool {
        self.vars.get(variable.name).is_some_and(|value| !value.is_empty())
    }

    /// A value with a default.
    pub(super) fn value<T>(
        &mut self,
        variable: &Variable,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Reported> {
        let value = self.optional(variable, parse)?;
        // Without a default the table and the parser of the concern do not belong together. A test reads
        // every variable unset, so this is a message that nobody has seen.
        value.ok_or_else(|| self.report(Problem::missing(variable, false)))
    }

    /// A value that may be absent, unless the table says that it is needed.
    pub(super) fn optional<T>(
        &mut self,
        variable: &Variable,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, Reported> {
        let Some(text) = self.text(variable)? else { return Ok(None) };
        match parse(&text) {
            Some(value) => Ok(Some(value)),
            None => Err(self.report(Problem::refused(variable, &text))),
        }
    }

    /// A value that a command cannot do without, whatever the variant.
    pub(super) fn needed<T>(
        &mut self,
        variable: &Variable,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Reported> {
        let value = self.optional(variable, parse)?;
        value.ok_or_else(|| self.report(Problem::missing_for_command(variable)))
    }

    /// A value with a default, where less is allowed than the table says.
    pub(super) fn narrowed<T>(
        &mut self,
        variable: &Variable,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Reported> {
        let before = self.problems.len();
        let value = self.value(variable, parse);
        for problem in self.problems.iter_mut().skip(before) {
            allowed.clone_into(&mut problem.allowed);
        }
        value
    }

    /// A number within the range of the table.
    pub(super) fn number<T: TryFrom<u64>>(&mut self, variable: &Variable) -> Result<T, Reported> {
        self.value(variable, |text| within(variable, text))
    }

    /// A number within the range of the table, if one is set.
    pub(super) fn optional_number<T: TryFrom<u64>>(
        &mut self,
        variable: &Variable,
    ) -> Result<Option<T>, Reported> {
        self.optional(variable, |text| within(variable, text))
    }

    /// A number of milliseconds.
    pub(super) fn duration(&mut self, variable: &Variable) -> Result<Duration, Reported> {
        self.number(variable).map(Duration::from_millis)
    }

    /// `on` or `off`.
    pub(super) fn switch(&mut self, variable: &Variable) -> Result<bool, Reported> {
        self.value(variable, |word| match word {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        })
    }

    /// A text that is not shown, taken as it is.
    pub(super) fn secret(&mut self, variable: &Variable) -> Result<Option<Secret>, Reported> {
        self.optional(variable, |text| Some(Secret::new(text)))
    }

    /// A key that goes into a header. White space around it, as files and shells leave it, cannot be sent and
    /// is dropped; a control character within it comes from pasting more than the key.
    pub(super) fn key(&mut self, variable: &Variable) -> Result<Option<Secret>, Reported> {
        self.optional(variable, |text| {
            let key = text.trim();
            let usable = !key.is_empty() && !key.contains(char::is_control);
            usable.then(|| Secret::new(key))
        })
    }

    /// The address of an HTTP server.
    pub(super) fn http_url(&mut self, variable: &Variable) -> Result<Option<HttpUrl>, Reported> {
        self.optional(variable, HttpUrl::parse)
    }

    /// A path, if one is set.
    pub(super) fn path(&mut self, variable: &Variable) -> Result<Option<PathBuf>, Reported> {
        self.optional(variable, |text| Some(PathBuf::from(text)))
    }

    /// An absolute folder of the platform, see [`variables::AMBIENT`]. The XDG specification wants relative
    /// ones ignored.
    pub(super) fn ambient_folder(&self, name: &str) -> Option<PathBuf> {
        self.vars.get(name).map(PathBuf::from).filter(|folder| folder.is_absolute())
    }

    /// The text that is set, or the default's. An empty variable counts as one that is not set: that is how
    /// compose files and unit files switch a variable off.
    fn text(&mut self, variable: &Variable) -> Result<Option<String>, Reported> {
        let found = self.vars.get(variable.name);
        let empty = found.as_ref().is_some_and(|value| value.is_empty());
        match found {
            Some(value) if !empty => {
                let text = value.into_string();
                text.map(Some).map_err(|_| self.report(Problem::not_text(variable)))
            }
            _ if self.needs(variable) => Err(self.report(Problem::missing(variable, empty))),
            _ => Ok(match variable.fallback {
                Fallback::Value(text) => Some(text.to_owned()),
                Fallback::Nothing | Fallback::Derived(_) => None,
            }),
        }
    }

    fn needs(&self, variable: &Variable) -> bool {
        match variable.need {
            Need::Always => true,
            Need::VariantB => self.variant.is_some_and(Variant::serves_b),
            Need::Never => false,
        }
    }
}

fn within<T: TryFrom<u64>>(variable: &Variable, text: &str) -> Option<T> {
    let Kind::Number { least, most, .. } = variable.kind else { return None };
    let number = number::whole(text).filter(|number| (least..=most).contains(number))?;
    T::try_from(number).ok()
}
