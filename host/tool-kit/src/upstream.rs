//! Mocked upstreams: the requests of a case are answered in the order of its lines, and what no line answers
//! fails it.

/// A request that is awaited, and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpLine {
    /// The line of the case file.
    pub line: usize,
    /// In capitals.
    pub method: String,
    /// The whole URL, query included.
    pub url: String,
    pub answer: Mock,
    /// How long the answer is held back.
    pub delay_ms: u64,
}

impl HttpLine {
    /// Method and URL in one form.
    fn request(&self) -> String {
        format!("{} {}", self.method, normal(&self.url))
    }
}

/// What a request is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mock {
    Response {
        status: u16,
        /// Headers of the response, names in lower case.
        headers: Vec<(String, String)>,
        body: Vec<u8>,
    },
    /// None, for this reason: `connection-refused`.
    Fails(String),
}

impl Mock {
    /// Whether the same request may be answered otherwise later.
    fn is_failure(&self) -> bool {
        match self {
            Self::Response { status, .. } => *status == 429 || *status >= 500,
            Self::Fails(_) => true,
        }
    }
}

/// How upstreams misbehave, whatever the case says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The policy denies every request.
    Denied,
    /// Nobody listens.
    Refused,
    /// No answer ever comes.
    Silent,
    /// The server fails.
    Error500,
    Busy429,
    /// A page in place of what was asked for.
    Html,
    /// An answer that ends in the middle.
    HalfJson,
    Empty,
    /// Far more than was asked for.
    Huge,
}

/// Every trouble but silence, which takes as long as the call is given.
pub const QUICK_TROUBLES: [Trouble; 8] = [
    Trouble::Denied,
    Trouble::Refused,
    Trouble::Error500,
    Trouble::Busy429,
    Trouble::Html,
    Trouble::HalfJson,
    Trouble::Empty,
    Trouble::Huge,
];

/// Bytes of the body of [`Trouble::Huge`].
const HUGE_BYTES: usize = 512 << 10;

impl Trouble {
    /// What it is, for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Denied => "a host that is denied",
            Self::Refused => "an upstream that refuses connections",
            Self::Silent => "an upstream that never answers",
            Self::Error500 => "an upstream that answers 500",
            Self::Busy429 => "an upstream that answers 429",
            Self::Html => "an upstream that answers HTML",
            Self::HalfJson => "an upstream that answers half of its JSON",
            Self::Empty => "an upstream that answers nothing",
            Self::Huge => "an upstream that answers 512 KiB",
        }
    }

    /// What every request is answered with; nothing where no answer comes.
    pub fn answer(self) -> Option<Mock> {
        let response = |status, kind: &str, body: &[u8]| Mock::Response {
            status,
            headers: vec![("content-type".to_owned(), kind.to_owned())],
            body: body.to_vec(),
        };
        Some(match self {
            Self::Denied => Mock::Fails("http-request-denied".to_owned()),
            Self::Refused => Mock::Fails("connection-refused".to_owned()),
            Self::Silent => return None,
            Self::Error500 => response(500, "text/plain", b"internal server error"),
            Self::Busy429 => response(429, "text/plain", b"too many requests"),
            Self::Html => response(200, "text/html", b"<!doctype html><title>Sign in</title><p>Sign in"),
            Self::HalfJson => response(200, "application/json", b"{\"results\":[{\"title\":\"Ha"),
            Self::Empty => response(200, "application/json", b""),
            Self::Huge => {
                let mut body = b"[\"".to_vec();
                body.resize(HUGE_BYTES, b'x');
                body.extend(b"\"]");
                response(200, "application/json", &body)
            }
        })
    }
}

/// The lines of a case, used up one after the other.
#[derive(Debug, Clone, Default)]
pub struct Upstream {
    lines: Vec<HttpLine>,
    used: usize,
    unexpected: Vec<String>,
}

impl Upstream {
    pub fn new(lines: Vec<HttpLine>) -> Self {
        Self { lines, used: 0, unexpected: vec![] }
    }

