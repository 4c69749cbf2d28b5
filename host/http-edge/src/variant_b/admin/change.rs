//! What every request that changes something says before its body: who asks, for which component, and which
//! revision of it they have seen.

use agent_core::ports::{AdminError, Operator, ToolAdmin};
use axum::extract::FromRequestParts;
use http::header::IF_MATCH;
use http::request::Parts;
use http::{HeaderMap, Method};

use super::super::auth::Caller;
use super::super::error::{AdminRefusal, Error};
use super::audit::AuditNote;
use super::component_name::ComponentName;

/// A change before its body is read. Handlers take it as an argument: what is wrong with it is answered while
/// the client still waits with the body (`Expect: 100-continue`).
#[derive(Debug)]
pub(super) struct Change {
    caller: Caller,
    name: ComponentName,
    if_match: Option<IfMatch>,
    /// Whether it may be the first that is heard of the component.
    creates: bool,
    note: AuditNote,
}

impl Change {
    /// Who makes the change, and to which revisions.
    pub(super) fn operator(&self) -> Operator<'_> {
        let expected = match &self.if_match {
            Some(IfMatch::Revisions(revisions)) => Some(revisions.as_slice()),
            Some(IfMatch::Any) | None => None,
        };
        Operator { by: self.caller.id(), expected }
    }

    /// The component.
    pub(super) fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Says in the audit line which version it is about. Only the first call counts.
    pub(super) fn note_digest(&self, digest: Option<&str>) {
        if let Some(digest) = digest {
            self.note.set_digest(digest);
        }
    }

    /// Refuses a change that does not say which revision its caller has seen. What such a change does depends
    /// on the state that it finds: made twice, or to another state, it would be another change.
    /// `*` says that there is a component, and not which of its states was seen.
    pub(super) fn require_revision(&self) -> Result<(), AdminRefusal> {
        match &self.if_match {
            Some(IfMatch::Revisions(_)) => Ok(()),
            Some(IfMatch::Any) | None => Err(AdminRefusal::NoRevision),
        }
    }

    /// Whether the component is at a revision that the caller has seen, if they said so: before anything is
    /// read that would be for nothing. A change in between is noticed when it is made
    /// ([`Operator::expected`]).
    pub(super) async fn check_revision(&self, tools: &dyn ToolAdmin) -> Result<(), Error> {
        let Some(wanted) = &self.if_match else { return Ok(()) };
        if *wanted == IfMatch::Any && !self.creates {
            // Where there is no component the change itself says so.
            return Ok(());
        }
        match tools.get(self.name()).await {
            Ok(view) if wanted.matches(view.revision) => Ok(()),
            Ok(view) => Err(AdminRefusal::Changed { revision: view.revision }.into()),
            Err(AdminError::UnknownComponent) if self.creates => Err(AdminRefusal::NeverThere.into()),
            Err(error) => Err(error.into()),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Change {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        Ok(Self {
            caller: Caller::from_request_parts(parts, state).await?,
            name: ComponentName::from_request_parts(parts, state).await?,
            if_match: IfMatch::read(&parts.headers)?,
            creates: parts.method == Method::PUT,
            note: AuditNote::of(&parts.extensions),
        })
    }
}

/// `If-Match` (RFC 9110, section 13.1.1). The tag of a component is its revision.
#[derive(Debug, PartialEq, Eq)]
enum IfMatch {
    /// `*`: any revision, but there has to be one.
    Any,
    /// One of these. Tags that are no revisions match none, and are left out.
    Revisions(Vec<u64>),
}

impl IfMatch {
    fn read(headers: &HeaderMap) -> Result<Option<Self>, AdminRefusal> {
        let mut lines = headers.get_all(IF_MATCH).iter().peekable();
        if lines.peek().is_none() {
            return Ok(None);
        }
        let mut revisions = vec![];
        for line in lines {
            let line = line.to_str().map_err(|_| AdminRefusal::IfMatch)?.trim();
            if line == "*" {
                return Ok(Some(Self::Any));
            }
            for tag in line.split(',') {
                revisions.extend(read_tag(tag.trim())?);
            }
        }
        Ok(Some(Self::Revisions(revisions)))
    }

    fn matches(&self, revision: u64) -> bool {
        match self {
            Self::Any => true,
            Self::Revisions(revisions) => revisions.contains(&revision),
        }
    }
}

/// The revision that a tag names; none when it is weak, which never matches, or not one of ours.
fn read_tag(tag: &str) -> Result<Option<u64>, AdminRefusal> {
    let (is_weak, tag) = tag.strip_prefix("W/").map_or((false, tag), |tag| (true, tag));
    let text = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).ok_or(AdminRefusal::IfMatch)?;
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    Ok(text.parse().ok().filter(|_| is_number && !is_weak))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Result<Option<IfMatch>, AdminRefusal> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(IF_MATCH, line.parse().unwrap());
        }
        IfMatch::read(&headers)
    }

    #[test]
    fn revisions_are_read_as_tags() {
        let revisions = |revisions: &[u64]| Ok(Some(IfMatch::Revisions(revisions.to_vec())));
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&["*"]), Ok(Some(IfMatch::Any)));
        assert_eq!(read(&["\"7\""]), revisions(&[7]));
        assert_eq!(read(&["\"7\", \"8\"", "\"9\""]), revisions(&[7, 8, 9]));
        // Tags that cannot be those of any revision.
        for tag in ["W/\"7\"", "\"\"", "\"+7\"", "\"abc\"", "\"99999999999999999999\""] {
            assert_eq!(read(&[tag]), revisions(&[]), "{tag}");
        }
        for text in ["7", "", "\"7", "\"", "7\"", "\"7\",", "\"7\" \"8\"x", "w/\"7\""] {
            assert_eq!(read(&[text]), Err(AdminRefusal::IfMatch), "{text}");
        }
    }
}