    /// The line that answers a request: the next one, if it is of that method and URL. A failure answers the
    /// same request again: the host may make a call again that ended with one. Else why there is none.
    pub fn answer(&mut self, method: &str, url: &str) -> Result<HttpLine, String> {
        let request = format!("{} {}", method.to_ascii_uppercase(), normal(url));
        if let Some(line) = self.used.checked_sub(1).and_then(|at| self.lines.get(at))
            && line.answer.is_failure()
            && line.request() == request
            && self.lines.get(self.used).is_none_or(|next| next.request() != request)
        {
            return Ok(line.clone());
        }
        let problem = match self.lines.get(self.used) {
            Some(line) if line.request() == request => {
                self.used += 1;
                return Ok(line.clone());
            }
            Some(line) => format!(
                "the tool asked for {request}, and line {} of the case file answers {} {} next",
                line.line, line.method, line.url
            ),
            None if self.lines.is_empty() => {
                format!("the tool asked for {request}, and the case answers no request: add a [[case.http]]")
            }
            None => format!("the tool asked for {request} when every [[case.http]] was used up: add one"),
        };
        self.unexpected.push(problem.clone());
        Err(problem)
    }

    /// What went otherwise than the lines say, once the call has ended.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self.unexpected.clone();
        if problems.is_empty() {
            let unused = self.lines.iter().skip(self.used);
            problems.extend(unused.map(|line| {
                format!(
                    "line {} of the case file was not used: the tool did not ask for {} {}",
                    line.line, line.method, line.url
                )
            }));
        }
        problems
    }
}

/// A URL in one form: without a default port, with a path.
fn normal(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (scheme, rest) = (scheme.to_ascii_lowercase(), rest.split('#').next().unwrap_or_default());
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let default = if scheme == "https" { ":443" } else { ":80" };
    let authority = authority.to_ascii_lowercase();
    let authority = authority.strip_suffix(default).unwrap_or(&authority);
    let slash = if path.starts_with('/') { "" } else { "/" };
    format!("{scheme}://{authority}{slash}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(method: &str, url: &str) -> HttpLine {
        let answer = Mock::Response { status: 200, headers: vec![], body: vec![] };
        HttpLine { line: 7, method: method.into(), url: url.into(), answer, delay_ms: 0 }
    }

    #[test]
    fn lines_answer_in_their_order_whatever_form_a_url_has() {
        let mut upstream = Upstream::new(vec![
            line("GET", "https://Example.org?q=1"),
            line("POST", "http://example.org:8080/a"),
        ]);
        upstream.answer("get", "https://example.org:443/?q=1#part").unwrap();
        upstream.answer("POST", "http://EXAMPLE.org:8080/a").unwrap();
        assert_eq!(upstream.problems(), Vec::<String>::new());
    }

    #[test]
    fn what_no_line_answers_and_lines_that_answer_nothing_are_problems() {
        let mut upstream = Upstream::new(vec![line("GET", "https://a.example/")]);
        insta::assert_snapshot!(upstream.problems().join("\n"),
            @"line 7 of the case file was not used: the tool did not ask for GET https://a.example/");
        insta::assert_snapshot!(upstream.answer("GET", "https://b.example").unwrap_err(),
            @"the tool asked for GET https://b.example/, and line 7 of the case file answers GET https://a.example/ next");
        upstream.answer("GET", "https://a.example").unwrap();
        insta::assert_snapshot!(upstream.answer("GET", "https://a.example").unwrap_err(),
            @"the tool asked for GET https://a.example/ when every [[case.http]] was used up: add one");
        assert_eq!(upstream.problems().len(), 2);
        insta::assert_snapshot!(Upstream::default().answer("GET", "https://a.example").unwrap_err(),
            @"the tool asked for GET https://a.example/, and the case answers no request: add a [[case.http]]");
    }

    #[test]
    fn a_failure_answers_the_same_request_again_until_the_next_line_is_of_it() {
        let fails = HttpLine {
            answer: Mock::Fails("connection-refused".into()),
            ..line("GET", "https://a.example/")
        };
        let mut upstream = Upstream::new(vec![fails.clone()]);
        for _ in 0..3 {
            assert_eq!(upstream.answer("GET", "https://a.example/"), Ok(fails.clone()));
        }
        upstream.answer("GET", "https://b.example/").unwrap_err();
        let good = line("GET", "https://a.example/");
        let mut upstream = Upstream::new(vec![fails.clone(), good.clone()]);
        assert_eq!(upstream.answer("GET", "https://a.example/"), Ok(fails));
        assert_eq!(upstream.answer("GET", "https://a.example/"), Ok(good));
        upstream.answer("GET", "https://a.example/").unwrap_err();
    }

    #[test]
    fn every_trouble_is_an_answer_but_silence() {
        assert!(QUICK_TROUBLES.iter().all(|trouble| trouble.answer().is_some()));
        assert_eq!(Trouble::Silent.answer(), None);
    }
}
